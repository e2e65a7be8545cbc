# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 8, facts: each wanted extension, the record of its wheel, its compiled modules and the GPUs they are for."""

from __future__ import annotations

import csv
import platform
import re
from typing import Any

from .. import _elf
from . import base, distributions, torch
from .host import Host

#: What role cuda_extensions writes into the metadata folder of a wheel that it built. It goes when somebody installs
#: another wheel over it, so it never speaks of a package that is not there.
RECORD = "proxmox_gpu.json"
_MODULE = re.compile(r"^([A-Za-z0-9_./]+?)\.(?:cpython-[^/]+|abi3)\.so$|^([A-Za-z0-9_./]+)\.so$")


def observe(host: Host, wishes: dict[str, Any], known: dict[str, Any] | None = None) -> dict[str, Any]:
    """{name: {version, location, record, key, modules}} of the wanted extensions that are installed."""
    environment = (known or {}).get("torch") or torch.observe(host, wishes)
    if not environment.get("python"):
        return {}
    folders = distributions.folders(host, environment["path"], environment["python"])
    found = {}
    for name in wishes.get("extensions") or []:
        plain = distributions.normalise(str(name))
        version = (environment.get("distributions") or {}).get(plain)
        if version:
            found[plain] = extension(host, plain, version, folders, environment)
    return found


def extension(host: Host, name: str, version: str, folders: list[str], environment: dict[str, Any]) -> dict[str, Any]:
    folder, metadata = located(host, name, version, folders)
    record = host.read_json(f"{folder}/{metadata}/{RECORD}")
    files = compiled(host.read(f"{folder}/{metadata}/RECORD") or "")
    modules = [module(host, folder, path, size) for path, size in files.items()]
    return {
        "version": version,
        "location": f"{folder}/{metadata}",
        "record": record,
        "key": key(record, version, environment),
        "modules": modules,
    }


def located(host: Host, name: str, version: str, folders: list[str]) -> tuple[str, str]:
    """(the folder, the name of the metadata folder in it) of an installed distribution."""
    for folder in folders:
        for entry in host.names(folder):
            if entry.endswith(f"-{version}.dist-info") and distributions.normalise(entry.partition("-")[0]) == name:
                return folder, entry
    return (folders or [""])[0], ""


def compiled(record: str) -> dict[str, int | None]:
    """{shared object: bytes} of a distribution, from its RECORD, relative to the folder that holds it."""
    rows = [row for row in csv.reader(record.splitlines()) if row and row[0].endswith(".so")]
    return {row[0]: int(row[2]) if len(row) > 2 and row[2].isdigit() else None for row in rows}


def module(host: Host, folder: str, path: str, recorded: int | None = None) -> dict[str, Any]:
    """{name, file, exists, gpu_targets, problem, exchanged}; the targets are read from the file's own headers.

    exchanged: the file is not the one that was installed, by its size.
    """
    file = f"{folder}/{path}"
    match = _MODULE.match(path)
    stem = (match.group(1) or match.group(2)) if match else path
    facts: dict[str, Any] = {
        "name": stem.replace("/", "."),
        "file": file,
        "exists": host.is_file(file),
        "gpu_targets": [],
    }
    if facts["exists"]:
        try:
            facts["gpu_targets"] = list(_elf.gpu_targets(host.path(file)))
        except (_elf.ElfError, OSError) as error:
            facts["problem"] = str(error)
        facts["exchanged"] = recorded is not None and host.size(file) != recorded
    return facts


def key(record: dict[str, Any] | None, version: str, environment: dict[str, Any]) -> dict[str, Any]:
    """Today's values of the fields that the recorded key has: what a wheel built now would carry.

    What only a build decides (its source, the wanted targets, its flags) is taken over from the record.
    """
    recorded = dict((record or {}).get("key") or {})
    today = {
        "version": version,
        "torch": environment.get("version"),
        "torch_cuda": environment.get("cuda"),
        "python_tag": environment.get("python_tag"),
        "cxx11_abi": environment.get("cxx11_abi"),
        "machine": platform.machine(),
        "libc": f"glibc-{base.glibc()}",
    }
    return {**recorded, **{name: value for name, value in today.items() if value is not None}}
