# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a box leaves on the machine, found by looking at the machine itself: processes, mounts, ports, files."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from testbed import cgroups, services
from testbed.layout import Layout

PLACES = ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/sudoers", "/etc/hosts", "/etc/hostname", "/etc/subuid")
FOLDERS = ("/etc", "/usr/sbin", "/var/lib/lxc", "/run/lxc", "/run/lock", "/root", "/home", "/var/log", "/etc/ssh")


def of(box: Layout, ports: dict[str, int]) -> list[str]:
    """Every trace of the box, in words; empty when it is gone. ``ports``: those that it had."""
    return [
        *(f"{box.state} exists" for path in [box.state] if path.exists()),
        *(f"{box.control_path} exists" for path in [box.control_path] if path.exists()),
        *(f"port {port} ({purpose}) answers" for purpose, port in ports.items() if services.answers(port)),
        *(f"cgroup {mount / box.cgroup}" for mount in cgroups.hierarchies() if (mount / box.cgroup).exists()),
        *(line for line in Path("/proc/net/unix").read_text().splitlines() if box.identity in line),
        *_processes(box),
    ]


def _processes(box: Layout) -> list[str]:
    """Processes that name the box on their command line, live in its cgroup, or keep a mount of it alive.

    One that has ended and waits for its parent (a zombie) is none of these.
    """
    found = []
    needles = (str(box.state), str(box.inside), str(box.control_path))
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            if any(needle in words for needle in needles):
                found.append(f"process {process.name}: {words}")
            if f"/{box.cgroup}" in (process / "cgroup").read_text():
                found.append(f"process {process.name} in the box's cgroup: {words}")
            if box.identity in (process / "mountinfo").read_text():
                found.append(f"process {process.name} keeps a mount: {words}")
    return found


def of_machine() -> dict[str, str]:
    """What a box must never change: accounts, rules, host name, the machine's mounts, the names in system folders."""
    shown = {place: hashlib.sha256(Path(place).read_bytes()).hexdigest() for place in PLACES if Path(place).exists()}
    for folder in FOLDERS:
        if Path(folder).is_dir():
            shown[folder] = json.dumps(sorted(entry.name for entry in Path(folder).iterdir()))
    shown["mounts"] = Path("/proc/self/mounts").read_text()
    shown["hostname"] = Path("/proc/sys/kernel/hostname").read_text()
    return shown
