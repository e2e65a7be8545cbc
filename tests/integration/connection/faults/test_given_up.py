# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task that Ansible gives up, and a worker that dies: nothing goes on inside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.box import CHECKOUT, Box, Container
from tests.integration.connection.faults.provoke import both, runs_inside, wait_for

pytestmark = pytest.mark.timeout(600)


TIMED_OUT = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Too slow
      ansible.builtin.command: sleep 104
      timeout: 3
"""


@both
def test_a_task_that_ansible_gives_up_is_ended_inside(box: Box, guest: Container, runner: bool) -> None:
    play = TIMED_OUT if runner else TIMED_OUT.replace("command", "raw")
    result = box.run_playbook(play, limit=guest.host, extra_vars={"pct_runner": runner})
    assert "imed out" in result.output or "timeout" in result.output.lower()
    wait_for(lambda: not runs_inside(box, "sleep 104"), "the task's process is ended")


@both
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_worker_that_dies_leaves_nothing_running(
    box: Box, guest: Container, runner: bool, name: str, tmp_path: Path
) -> None:
    (tmp_path / "play.yml").write_text(TIMED_OUT.replace("timeout: 3", "timeout: 600"))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(box.inventory), "-l", guest.host]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "tree")}
    with open(tmp_path / "log", "w") as log:
        play = subprocess.Popen(
            [*command, "-e", f"pct_runner={runner}", str(tmp_path / "play.yml")],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(lambda: runs_inside(box, "sleep 104"), "the task runs")
            for worker in Path(f"/proc/{play.pid}/task/{play.pid}/children").read_text().split():
                os.kill(int(worker), getattr(signal, name))
            wait_for(lambda: not runs_inside(box, "sleep 104"), "the task's process is ended")
        finally:
            play.kill()
            play.wait()
