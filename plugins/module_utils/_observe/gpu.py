# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 3, facts: device nodes, live majors, the node's kernel module, driver libraries, and who may open what."""

from __future__ import annotations

import errno
import glob
import grp
import os
import pwd
import re
import stat
from typing import Any

from .._fast_path import child
from .host import Host, kind_of

#: Without these torch sees no GPU. The others are optional (display, tracing, partitioning).
REQUIRED = ("nvidiactl", "nvidia-uvm")
OPTIONAL = ("nvidia-uvm-tools", "nvidia-modeset")
#: Where the user-space libraries of the driver lie: Debian, Ubuntu, the runfile installer.
LIBRARIES = ("/usr/lib/*-linux-gnu", "/usr/lib/*-linux-gnu/nvidia/current", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_MODULE = re.compile(r"Kernel Module.*?\s(\d{3}\.\d+(?:\.\d+)?)\s")
_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d{3}\.\d+(?:\.\d+)?)$")
_UNMAPPED = 65534


def observe(host: Host, wishes: dict[str, Any]) -> dict[str, Any]:
    user = str(wishes.get("user") or "root")
    account = identity(user)
    majors = live_majors(host.read(f"{host.proc}/devices") or "")
    version_file = f"{host.proc}/driver/nvidia/version"
    module = _MODULE.search(host.read(version_file) or "")
    configured = bool(wishes.get("devices")) or "/nvidia" in mounted_devices(host)
    nodes = device_nodes(host, majors, account, configured)
    facts: dict[str, Any] = {
        "nodes": nodes,
        "configured": configured,
        "module_version": module.group(1) if module else None,
        "version_file": version_file,
        "libraries": libraries(host, wishes),
        "user": user,
        "gpus": [],
        "load": None,
    }
    if facts["module_version"] and any(node["kind"] == "char" for node in nodes):
        facts["gpus"] = gpus(host)
        facts["load"] = load(host)
    return facts


def live_majors(text: str) -> dict[str, list[int]]:
    """{"nvidia": [195], "nvidia-uvm": [511]} of /proc/devices, character devices alone."""
    found: dict[str, list[int]] = {}
    for line in text.partition("Block devices:")[0].splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit() and words[1].startswith("nvidia"):
            found.setdefault(words[1], []).append(int(words[0]))
    return found


def device_nodes(
    host: Host, majors: dict[str, list[int]], account: tuple[int, set[int]] | None, configured: bool
) -> list[dict[str, Any]]:
    """[] when there is no NVIDIA node and none is meant; else those there are, and the required ones missing."""
    present = [name for name in host.names(host.dev) if name.startswith("nvidia")]
    if not present and not configured:
        return []
    gpus = [name for name in present if re.fullmatch(r"nvidia\d+", name)] or ["nvidia0"]
    names = [*gpus, *REQUIRED, *[name for name in OPTIONAL if name in present]]
    return [device(host, name, majors, account, name in gpus or name in REQUIRED) for name in names]


def device(
    host: Host, name: str, majors: dict[str, list[int]], account: tuple[int, set[int]] | None, required: bool
) -> dict[str, Any]:
    path = f"{host.dev}/{name}"
    facts: dict[str, Any] = {"path": path, "kind": kind_of(host.path(path)), "required": required}
    if facts["kind"] == "missing":
        return facts
    status = os.stat(host.path(path))
    facts["mode"] = f"{stat.S_IMODE(status.st_mode):04o}"
    facts["owner"] = f"{_name(pwd.getpwuid, status.st_uid)}:{_name(grp.getgrgid, status.st_gid)}"
    if facts["kind"] == "char":
        family = "nvidia-uvm" if name.startswith("nvidia-uvm") else "nvidia"
        names = (family,) if family == "nvidia-uvm" else ("nvidia", "nvidia-frontend", "nvidiactl")
        facts["major"] = os.major(status.st_rdev)
        facts["live_majors"] = sorted({number for each in names for number in majors.get(each, [])})
        facts["permitted"] = permitted(status, account)
        # The nodes of a test may be opened by nobody.
        facts["open_error"] = open_error(host.path(path)) if host.dev == "/dev" and not host.root else None
    return facts


def open_error(path: str) -> str | None:
    """The name of the error that opening a node gives ("EPERM" where the container's device rules forbid it)."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "unknown")
    return None


def identity(user: str) -> tuple[int, set[int]] | None:
    """(uid, gids) of an account; None when the container has none of that name."""
    try:
        account = pwd.getpwnam(user)
        return account.pw_uid, set(os.getgrouplist(user, account.pw_gid))
    except (KeyError, OSError):
        return None


def permitted(status: os.stat_result, account: tuple[int, set[int]] | None) -> bool | None:
    """Whether an account may read and write a node, by its mode alone; None for an account that is not there.

    Root may, unless the node belongs to somebody outside of the container's user namespace.
    """
    if account is None:
        return None
    uid, groups = account
    foreign = status.st_uid == _UNMAPPED and status.st_gid == _UNMAPPED
    if uid == 0 and not foreign:
        return True
    if uid == status.st_uid and not foreign:
        bits = status.st_mode >> 6
    elif status.st_gid in groups and not foreign:
        bits = status.st_mode >> 3
    else:
        bits = status.st_mode
    return bits & 6 == 6


def mounted_devices(host: Host) -> str:
    """The NVIDIA devices that the container's config mounts, whether they are there or not, as mount points."""
    lines = (host.read(f"{host.proc}/self/mountinfo") or "").splitlines()
    points = [line.split()[4] for line in lines if len(line.split()) > 4]
    return " ".join(point for point in points if point.startswith(f"{host.dev}/nvidia"))


def libraries(host: Host, wishes: dict[str, Any] | None = None) -> list[dict[str, str]]:
    """[{path, version}] of the driver's user-space libraries, by the version in their file names."""
    found = {}
    for folder in (*LIBRARIES, *map(glob.escape, loader_folders(host, wishes or {}))):
        for name in ("libcuda.so.*", "libnvidia-ml.so.*"):
            for path in host.find(f"{folder}/{name}"):
                match = _LIBRARY.search(path)
                if match:
                    found[path] = match.group(1)
    return [{"path": path, "version": version} for path, version in found.items()]


def loader_folders(host: Host, wishes: dict[str, Any]) -> list[str]:
    """Where else the dynamic loader of the training job looks: what ld.so.conf.d names, and its LD_LIBRARY_PATH.

    A driver that is mounted into a container (as container runtimes do) lies in a folder of its own.
    """
    lines = [line for path in host.find("/etc/ld.so.conf.d/*.conf") for line in (host.read(path) or "").splitlines()]
    job: dict[str, Any] = {}
    for path in wishes.get("environment_files") or []:
        job.update(child.read_environment_file(host.read(str(path)) or ""))
    job.update(wishes.get("environment") or {})
    named = [*(line.strip() for line in lines), *str(job.get("LD_LIBRARY_PATH") or "").split(":")]
    return [folder.rstrip("/") for folder in dict.fromkeys(named) if folder.startswith("/")]


def gpus(host: Host) -> list[dict[str, Any]]:
    """[{name, capability, uuid}] as nvidia-smi tells them; without it the node's names, and no capability."""
    program = host.which("nvidia-smi")
    if program:
        done = host.run(program, "--query-gpu=name,compute_cap,uuid", "--format=csv,noheader", timeout=10)
        rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
        if done.status == 0 and rows:
            return [{"name": row[0], "capability": row[1], "uuid": row[2]} for row in rows if len(row) == 3]
    models = [host.read(path) or "" for path in host.find(f"{host.proc}/driver/nvidia/gpus/*/information")]
    names = [re.search(r"^Model:\s*(.+)$", text, re.MULTILINE) for text in models]
    return [{"name": name.group(1).strip(), "capability": None, "uuid": None} for name in names if name]


def load(host: Host) -> dict[str, int] | None:
    """{processes, utilization, memory_mib} of what computes on the GPUs; None where nvidia-smi does not tell.

    A process of another container is not always listed, but what it uses of the GPU and of its memory is.
    """
    program = host.which("nvidia-smi")
    if not program:
        return None
    listed = host.run(program, "--query-compute-apps=pid", "--format=csv,noheader", timeout=10)
    used = host.run(program, "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits", timeout=10)
    rows = [re.findall(r"\d+", line) for line in used.stdout.splitlines() if line.strip()]
    if listed.status != 0 or used.status != 0 or not rows or any(len(row) != 2 for row in rows):
        return None
    return {
        "processes": sum(line.strip().isdigit() for line in listed.stdout.splitlines()),
        "utilization": max(int(row[0]) for row in rows),
        "memory_mib": max(int(row[1]) for row in rows),
    }


def _name(lookup: Any, number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)
