# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The box's own services outside the containers: the nodes' sshd and the web server of the CUDA repository."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from testbed import cgroups, namespaces, state
from testbed.errors import TestbedError
from testbed.layout import Layout, NodeLayout


def answers(port: int, greeting: bytes = b"") -> bool:
    """Does something listen on the loopback port (and say the greeting)?"""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            return not greeting or connection.recv(len(greeting)) == greeting
    except OSError:
        return False


def ensure_sshd(node: NodeLayout) -> None:
    port = state.load_ports(node.box)[node.sshd_port_key]
    if answers(port, b"SSH-"):
        return
    namespaces.run_in_node(node, ["/usr/sbin/sshd", "-f", "/etc/ssh/sshd_config", "-E", "/var/log/sshd.log"])
    _wait(lambda: answers(port, b"SSH-"), f"sshd of {node.name} on port {port}", str(node.folder / "log/sshd.log"))


def has_cuda_repository() -> bool:
    return importlib.util.find_spec("testbed.cuda_repository") is not None


def ensure_web(box: Layout, log: Callable[[str], None]) -> None:
    """Build the CUDA repository (idempotent, the builder's business) and serve it."""
    if has_cuda_repository():
        from testbed import cuda_repository

        if hasattr(cuda_repository, "build"):
            cuda_repository.build(box.cuda_repository, box.cache / "cuda_repository", log)
    box.cuda_repository.mkdir(exist_ok=True)
    port = state.port_for(box, "web")
    if answers(port):
        return
    logfile = box.state / "web.log"
    with open(logfile, "a") as output:
        subprocess.Popen(
            [sys.executable, "-m", "testbed.web", str(box.cuda_repository), str(port)],
            cwd=box.checkout,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=cgroups.joiner(f"{box.cgroup}/web"),
        )
    _wait(lambda: answers(port), f"the web server on port {port}", str(logfile))


def _wait(ready: Callable[[], bool], what: str, logfile: str, timeout: float = 15) -> None:
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise TestbedError(f"{what[:1].upper()}{what[1:]} does not answer after {timeout:.0f} s (see {logfile}).")
        time.sleep(0.05)
