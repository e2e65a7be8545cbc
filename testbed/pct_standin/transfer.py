# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``pct push`` and ``pct pull`` of the stand-in, faults included.

As with the real ones, the copying itself happens in a worker whose outcome nobody reads: what fails there is printed
and logged, and the exit code is 0 all the same. The config lock is held for the whole transfer.
"""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import sys
from collections.abc import Callable

from testbed.pct_standin.arguments import Parameters
from testbed.pct_standin.node import Died, Node

OPTIONS = {"user": "string", "group": "string", "perms": "string"}
BLOCK = 1 << 20


def push(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    vmid, source, destination = (str(parameters[name]) for name in ("vmid", "file", "destination"))

    def work(pid: int) -> None:
        try:
            reader = os.open(source, os.O_RDONLY)
        except OSError:
            raise Died(f"failed to open {source} for reading") from None
        enter_mounts(pid)
        copy(reader, create_file(destination, parameters))

    return _transfer(node, vmid, "push_file", "can only push files to a running CT", work)


def pull(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    vmid, source, destination = (str(parameters[name]) for name in ("vmid", "path", "destination"))

    def work(pid: int) -> None:
        writer = create_file(destination, parameters)
        enter_mounts(pid)
        try:
            reader = os.open(source, os.O_RDONLY)
        except OSError as error:
            raise Died(f"failed to open {source}: {error.strerror}") from None
        copy(reader, writer)

    return _transfer(node, vmid, "pull_file", "can only pull files from a running VM", work)


def _transfer(node: Node, vmid: str, kind: str, refusal: str, work: Callable[[int], None]) -> int:
    node.conf(vmid)
    with node.locked(vmid):
        if not node.is_running(vmid):
            raise Died(refusal)
        pid = node.init_pid(vmid)
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            outcome = "OK"
            try:
                work(pid)
            except Died as problem:
                outcome = str(problem)
                os.write(2, f"{outcome}\n".encode())
            os._exit(0 if outcome == "OK" else 1)
        _, status = os.waitpid(child, 0)
        node.log_task(kind, vmid, "OK" if status == 0 else "job errors")
    return 0


def enter_mounts(pid: int) -> None:
    """Go into the container's mount namespace: a relative path starts at /, and no symbolic link leads out."""
    descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) != 0:
        raise Died("failed to enter the container's mount namespace")
    os.close(descriptor)
    os.chdir("/")


def create_file(path: str, parameters: Parameters) -> int:
    """Open the destination: a new file by the umask, an existing one in place; mode and owner when asked for."""
    owner = _number(parameters.get("user"), lambda name: pwd.getpwnam(name).pw_uid, "uid")
    group = _number(parameters.get("group"), lambda name: grp.getgrnam(name).gr_gid, "gid")
    mode = _mode(parameters.get("perms"))
    try:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0)
            umask = os.umask(0)
            mode = 0o666 & ~umask if mode is None else mode
        except FileExistsError:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError as error:
        raise Died(f"failed to create file: {path}: {error.strerror}") from None
    if mode is not None:
        os.fchmod(descriptor, mode)
    if owner != -1 or group != -1:
        os.fchown(descriptor, owner, group)
    return descriptor


def _number(name: object, lookup: Callable[[str], int], what: str) -> int:
    if name is None:
        return -1
    if str(name).isdecimal():
        return int(str(name))
    try:
        return lookup(str(name))
    except KeyError:
        raise Died(f"failed to get {what} for: {name}") from None


def _mode(text: object) -> int | None:
    """Octal unless it starts with 0x."""
    if text is None:
        return None
    shown = str(text) if str(text).startswith("0") else f"0{text}"
    try:
        return int(shown, 16) if shown.lower().startswith("0x") else int(shown, 8)
    except ValueError:
        raise Died(f"invalid mode: '{shown}'") from None


def copy(reader: int, writer: int) -> None:
    """Perl's File::Copy, its result ignored: a full disk leaves what fitted."""
    try:
        while block := os.read(reader, BLOCK):
            while block:
                block = block[os.write(writer, block) :]
    except OSError:
        pass
