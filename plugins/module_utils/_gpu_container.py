# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""A container as its node sees it: its configuration file, its first process, and who has a GPU open in it."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable
from typing import Any

CONFIGURATIONS = "/etc/pve/nodes"
NS_GET_PARENT = 0xB702  # ioctl_ns(2)


class GuestError(Exception):
    """One sentence."""


def conf_path(vmid: str) -> str:
    """The configuration of a container of this node. GuestError says where it is instead."""
    node = os.uname().nodename
    path = f"{CONFIGURATIONS}/{node}/lxc/{vmid}.conf"
    if os.path.exists(path):
        return path
    for other in glob.glob(f"{CONFIGURATIONS}/*/lxc/{vmid}.conf"):
        name = other.split("/")[-3]
        raise GuestError(f"Container {vmid} is on node {name}, not on node {node}; set ansible_host to that node.")
    raise GuestError(f"Node {node} has no container {vmid}, nor has its cluster; correct pct_vmid (`pct list`).")


def init_pid(run_command: Callable[..., Any], vmid: str) -> int:
    """0 when it does not run."""
    status, out, _err = run_command(["lxc-info", "-n", vmid, "-p", "-H"])
    return int(out.strip()) if status == 0 and out.strip().isdigit() and int(out) > 0 else 0


def unreached(pid: int, paths: Iterable[str]) -> list[str]:
    """Those of the node's devices that the container does not have, or has with another number."""
    found = []
    for path in paths:
        try:
            here, there = os.stat(path), os.stat(f"/proc/{pid}/root{path}")
        except OSError:
            found.append(path)
            continue
        if not stat.S_ISCHR(there.st_mode) or here.st_rdev != there.st_rdev:
            found.append(path)
    return found


def busy_processes(pid: int) -> list[int]:
    """Processes of the container, or of containers in it, that have an NVIDIA device open."""
    space = os.stat(f"/proc/{pid}/ns/pid").st_ino
    busy = []
    for folder in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):  # it may end meanwhile
            opened = [os.readlink(descriptor) for descriptor in glob.glob(f"{folder}/fd/*")]
            if any(target.startswith("/dev/nvidia") for target in opened) and _is_within(folder, space):
                busy.append(int(folder.rsplit("/", 1)[1]))
    return sorted(busy)


def _is_within(folder: str, space: int) -> bool:
    """Whether a process belongs to this process namespace, or to one below it (Docker in the container)."""
    descriptor = os.open(f"{folder}/ns/pid", os.O_RDONLY)
    try:
        while os.fstat(descriptor).st_ino != space:
            try:
                parent = fcntl.ioctl(descriptor, NS_GET_PARENT)
            except OSError:  # none that the node may see: it is the node's own
                return False
            os.close(descriptor)
            descriptor = parent
        return True
    finally:
        os.close(descriptor)


def keep_conf(path: str, backup_folder: str, vmid: str) -> str:
    """Copy a configuration; returns the copy's name."""
    os.makedirs(backup_folder, mode=0o700, exist_ok=True)
    backup = os.path.join(backup_folder, f"{vmid}.conf.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    shutil.copyfile(path, backup)
    os.chmod(backup, 0o600)
    return backup


def edit_conf(path: str, vmid: str, edit: Callable[[str], str]) -> None:
    """Replace a configuration under Proxmox's own lock, as Proxmox does (a renamed draft)."""
    with open(f"/run/lock/lxc/pve-config-{vmid}.lock", "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GuestError(
                f"The configuration of container {vmid} is being changed by somebody; try again."
            ) from None
        with open(path, encoding="utf-8") as file:
            text = edit(file.read())
        draft = f"{path}.tmp.{os.getpid()}"
        status = os.stat(path)
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        with contextlib.suppress(OSError):  # pmxcfs has owners and modes of its own
            os.chmod(draft, stat.S_IMODE(status.st_mode))
            os.chown(draft, status.st_uid, status.st_gid)
        os.rename(draft, path)
