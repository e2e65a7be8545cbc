# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 5, facts: apt's entries for the CUDA repository, their keys, and whether apt holds a verified index of it."""

from __future__ import annotations

import re
from typing import Any

from .. import _apt_sources, _openpgp
from .host import Host

LISTS = "/var/lib/apt/lists"
_FINGERPRINT = re.compile(r"^[0-9A-Fa-f]{40}!?$")


def observe(host: Host, wishes: dict[str, Any]) -> dict[str, Any]:
    mirror = wishes.get("mirror")
    entries, malformed = [], []
    for path in source_files(host):
        text = host.read(path)
        if text is None:
            continue
        parsed = _apt_sources.parse(path, text)
        entries += [item.as_dict() for item in parsed if _apt_sources.concerns_cuda(item, [mirror] if mirror else [])]
        malformed += problems(path, text, parsed)
    first = next((item for item in entries if item["enabled"]), None)
    keyrings = {item["signed_by"] or "": keyring(host, item["signed_by"]) for item in entries}
    facts: dict[str, Any] = {
        "entries": entries,
        "malformed": malformed,
        "keyrings": keyrings,
        "keyring": keyrings[first["signed_by"] or ""] if first else None,
        "verifier": "sqv" if host.executable("/usr/bin/sqv") else "gpgv",
        "fetched": False,
        "lists_empty": not host.find(f"{LISTS}/*Release"),
    }
    if first:
        index = indexes(host, first["uri"])
        facts["fetched"] = bool(index["release"] and index["packages"])
        facts["index"] = index
        facts["signature"] = signature(host, index["release"], facts["keyring"])
        if wishes.get("network"):
            # Imported when somebody asks for it: the texts of apt's errors take longer to compile than all else here.
            from . import network

            facts["network"] = network.fetch(host, first)
    return facts


def source_files(host: Host) -> list[str]:
    """The files that apt reads, in its order."""
    named = [f"/etc/apt/sources.list.d/{name}" for name in host.names("/etc/apt/sources.list.d")]
    return ["/etc/apt/sources.list", *[path for path in named if _apt_sources.format_of(path)]]


def problems(path: str, text: str, parsed: list[_apt_sources.Entry]) -> list[dict[str, str]]:
    """What apt refuses to read in a file: [{file, problem}]."""
    for item in parsed:
        if item.enabled and not item.suites:
            return [{"file": path, "problem": f"line {item.line} names no suite"}]
    if path.endswith(".sources"):
        return []
    known = {item.line for item in parsed}
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.partition("#")[0].split()
        if words and number not in known:
            return [{"file": path, "problem": f"line {number} is {line.strip()[:60]!r}"}]
    return []


def keyring(host: Host, signed_by: str | None) -> dict[str, Any]:
    """{path, exists, fingerprints} of what Signed-By names: files, an embedded key, fingerprints, or nothing."""
    if not signed_by:
        files = [*host.find("/etc/apt/trusted.gpg.d/*.gpg"), *host.find("/etc/apt/trusted.gpg.d/*.asc")]
        files += [path for path in ("/etc/apt/trusted.gpg",) if host.is_file(path)]
        return {"path": "/etc/apt/trusted.gpg.d", "exists": True, **_keys(host, files)}
    if "BEGIN PGP" in signed_by:
        text = "\n".join("" if line.strip() == "." else line.strip() for line in signed_by.split("\n"))
        return {"path": None, "exists": True, **_keys_in(text.encode())}
    words = [word for word in re.split(r"[,\s]+", signed_by) if word]
    files = [word for word in words if word.startswith("/")]
    named = [word.rstrip("!").upper() for word in words if _FINGERPRINT.match(word)]
    keys = _keys(host, files)
    return {
        "path": ", ".join(files) or None,
        "exists": all(host.is_file(path) for path in files),
        "private": next((problem for problem in map(host.private, files) if problem), None),
        **keys,
        "fingerprints": keys["fingerprints"] + named,
    }


def _keys(host: Host, files: list[str]) -> dict[str, Any]:
    """{fingerprints, problem}: the keys in these files; problem is what is wrong with the first one that holds none."""
    found: dict[str, Any] = {"fingerprints": [], "expires": {}}
    for path in files:
        keys = _keys_in(host.read_bytes(path) or b"")
        found["expires"].update(keys["expires"])
        found["fingerprints"] += [key for key in keys["fingerprints"] if key not in found["fingerprints"]]
        found.setdefault("problem", keys.get("problem"))
    return found


def _keys_in(content: bytes) -> dict[str, Any]:
    try:
        return {"fingerprints": _openpgp.fingerprints(content), "expires": _openpgp.expiries(content)}
    except _openpgp.NoKeyring as error:
        return {"fingerprints": [], "expires": {}, "problem": str(error)}


def list_name(uri: str) -> str:
    """How apt names the files of an address below lists/, up to the part that tells them apart."""
    place = uri.partition("://")[2] if "://" in uri else uri.partition(":")[2]
    place = place.rpartition("@")[2].rstrip("/") + "/"
    quoted = re.sub(r"[^A-Za-z0-9/.:+,;?&'()-]", lambda found: f"%{ord(found.group(0)):02x}", place)
    return quoted.replace("/", "_")


def indexes(host: Host, uri: str) -> dict[str, Any]:
    """{release, packages}: the files of an address that apt has verified and keeps; None where there is none."""
    stem = list_name(uri)
    mine = [name for name in host.names(LISTS) if name.startswith(stem)]
    release = next((name for name in mine if name.endswith(("InRelease", "_Release", "Release"))), None)
    packages = next((name for name in mine if "_Packages" in name or name[len(stem) :].startswith("Packages")), None)
    return {
        "release": f"{LISTS}/{release}" if release else None,
        "packages": f"{LISTS}/{packages}" if packages else None,
    }


def signature(host: Host, release: str | None, keys: dict[str, Any] | None) -> dict[str, Any]:
    """{verified, problem, evidence}: whether the index that apt holds is signed by the keys that it names today.

    verified is None where that cannot be told here: no index, keys that are not one binary file, or no gpgv.
    """
    path = (keys or {}).get("path") or ""
    if not release or not release.endswith("InRelease") or not path.endswith(".gpg") or not host.is_file(path):
        return {"verified": None}
    if not host.executable("/usr/bin/gpgv"):
        return {"verified": None}
    command = ("/usr/bin/gpgv", "--keyring", host.path(path), host.path(release))
    done = host.run(*command, timeout=10)
    if done.status == 0 or done.problem:
        return {"verified": True if done.status == 0 else None, "evidence": " ".join(command)}
    lines = [line.partition("gpgv: ")[2] or line for line in done.stderr.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if "signature" in line.lower()), lines[-1] if lines else "no reason")
    return {"verified": False, "problem": said.strip(), "evidence": " ".join(command)}
