# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person reads while torch is installed, and when its installation is lost."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from ansible_collections.proxmox_gpu.training.plugins.action import python_environment
from ansible_collections.proxmox_gpu.training.plugins.action.python_environment import ActionModule, step

LOG = """2026-11-30T16:30:01,000 Collecting torch==2.14.1
2026-11-30T16:30:02,000   Downloading torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl (865.0 MB)
2026-11-30T16:30:30,000   Link requires a different Python (3.11.2 not in: '>=3.12')
"""


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ("", ""),
        (LOG[:60], "Collecting torch==2.14.1"),
        (LOG, "Downloading torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl (865.0 MB)"),
        (LOG + "2026 Installing collected packages: triton, torch\n", "Installing collected packages"),
    ],
)
def test_the_last_step_is_told(tail: str, said: str) -> None:
    assert step(tail) == said


RUNNING = '{"started": 1, "finished": 0, "ansible_job_id": "j1.2"}\n#progress#\n'
JOB = {"ansible_job_id": "j1.2", "results_file": "/root/.ansible_async/j1.2", "started": 1, "finished": 0}


def installed(monkeypatch: pytest.MonkeyPatch, looks: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The task's result and what was printed, with these answers of the container to the looks at it."""
    lines: list[str] = []
    clock = iter(range(0, 100000, 5))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(python_environment.display, "display", lines.append)

    def execute(module_name: str, module_args: Any = None, task_vars: Any = None, wrap_async: bool = False) -> Any:
        if module_name.endswith("async_status"):
            return {**JOB, "finished": 1, "changed": True, "versions": {"torch": "2.14.1"}}
        return dict(JOB) if wrap_async else {"changed": True}

    task = MagicMock(args={"path": "/opt/training", "timeout": 600}, check_mode=False, async_val=0)
    connection = MagicMock(_shell=MagicMock(tmpdir="/tmp"))
    action = ActionModule(task, connection, MagicMock(), MagicMock(), MagicMock(), None)
    action._execute_module = execute  # type: ignore[method-assign]
    action._low_level_execute_command = lambda command, sudoable: {"stdout": looks.pop(0)}  # type: ignore[method-assign,assignment,misc]
    return action.run(task_vars={"inventory_hostname": "ct200"}), lines


def test_the_steps_are_shown_and_the_result_is_the_modules_own(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, lines = installed(monkeypatch, [RUNNING + LOG[:60] + "\n#alive#\n", RUNNING + LOG + "\n#alive#\n", "{}"])
    assert (answer["changed"], answer["versions"]) == (True, {"torch": "2.14.1"})
    assert "ansible_job_id" not in answer
    assert lines[0].startswith("ct200: Collecting torch==2.14.1 (")
    assert lines[1].startswith("ct200: Downloading torch-2.14.1-")


def test_an_installation_that_vanished_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, _lines = installed(monkeypatch, [RUNNING + LOG] * 30)
    assert answer["failed"]
    assert "the container was restarted, or the process was killed" in answer["msg"]
