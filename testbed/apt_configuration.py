# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's own apt configuration, read so that containers use the same release, mirror, keys and proxy.

Both formats that apt knows are read: one line a source (sources.list(5)) and deb822 (``.sources``).
"""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from testbed.errors import TestbedError

ALIASES = ("stable", "oldstable", "testing", "unstable")
SUFFIXES = ("", "-updates", "-security", "-backports")


@dataclass(frozen=True)
class Source:
    """One repository: ``suites`` and ``components`` in the file's order, ``signed_by`` a path, a key block or ''."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""
    options: dict[str, str] = field(default_factory=dict)


def parse_list(text: str) -> list[Source]:
    """Entries of a one-line-style file. Lines of ``deb-src``, comments and what cannot be parsed are left out."""
    sources = []
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s*(.*)$", line.split("#")[0])
        if not match:
            continue
        options = dict(pair.split("=", 1) for pair in (match[1] or "").split() if "=" in pair)
        signed_by = options.pop("signed-by", "")
        sources.append(Source((match[2],), (match[3],), tuple(match[4].split()), signed_by, options))
    return sources


def parse_deb822(text: str) -> list[Source]:
    """Stanzas of a deb822 file; ``Enabled: no`` and source-only stanzas are left out."""
    sources = []
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t") and name:
                fields[name] += "\n" + line.strip()
            elif ":" in line:
                name, value = line.split(":", 1)
                name = name.strip().lower()
                fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        sources.append(
            Source(
                tuple(fields.get("uris", "").split()),
                tuple(fields.get("suites", "").split()),
                tuple(fields.get("components", "").split()),
                fields.get("signed-by", ""),
            )
        )
    return sources


def read_sources(etc_apt: Path = Path("/etc/apt")) -> list[Source]:
    """Every enabled binary repository of the machine, in apt's own order of files."""
    sources: list[Source] = []
    files = [etc_apt / "sources.list", *sorted((etc_apt / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        text = file.read_text(errors="replace")
        sources += parse_list(text) if file.suffix == ".list" else parse_deb822(text)
    return sources


def debian_sources(sources: list[Source], codename: str) -> list[Source]:
    """The entries that make up Debian itself: named after the release, with the component ``main``.

    Third parties (PostgreSQL's ``bookworm-pgdg`` for one) name their suites after the release too, hence the suffixes.
    """
    wanted = {name + suffix for name in (codename, *ALIASES) for suffix in SUFFIXES}
    found = []
    for source in sources:
        suites = tuple(suite for suite in source.suites if suite.split("/")[0] in wanted)
        if suites and source.uris and "main" in source.components:
            found.append(Source(source.uris, suites, source.components, source.signed_by, source.options))
    if not any(suite in (codename, *ALIASES) for source in found for suite in source.suites):
        raise TestbedError(
            f"apt on this machine (/etc/apt/sources.list, /etc/apt/sources.list.d) has no entry for Debian {codename}"
            " with the component main: the testbed takes its mirror from there, so add one."
        )
    return found


def one_line_format(sources: list[Source]) -> str:
    """The entries as a sources.list, for mmdebstrap and for the containers."""
    lines = []
    for source in sources:
        signed = source.signed_by if source.signed_by.startswith("/") else ""
        options = {**({"signed-by": signed} if signed else {}), **source.options}
        shown = "[" + " ".join(f"{key}={value}" for key, value in options.items()) + "] " if options else ""
        lines += [
            f"deb {shown}{uri} {suite} {' '.join(source.components)}" for uri in source.uris for suite in source.suites
        ]
    return "\n".join(lines) + "\n"


def proxies() -> dict[str, str]:
    """apt's own proxy settings (``http``, ``https``), from ``apt-config dump``."""
    text = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, timeout=30, check=False).stdout
    found = {}
    for line in text.splitlines():
        match = re.match(r'Acquire::(https?)::[Pp]roxy (".*");$', line)
        if match:
            found[match[1]] = "".join(shlex.split(match[2]))
    return {scheme: value for scheme, value in found.items() if value and value != "DIRECT"}
