# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's namespaces: mounts, host name and process ids of its own.

The process-id namespace is what makes `down` simple: when the node's init dies, the kernel ends everything in it and
with the last process the mounts are gone as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed import cgroups
from testbed.errors import TestbedError
from testbed.layout import NodeLayout

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWPID = 0x00020000, 0x04000000, 0x20000000
# What a login on a node starts with; the caller's own variables stay outside.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}


def unshare() -> None:
    """Put the calling process (its next child, for process ids) into new namespaces."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise TestbedError(
            f"The kernel refuses a namespace to the testbed ({reason}): it needs root with CAP_SYS_ADMIN."
        )


def init_pid(node: NodeLayout) -> int | None:
    """Process id of the node's init as this machine sees it, or None when it does not run.

    Read from the cgroup, not from a file: the init is the process of the node's cgroup that is number 1 inside.
    """
    for pid in sorted(cgroups.processes(node.init_cgroup)):
        with contextlib.suppress(OSError, IndexError):
            status = Path(f"/proc/{pid}/status").read_text()
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
            state = next(line for line in status.splitlines() if line.startswith("State:")).split()[1]
            if len(numbers) == 2 and numbers[-1] == "1" and state != "Z":
                return pid
    return None


def enter_command(node: NodeLayout, command: Sequence[str]) -> list[str]:
    """The command line that runs ``command`` inside the node."""
    pid = init_pid(node)
    if pid is None:
        raise TestbedError(f"The node {node.name} of the testbed does not run: bring it up (make testbed-up).")
    return ["nsenter", "-t", str(pid), "-m", "-u", "-p", "--wd=/", "--", *command]


def run_in_node(
    node: NodeLayout, command: Sequence[str], *, timeout: float = 60, check: bool = True, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command as the node's root and capture it. What it leaves running stays in the node's cgroup."""
    try:
        result = subprocess.run(
            enter_command(node, command),
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            env=ENVIRONMENT,
            preexec_fn=cgroups.joiner(f"{node.cgroup}/services"),
        )
    except subprocess.TimeoutExpired:
        raise TestbedError(f"`{' '.join(command)}` on {node.name} did not end within {timeout:.0f} s.") from None
    if check and result.returncode != 0:
        said = (result.stderr or result.stdout).strip().splitlines()[-3:]
        raise TestbedError(f"`{' '.join(command)}` on {node.name} failed ({result.returncode}): {' / '.join(said)}")
    return result
