# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a box must remember between commands (its ports), its lock, and finding free ports."""

from __future__ import annotations

import contextlib
import fcntl
import json
import socket
from collections.abc import Iterator

from testbed import files
from testbed.errors import TestbedError
from testbed.layout import Layout


@contextlib.contextmanager
def locked(box: Layout) -> Iterator[None]:
    """One command at a time may change a box. The lock lies beside the state folder, because `down` removes that."""
    box.state.parent.mkdir(parents=True, exist_ok=True)
    with open(box.state.parent / f".{box.state.name}.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load_ports(box: Layout) -> dict[str, int]:
    """Ports by purpose (``sshd pve1``, ``web``, ``container sshd 210``); empty for a box that was never up."""
    try:
        ports: dict[str, int] = json.loads((box.state / "ports.json").read_text())
        return ports
    except FileNotFoundError:
        return {}
    except ValueError:
        return {}  # a write that was cut off: the ports are chosen anew


def save_ports(box: Layout, ports: dict[str, int]) -> None:
    files.write(box.state / "ports.json", json.dumps(ports, indent=2) + "\n")


def port_for(box: Layout, purpose: str) -> int:
    """The port kept for a purpose, chosen (first free one from the box's own range on) when there is none yet."""
    ports = load_ports(box)
    if purpose not in ports:
        taken = set(ports.values())
        for port in range(box.first_port, box.first_port + 2000):
            if port not in taken and is_free(port):
                ports[purpose] = port
                break
        else:
            raise TestbedError(f"No free loopback port from {box.first_port} on for {purpose}.")
        save_ports(box, ports)
    return ports[purpose]


def forget_port(box: Layout, purpose: str) -> None:
    ports = load_ports(box)
    if ports.pop(purpose, None) is not None:
        save_ports(box, ports)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
