# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The box's cgroup: the one list of its processes.

Every process of a box lives below it (its nodes' inits, sshd, each container, the web server), so that `down` finds
them all, whatever became of the state file, and never meets a process of somebody else.
Works with a pure cgroup v2 tree and with the hybrid and v1 layouts, where each controller has a tree of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from testbed.errors import TestbedError


def hierarchies(mountinfo: str | None = None) -> list[Path]:
    """Mount points of all cgroup hierarchies: one on a pure cgroup v2 machine, several on a hybrid or v1 one."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    found = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        path = Path(left.split()[4])
        if right.split()[0] in ("cgroup", "cgroup2") and path not in found:
            found.append(path)
    return found


def joiner(cgroup: str) -> Callable[[], None]:
    """A function that moves the calling process into ``cgroup`` of every hierarchy (for ``preexec_fn``)."""
    targets = [str(_make(mount, cgroup) / "cgroup.procs") for mount in hierarchies()]

    def join() -> None:
        for target in targets:
            with contextlib.suppress(OSError):
                descriptor = os.open(target, os.O_WRONLY)
                os.write(descriptor, b"0")
                os.close(descriptor)

    return join


def _make(mount: Path, cgroup: str) -> Path:
    """Make the folder level by level: a v1 cpuset takes no process before CPUs and memory were given to it."""
    folder = mount
    for part in cgroup.split("/"):
        parent, folder = folder, folder / part
        folder.mkdir(exist_ok=True)
        if (mount / "cgroup.controllers").exists():
            _hand_down_controllers(parent)
            continue
        for name in ("cpuset.cpus", "cpuset.mems"):
            file = folder / name
            if file.exists() and not file.read_text().strip():
                file.write_text((parent / name).read_text())
    return folder


def _hand_down_controllers(folder: Path) -> None:
    """cgroup v2: let the folders below have this one's controllers (else no container gets a limit)."""
    for controller in (folder / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def processes(cgroup: str) -> set[int]:
    """Ids (as this process sees them) of all processes in and below the cgroup."""
    found: set[int] = set()
    for mount in hierarchies():
        for folder, _folders, _files in os.walk(mount / cgroup):
            with contextlib.suppress(OSError):
                found |= {int(line) for line in (Path(folder) / "cgroup.procs").read_text().split()}
    return found - {0}


def end(cgroup: str, timeout: float = 20.0) -> int:
    """Kill what lives in and below the cgroup, thaw it first, remove its folders. Returns how many were ended."""
    ended: set[int] = set()
    deadline = time.monotonic() + timeout
    while alive := processes(cgroup):
        if time.monotonic() > deadline:
            raise TestbedError(f"Processes of the testbed do not end: {sorted(alive)} (cgroup {cgroup}).")
        _thaw(cgroup)
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended |= alive
        time.sleep(0.02)
    for mount in hierarchies():
        _remove(mount / cgroup)
        with contextlib.suppress(OSError):  # the folder of all boxes goes with the last of them
            (mount / cgroup).parent.rmdir()
    return len(ended)


def _thaw(cgroup: str) -> None:
    """A frozen v1 process does not die before it is thawed (v2 needs no help)."""
    for mount in hierarchies():
        for folder, _folders, files in os.walk(mount / cgroup):
            if "freezer.state" in files:
                with contextlib.suppress(OSError):
                    (Path(folder) / "freezer.state").write_text("THAWED")


def _remove(top: Path) -> None:
    for folder, _folders, _files in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
