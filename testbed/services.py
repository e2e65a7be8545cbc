# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The box's own services outside the containers: the nodes' sshd and the web server of the CUDA repository."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from testbed import cgroups, cuda_repository, namespaces, state
from testbed.api_standin import certificates, server, settings
from testbed.errors import TestbedError
from testbed.layout import Layout, NodeLayout


def answers(port: int, greeting: bytes = b"") -> bool:
    """Does something listen on the loopback port (and say the greeting)?"""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            return not greeting or connection.recv(len(greeting)) == greeting
    except OSError:
        return False


def listens(cgroup: str, port: int) -> bool:
    """Does a process of this cgroup listen on the loopback port? (Another one may have taken a dead box's port.)"""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and int(fields[1].split(":")[1], 16) == port:
            inodes.add(f"socket:[{fields[9]}]")
    for pid in cgroups.processes(cgroup):
        with contextlib.suppress(OSError):
            if any(os.readlink(descriptor) in inodes for descriptor in Path(f"/proc/{pid}/fd").iterdir()):
                return True
    return False


def sshd_runs(node: NodeLayout, port: int) -> bool:
    return listens(f"{node.cgroup}/services", port) and answers(port, b"SSH-")


def ensure_sshd(node: NodeLayout) -> None:
    port = state.load_ports(node.box)[node.sshd_port_key]
    if sshd_runs(node, port):
        return
    namespaces.run_in_node(node, ["/usr/sbin/sshd", "-f", "/etc/ssh/sshd_config", "-E", "/var/log/sshd.log"])
    _wait(lambda: answers(port, b"SSH-"), f"sshd of {node.name} on port {port}", str(node.folder / "log/sshd.log"))


def keep_port(box: Layout, purpose: str, cgroup: str) -> int:
    """The port of a purpose; a new one when somebody else has taken it while the box was dead."""
    port = state.port_for(box, purpose)
    if not state.is_free(port) and not listens(cgroup, port):
        state.forget_port(box, purpose)
        port = state.port_for(box, purpose)
    return port


def ensure_web(box: Layout, log: Callable[[str], None]) -> None:
    """Build the CUDA repository (idempotent, its builder's business) and serve it."""
    try:
        cuda_repository.build(box.cuda_repository, box.cache / "cuda_repository", log)
    except cuda_repository.BuildError as error:
        raise TestbedError(str(error)) from None
    port = keep_port(box, "web", f"{box.cgroup}/web")
    if listens(f"{box.cgroup}/web", port):
        return
    command = ["serve", "--folder", str(box.cuda_repository), "--port", str(port), "--log", str(box.web_log)]
    output = box.state / "web.output"
    with open(output, "a") as file:
        subprocess.Popen(
            [sys.executable, "-m", "testbed.cuda_repository", *command],
            cwd=box.checkout,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=cgroups.joiner(f"{box.cgroup}/web"),
        )
    _wait(lambda: answers(port), f"the web server on port {port}", str(output))


def ensure_api(box: Layout) -> None:
    """Serve the stand-in of the Proxmox API: a port for each node, and the socket that pvesh asks."""
    settings.ensure(box.state / "api.json")
    certificates.ensure(box)
    cgroup = f"{box.cgroup}/api"
    ports = [keep_port(box, server.port_key(node), cgroup) for node in box.nodes]
    if all(listens(cgroup, port) for port in ports):
        return
    cgroups.end(cgroup)
    output = box.state / "api.output"
    with open(output, "a") as file:
        subprocess.Popen(
            [sys.executable, "-m", "testbed.api_standin", str(box.state), str(box.cache)],
            cwd=box.checkout,
            env={**os.environ, "PYTHONPATH": str(box.checkout)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=cgroups.joiner(cgroup),
        )
    for port in ports:
        _wait(lambda port=port: answers(port), f"the API stand-in on port {port}", str(output))  # type: ignore[misc]


def _wait(ready: Callable[[], bool], what: str, logfile: str, timeout: float = 15) -> None:
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise TestbedError(f"{what[:1].upper()}{what[1:]} does not answer after {timeout:.0f} s (see {logfile}).")
        time.sleep(0.05)
