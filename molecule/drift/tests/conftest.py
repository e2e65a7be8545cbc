# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``control``: what a person does on the control node, with this checkout's tools on molecule's box."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"


class Control:
    """The control node."""

    @property
    def inventories(self) -> list[str]:
        box = CHECKOUT / "build" / "testbed" / os.environ["TESTBED_NAME"]
        return ["-i", str(box / "inventory.yml"), "-i", str(CHECKOUT / "molecule" / "inventory")]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=CHECKOUT,
            env={**os.environ, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=450,
            check=False,
        )

    def night(self, state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The nightly command."""
        command = CHECKOUT / "roles" / "drift_timer" / "files" / "drift_night.py"
        options = ["--state", str(state), "--ansible-playbook", str(PLAYBOOK), "--timeout", "400", "--"]
        return self.run(sys.executable, str(command), *options, *self.inventories, *arguments)

    def check(self, state: Path, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """The playbook itself."""
        values = json.dumps({"drift_check_path": str(state), **variables})
        return self.run(
            str(PLAYBOOK), *self.inventories, "--extra-vars", values, *arguments, "proxmox_gpu.training.drift_check"
        )

    def inside(self, vmid: int, command: str) -> str:
        done = self.run(sys.executable, "-m", "testbed", "exec", str(vmid), "--", "/bin/sh", "-c", command)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def control() -> Control:
    return Control()
