# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``host`` for the scenarios' tests: the container that molecule/inventory puts into the group of the scenario.

It is reached by ssh to its node and ``lxc-attach`` there. testinfra knows a connection such as ours only by running
``ansible`` once for each command, two and a half seconds every time; this way costs 20 ms, and the product's own
connection plugin is not what checks the product.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from testbed.layout import layout

HERE = Path(__file__).resolve().parent
# Compiling or importing torch may take its time; a command that hangs may not.
TIMEOUT_SECONDS = 300


class ContainerBackend(BaseBackend):
    """Runs each command as root in the container ``vmid`` on ``node``, a host of the ssh configuration file."""

    NAME = "testbed"

    def __init__(self, vmid: int, node: str, ssh_config: Path) -> None:
        super().__init__(str(vmid))
        self._encoding = "utf-8"  # else testinfra asks the container's python3, which a bare one lacks
        self.vmid = vmid
        self.ssh = ("ssh", "-F", str(ssh_config), node)

    def run(self, command: str, *args: str, **_kwargs: object) -> CommandResult:
        command = self.get_command(command, *args)
        inside = ("lxc-attach", "-n", str(self.vmid), "--clear-env", "--", "/bin/sh", "-c", command)
        done = subprocess.run(
            (*self.ssh, shlex.join(inside)), stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS
        )
        return self.result(done.returncode, self.encode(command), done.stdout, done.stderr)


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Host:
    """The one container of the scenario whose tests/ folder the test lies in."""
    scenario = request.path.relative_to(HERE).parts[0]
    inventory = yaml.safe_load((HERE / "inventory" / "hosts.yml").read_text(encoding="utf-8"))
    (vmid,) = inventory[f"molecule_{scenario}"]["hosts"]
    box = layout()
    return Host(ContainerBackend(int(vmid), box.nodes[0].name, box.client / "ssh_config"))
