# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 4, facts: the training environment and its torch, read from files alone. Nothing is imported."""

from __future__ import annotations

import os
import re
from typing import Any

from . import distributions, shells
from .host import Host

#: Where people keep environments. Homes, which may lie on a slow network, only when torch is not where it should be.
ELSEWHERE = ("/opt/*", "/opt/*/envs/*", "/root/*", "/root/.venv", "/root/*/envs/*", "/home/*/*", "/home/*/*/envs/*",
             "/srv/*", "/usr/local", "/usr")  # fmt: skip
#: What module python_environment leaves in an environment that it made.
STAMP = "proxmox_gpu.json"
_ASSIGNMENT = re.compile(r"^(__version__|cuda|hip|debug)\s*(?::[^=]+)?=\s*(.+?)\s*$", re.MULTILINE)
_ABI = re.compile(r"_GLIBCXX_USE_CXX11_ABI=([01])")


def observe(host: Host, wishes: dict[str, Any]) -> dict[str, Any]:
    path = str(wishes.get("environment_path") or "/opt/training").rstrip("/") or "/"
    facts: dict[str, Any] = {"path": path, "python": None, "version": None}
    python, broken = interpreter(host, path)
    if broken:
        facts["broken_python"] = broken
    if python is None:
        facts["elsewhere"] = elsewhere(host, path)
        return facts
    folders = distributions.folders(host, path, python)
    facts.update(python=python, site_packages=folders[0] if folders else None)
    facts.update(distributions.python_facts(host, path, folders))
    facts["distributions"] = distributions.installed(host, folders)
    facts.update(torch_facts(host, path, folders))
    facts["elsewhere"] = elsewhere(host, path, homes=not facts["version"] and not facts.get("problem"))
    if folders and not host.exists(f"{path}/conda-meta"):
        libraries = [
            name for name in facts["distributions"] if name in ("torch", "triton") or name.startswith("nvidia-")
        ]
        facts["damaged"] = distributions.damaged(host, folders[0], libraries)
    if folders:
        facts["astray"] = shells.astray(host, folders[0])
    facts["managed"] = host.is_file(f"{path}/{STAMP}")
    facts["making"] = making(host, path)
    if facts["managed"] and folders:
        facts["lacking"] = distributions.lacking(host, folders[0], facts["distributions"])
    return facts


def making(host: Host, path: str) -> bool:
    """Whether an installation by the module has begun and not come to its end; a stamp that cannot be read says no more
    than that."""
    stamp = f"{path}/{STAMP}"
    return host.is_file(stamp) and (host.read_json(stamp) or {}).get("state") != "made"


def interpreter(host: Host, path: str) -> tuple[str | None, dict[str, str] | None]:
    """(the environment's python, None), or (None, what is wrong with it), or (None, None) where there is none."""
    for name in ("python", "python3"):
        python = f"{path.rstrip('/')}/bin/{name}"
        if host.executable(python):
            wrong = moved(host, path, python)
            return (None, wrong) if wrong else (python, None)
        if os.path.islink(host.path(python)):
            return None, {"path": python, "problem": f"points to {host.realpath(python)}, which is not there"}
    return None, None


def moved(host: Host, path: str, python: str) -> dict[str, str] | None:
    """A virtual environment made for one Python whose link leads to another one since a system upgrade."""
    now = re.search(r"python(3\.\d+)$", host.realpath(python))
    made = [os.path.basename(folder) for folder in host.find(f"{path}/lib/python3.*")]
    if not now or not made or not host.is_file(f"{path}/pyvenv.cfg") or f"python{now.group(1)}" in made:
        return None
    return {"path": python, "problem": f"is Python {now.group(1)} now, and the environment was made for {made[-1]}"}


def torch_facts(host: Host, path: str, folders: list[str]) -> dict[str, Any]:
    """version, cuda (None for a CPU build), hip, cxx11_abi, requirements; problem when it is half installed."""
    for folder in folders:
        text = host.read(f"{folder}/torch/version.py")
        remains = [name for name in host.names(folder) if name.startswith("~")]
        records = [name for name in host.names(folder) if re.match(r"torch-[^-]+\.dist-info$", name)]
        if text is None and not records:
            continue
        if text is None:
            return {"version": None, "problem": f"its metadata ({records[0]}) is there and torch/version.py is not"}
        values = {name: literal(value) for name, value in _ASSIGNMENT.findall(text)}
        facts: dict[str, Any] = {
            "version": values.get("__version__"),
            "cuda": values.get("cuda"),
            "hip": values.get("hip"),
            "cxx11_abi": cxx11_abi(host, folder),
            "requirements": [] if host.exists(f"{path}/conda-meta") else pins(host, folder, records),
        }
        problem = half_installed(records, [name for name in remains if "orch" in name], values.get("__version__"))
        recorded = records or [name for name in host.names(folder) if re.match(r"torch-.+egg-(info|link)$", name)]
        if not recorded and not host.exists(f"{path}/conda-meta"):
            problem = "its files are there and its metadata is not, as when pip was stopped"
        return {**facts, "problem": problem} if problem else facts
    return {"version": None}


def half_installed(records: list[str], remains: list[str], version: str | None) -> str | None:
    """A half sentence when pip did not finish: two records, remains of a move, or a record of another version."""
    if len(records) > 1:
        return f"it has the metadata of {len(records)} versions ({', '.join(records)})"
    if remains:
        return f"pip left the remains of another version ({', '.join(remains)})"
    recorded = records[0][len("torch-") : -len(".dist-info")] if records else version
    if version and recorded and recorded.partition("+")[0] != version.partition("+")[0]:
        return f"its files are version {version} and its metadata says {recorded}"
    return None


def literal(text: str) -> str | None:
    """'13.0' -> 13.0; None, and whatever is no quoted text, -> None."""
    found = re.match(r"""(['"])(.*)\1""", text.strip())
    return found.group(2) if found else None


def cxx11_abi(host: Host, folder: str) -> bool | None:
    """Which C++ ABI torch was built with; None when it cannot be told.

    By the flags that it hands to CMake, which torch 2.14 does not have any more, else by the names in its smallest
    library: std::string is called __cxx11::basic_string in the new one only.
    """
    found = _ABI.search(host.read(f"{folder}/torch/share/cmake/Torch/TorchConfig.cmake") or "")
    if found:
        return found.group(1) == "1"
    library = host.read_bytes(f"{folder}/torch/lib/libc10.so")
    return None if library is None else b"__cxx1112basic_string" in library


def pins(host: Host, folder: str, records: list[str]) -> list[dict[str, str]]:
    """[{name, spec}] of what torch is pinned to: exact versions, and those that may differ in the last number."""
    found = distributions.requirements(host, folder, records[0]) if records else []
    return [need for need in found if need["spec"].startswith(("==", "~="))]


def elsewhere(host: Host, path: str, homes: bool = True) -> list[str]:
    """Other environments with torch, at most five."""
    found: list[str] = []
    for pattern in [place for place in ELSEWHERE if homes or not place.startswith("/home/")]:
        for kind in ("site-packages", "dist-packages"):
            for file in host.find(f"{pattern}/lib/python3*/{kind}/torch/version.py"):
                place = file.partition("/lib/python3")[0] or "/"
                if place != path and place not in found:
                    found.append(place)
    return found[:5]
