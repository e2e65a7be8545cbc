# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pct stand-in knows about its node: settings, config files, locks, which containers run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from testbed import pve_files

LOCK_TIMEOUT = 10.0  # seconds


class Died(Exception):
    """Perl's die: the text on stderr, and as exit code errno, or 255."""

    def __init__(self, text: str, code: int = 255) -> None:
        super().__init__(text)
        self.code = code


class Node:
    """The node that the stand-in runs on. ``state`` is the box's folder as the node sees it."""

    def __init__(self, state: Path, name: str) -> None:
        self.state = state
        self.name = name
        settings = json.loads((state / "standin.json").read_text())
        self.startup = float(settings["PCT_STANDIN_STARTUP"])
        self.version = tuple(int(part) for part in str(settings["PCT_STANDIN_VERSION"]).split("."))
        self.lxc = state / "nodes" / name / "lxc"
        self.containers = Path("/etc/pve/nodes") / name / "lxc"

    def conf_path(self, vmid: str) -> Path:
        return self.containers / f"{vmid}.conf"

    def conf_text(self, vmid: str) -> str:
        """Text of the config file; a container of another node, a virtual machine and none at all look the same."""
        try:
            return self.conf_path(vmid).read_text()
        except FileNotFoundError:
            raise Died(f"Configuration file 'nodes/{self.name}/lxc/{vmid}.conf' does not exist", 2) from None

    def conf(self, vmid: str) -> dict[str, str]:
        return pve_files.parse_conf(self.conf_text(vmid))

    def is_running(self, vmid: str) -> bool:
        """The real pct's test: does the container's abstract command socket exist?"""
        socket = f"@{self.lxc}/{vmid}/command"
        return any(line.endswith(f" {socket}") for line in Path("/proc/net/unix").read_text().splitlines())

    def init_pid(self, vmid: str) -> int:
        output = subprocess.run(
            ["lxc-info", "-n", vmid, "-p", "-H"], capture_output=True, text=True, timeout=30, check=False
        )
        if not output.stdout.strip().isdecimal():
            raise Died(f"unable to get PID for CT {vmid} (not running?)")
        return int(output.stdout)

    def refuse_locked(self, conf: dict[str, str]) -> None:
        if "lock" in conf:
            raise Died(f"CT is locked ({conf['lock']})")

    @contextlib.contextmanager
    def locked(self, vmid: str) -> Iterator[None]:
        """The flock that push, pull, set, start and stop hold for their whole time."""
        path = Path(f"/run/lock/lxc/pve-config-{vmid}.lock")
        with open(path, "a") as file:
            deadline = time.monotonic() + LOCK_TIMEOUT
            waited = False
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not waited:
                        print("trying to acquire lock...", end="", file=sys.stderr, flush=True)
                        waited = True
                    if time.monotonic() > deadline:
                        print(file=sys.stderr)
                        raise Died(f"can't lock file '{path}' - got timeout", 4) from None
                    time.sleep(0.05)
            if waited:
                print(" OK", file=sys.stderr)
            yield

    def log_task(self, kind: str, vmid: str, outcome: str) -> None:
        """A line in the node's task log, where the web interface would show it."""
        index = Path("/var/log/pve/tasks/index")
        index.parent.mkdir(parents=True, exist_ok=True)
        now = int(time.time())
        with open(index, "a") as file:
            file.write(
                f"UPID:{self.name}:{os.getpid():08X}:00000000:{now:08X}:{kind}:{vmid}:root@pam: {now:08X} {outcome}\n"
            )
