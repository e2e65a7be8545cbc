# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The Python packages of an environment, by the names of their metadata folders: no file is opened for a version."""

from __future__ import annotations

import os
import platform
import re
from typing import Any

from .host import Host

_FOLDER = re.compile(r"^(.+?)-(\d[^-]*)(?:-py3[^-]*)?\.(?:dist-info|egg-info)$")
_REQUIREMENT = re.compile(r"^Requires-Dist: ([A-Za-z0-9_.-]+)(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(?:;\s*(.*))?$")
_LIBRARY = re.compile(r"^([^,\n]+\.so[^,/\n]*),[^,\n]*,(\d+)\r?$", re.MULTILINE)  # pip ends lines as csv does


def normalise(name: str) -> str:
    """PEP 503: Causal_Conv1d -> causal-conv1d."""
    return re.sub(r"[-_.]+", "-", name).lower()


def folders(host: Host, path: str, python: str) -> list[str]:
    """The folders that this Python imports from, the environment's own first."""
    found = host.find(f"{path.rstrip('/')}/lib/python3*/site-packages")
    if path.rstrip("/") in ("", "/usr", "/usr/local"):
        found = system_folders(host)
    elif "include-system-site-packages = true" in (host.read(f"{path}/pyvenv.cfg") or "").lower():
        found += [folder for folder in system_folders(host) if folder not in found]
    return found


def system_folders(host: Host) -> list[str]:
    return [*host.find("/usr/local/lib/python3*/dist-packages"), *host.find("/usr/lib/python3/dist-packages")]


def installed(host: Host, where: list[str]) -> dict[str, str]:
    """{normalised name: version}; a package in several folders counts from the first."""
    found: dict[str, str] = {}
    for folder in where:
        for name in host.names(folder):
            match = _FOLDER.match(name)
            if match and not name.startswith("~"):
                found.setdefault(normalise(match.group(1)), match.group(2))
    return found


def requirements(host: Host, folder: str, metadata: str) -> list[dict[str, str]]:
    """[{name, spec}] that a distribution needs on this machine, from its METADATA; extras do not count."""
    text = host.read(f"{folder}/{metadata}/METADATA", 1 << 16) or ""
    python = re.search(r"/python(3\.\d+)/", folder + "/")
    found = []
    for line in text.partition("\n\n")[0].splitlines():  # the description follows
        match = _REQUIREMENT.match(line) if line.startswith("Requires-Dist: ") else None
        if match and applies(match.group(3) or "", python.group(1) if python else ""):
            found.append({"name": normalise(match.group(1)), "spec": match.group(2).strip()})
    return found


def applies(marker: str, python: str) -> bool:
    """Whether a marker is true on this machine for Python "3.11"; False for what this does not understand (extras)."""
    values = {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": platform.machine()}
    for clause in marker.replace("(", " ").replace(")", " ").split(" and "):
        words = clause.strip().split(" ", 2)
        if words == [""]:
            continue
        if len(words) != 3:
            return False
        wanted = words[2].strip("\"' ")
        if words[0] == "python_version":
            if not python or not _compares(python, words[1], wanted):
                return False
        elif words[0] not in values or words[1] != "==" or values[words[0]] != wanted:
            return False
    return True


def _compares(python: str, operator: str, wanted: str) -> bool:
    have, want = ([int(part) for part in text.split(".")[:2] if part.isdigit()] for text in (python, wanted))
    results = {"<": have < want, "<=": have <= want, ">": have > want, ">=": have >= want, "==": have == want}
    return results.get(operator, False)


def lacking(host: Host, folder: str, have: dict[str, str]) -> list[dict[str, str]]:
    """[{name, spec, by}]: what distributions of this folder need and have does not hold, each once."""
    found: dict[str, dict[str, str]] = {}
    for metadata in host.names(folder):
        match = _FOLDER.match(metadata)
        if match and metadata.endswith(".dist-info") and not metadata.startswith("~"):
            for need in requirements(host, folder, metadata):
                if need["name"] not in have:
                    found.setdefault(need["name"], {**need, "by": normalise(match.group(1))})
    return list(found.values())


def damaged(host: Host, folder: str, names: list[str]) -> list[dict[str, str]]:
    """[{name, metadata, file, problem}] of these distributions: the first library of each that is gone, or smaller than
    pip recorded, as after a full disk or a deletion by hand."""
    found = []
    for metadata in host.names(folder):
        match = _FOLDER.match(metadata)
        if match and metadata.endswith(".dist-info") and normalise(match.group(1)) in names:
            for file, size in _LIBRARY.findall(host.read(f"{folder}/{metadata}/RECORD") or ""):
                problem = _shrunk(host.size(f"{folder}/{file}"), int(size))
                if problem:
                    where = {"metadata": f"{folder}/{metadata}", "file": f"{folder}/{file}"}
                    found.append({"name": normalise(match.group(1)), "problem": problem, **where})
                    break
    return found


def _shrunk(size: int | None, recorded: int) -> str | None:
    if size is None:
        return "is gone"
    return f"holds {size} of its {recorded} bytes" if size < recorded else None


def python_facts(host: Host, path: str, where: list[str]) -> dict[str, str | None]:
    """python_version ("3.11.2"; "3.11" when only that is known) and python_tag ("cp311")."""
    config = re.search(
        r"^version(?:_info)?\s*=\s*(3\.\d+(?:\.\d+)?)", host.read(f"{path}/pyvenv.cfg") or "", re.MULTILINE
    )
    conda = [re.match(r"python-(3\.\d+\.\d+)-", name) for name in host.names(f"{path}/conda-meta")]
    folder = re.search(r"/python(3\.\d+)/", where[0] + "/") if where else None
    candidates: list[Any] = [config, *[match for match in conda if match], folder]
    version = next((match.group(1) for match in candidates if match), None)
    short = re.match(r"3\.(\d+)", version or "")
    return {"python_version": version, "python_tag": f"cp3{short.group(1)}" if short else None}


def python_headers(host: Host, path: str, version: str | None) -> dict[str, Any] | None:
    """{path, exists} of Python.h for the Python that the environment was made with; None when that is unknown."""
    if not version:
        return None
    short = ".".join(version.split(".")[:2])
    home = re.search(r"^home\s*=\s*(.+?)\s*$", host.read(f"{path}/pyvenv.cfg") or "", re.MULTILINE)
    prefix = os.path.dirname(home.group(1)) if home else path
    if prefix == "/":  # home = /bin on a merged /usr
        prefix = "/usr"
    header = f"{prefix.rstrip('/')}/include/python{short}/Python.h"
    return {"path": header, "exists": host.is_file(header)}
