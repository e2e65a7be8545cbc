# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a worker of Ansible finds loaded already when its play uses this collection."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[4]
PROGRAM = f"""
import sys
from ansible.plugins import loader
loader.init_plugin_loader([{str(CHECKOUT / "build" / "tree")!r}])
{{first}}
print("ansible_collections.proxmox_gpu.training.plugins.connection.pct_exec" in sys.modules)
"""


@pytest.mark.parametrize(
    ("first", "loaded"),
    [
        ("loader.action_loader.get('proxmox_gpu.training.chain_info', class_only=True)", "True"),
        ("loader.action_loader.get('proxmox_gpu.training.drift_info', class_only=True)", "True"),
        ("loader.action_loader.get('ansible.builtin.copy', class_only=True)", "False"),
    ],
)
def test_the_class_of_an_action_brings_the_connection_along(first: str, loaded: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(first=first)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.returncode) == (loaded, 0), done.stderr
