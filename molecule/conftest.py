# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``host`` for the scenarios' tests: the container that molecule/inventory puts into the group of the scenario.

It is reached by ``python3 -m testbed exec``. testinfra knows a connection such as ours only by running ``ansible``
once for each command, two and a half seconds every time; this way costs 0.1 s, and the product's own connection
plugin is not what checks the product.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

HERE = Path(__file__).resolve().parent
# Compiling or importing torch may take its time; a command that hangs may not.
TIMEOUT_SECONDS = 300


class ContainerBackend(BaseBackend):
    """Runs each command as root, with a clean environment, in the testbed's container ``vmid``."""

    NAME = "testbed"

    def __init__(self, vmid: int) -> None:
        super().__init__(str(vmid))
        self._encoding = "utf-8"  # else testinfra asks the container's python3, which a bare one lacks

    def run(self, command: str, *args: str, **_kwargs: object) -> CommandResult:
        command = self.get_command(command, *args)
        done = subprocess.run(
            [sys.executable, "-m", "testbed", "exec", self.hostname, "--", "/bin/sh", "-c", command],
            cwd=HERE.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
        )
        return self.result(done.returncode, self.encode(command), done.stdout, done.stderr)


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Host:
    """The one container of the scenario whose tests/ folder the test lies in."""
    scenario = request.path.relative_to(HERE).parts[0]
    inventory = yaml.safe_load((HERE / "inventory" / "hosts.yml").read_text(encoding="utf-8"))
    (name,) = inventory[f"molecule_{scenario}"]["hosts"]
    return Host(ContainerBackend(int(name.removeprefix("ct"))))
