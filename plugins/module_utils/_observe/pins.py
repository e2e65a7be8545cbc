# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""apt's preferences: which files pin what, and whether a package of a name may be installed at all."""

from __future__ import annotations

import fnmatch
import re
from typing import Any

from .host import Host

FOLDER = "/etc/apt/preferences.d"


def files(host: Host) -> dict[str, list[dict[str, Any]]]:
    """{file: [{package, pin, priority}]} for each preferences file that names a CUDA or NVIDIA package or origin."""
    found = {}
    for path in ["/etc/apt/preferences", *[f"{FOLDER}/{name}" for name in host.names(FOLDER) if readable(name)]]:
        records = parse(host.read(path, 1 << 20) or "")
        if any(re.search("cuda|nvidia|nvcc", f"{item['package']} {item['pin']}", re.IGNORECASE) for item in records):
            found[path] = records
    return found


def readable(name: str) -> bool:
    """apt reads files without an ending or with .pref alone."""
    return bool(re.fullmatch(r"[A-Za-z0-9_-]+(\.pref)?", name))


def parse(text: str) -> list[dict[str, Any]]:
    """[{package, pin, priority}]; a record without one of the three is left out, as apt ignores it."""
    records = []
    for stanza in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n?", "", text)):
        values: dict[str, str] = {}
        name = ""
        for line in stanza.split("\n"):
            if line[:1] in (" ", "\t") and name:
                values[name] += " " + line.strip()
            elif ":" in line:
                name, _colon, value = line.partition(":")
                name = name.strip().lower()
                values[name] = value.strip()
        priority = values.get("pin-priority", "")
        if values.get("package") and values.get("pin") and re.fullmatch(r"-?\d+", priority):
            records.append({"package": values["package"], "pin": values["pin"], "priority": int(priority)})
    return records


def blocked(found: dict[str, list[dict[str, Any]]], names: tuple[str, ...]) -> bool:
    """Whether a negative priority names each of these packages, whatever the release is that it is pinned for."""
    banned = [record["package"] for records in found.values() for record in records if record["priority"] < 0]
    return all(any(matches(patterns, name) for patterns in banned) for name in names)


def forbidding(found: dict[str, list[dict[str, Any]]], name: str) -> dict[str, Any] | None:
    """{file, package, priority} of the first record by which apt never installs a package of this name."""
    for file, records in found.items():
        for record in records:
            if record["priority"] < 0 and matches(record["package"], name):
                return {"file": file, "package": record["package"], "priority": record["priority"]}
    return None


def matches(patterns: str, name: str) -> bool:
    """Whether a Package field (names, globs, /expressions/) means this package."""
    for pattern in patterns.split():
        if pattern.startswith("/") and pattern.endswith("/") and len(pattern) > 2:
            try:
                if re.search(pattern[1:-1], name):
                    return True
            except re.error:
                continue
        elif fnmatch.fnmatchcase(name, pattern):
            return True
    return False
