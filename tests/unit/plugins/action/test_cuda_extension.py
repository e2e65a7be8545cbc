# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The waiting side of a build, with a stand-in for the container: what is asked, shown and returned."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.proxmox_gpu.training.plugins.action import cuda_extension
from ansible_collections.proxmox_gpu.training.plugins.action.cuda_extension import ActionModule

STATUS = {
    "what": "tiny 1.0",
    "phase": "compiling",
    "compiling": ["k.cu"],
    "done": 0,
    "total": 2,
    "targets": ["sm_90"],
    "pid": 7,
}
RUNNING = '{"started": 1, "finished": 0, "ansible_job_id": "j1.2"}'
JOB = {"ansible_job_id": "j1.2", "results_file": "/root/.ansible_async/j1.2", "started": 1, "finished": 0}


class Container:
    """Answers as the container would: check mode first, then the job, then looks at it."""

    def __init__(
        self, check: dict[str, Any], looks: list[str | Exception], result: dict[str, Any] | None = None
    ) -> None:
        self.check, self.looks, self.result, self.calls = check, looks, result or {}, list[tuple[str, Any]]()

    def execute(
        self, module_name: str, module_args: Any = None, task_vars: Any = None, wrap_async: bool = False
    ) -> Any:
        self.calls.append((module_name, "async" if wrap_async else (module_args or {}).get("mode", "check")))
        if module_name.endswith("async_status"):
            return {**JOB, "finished": 1, **self.result}
        return dict(JOB) if wrap_async else dict(self.check)

    def look(self, command: str, sudoable: bool = True) -> dict[str, Any]:
        answer = self.looks.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"stdout": answer}


def output(results: str, status: dict[str, Any] | None = None, alive: bool = False) -> str:
    return f"{results}\n#progress#\n{json.dumps(status) if status else ''}\n#alive#\n{'yes' if alive else ''}\n"


def run(
    container: Container, monkeypatch: pytest.MonkeyPatch, check_mode: bool = False
) -> tuple[dict[str, Any], list[str]]:
    lines: list[str] = []
    clock = iter(range(0, 100000, 5))
    monkeypatch.setattr(cuda_extension.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(cuda_extension.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(cuda_extension.display, "display", lines.append)
    task = MagicMock(args={"name": "Tiny", "timeout": 600}, check_mode=check_mode, async_val=0)
    connection = MagicMock(_shell=MagicMock(tmpdir="/tmp"))
    action = ActionModule(task, connection, MagicMock(), MagicMock(), MagicMock(), None)
    action._execute_module = container.execute  # type: ignore[method-assign]
    action._low_level_execute_command = container.look  # type: ignore[method-assign]
    answer = action.run(task_vars={"inventory_hostname": "ct200"})
    assert task.check_mode is check_mode
    assert task.async_val == 0
    return answer, lines


def test_nothing_to_do_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    container = Container({"changed": False, "log": "x"}, [])
    answer, lines = run(container, monkeypatch)
    assert answer["changed"] is False
    assert [call[1] for call in container.calls] == ["check"]
    assert lines == []


def test_check_mode_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    container = Container({"changed": True, "diff": {}}, [])
    answer, _lines = run(container, monkeypatch, check_mode=True)
    assert answer["changed"] is True
    assert len(container.calls) == 1


def test_a_wish_that_is_wrong_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    container = Container({"failed": True, "msg": "no such target"}, [])
    assert run(container, monkeypatch)[0]["msg"] == "no such target"
    assert len(container.calls) == 1


def test_progress_is_shown_and_the_result_is_the_modules_own(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str | Exception] = [output(RUNNING), *[output(RUNNING, STATUS, True)] * 3, output('{"changed": true}')]
    container = Container({"changed": True}, looks, {"changed": True, "origin": "built"})
    answer, lines = run(container, monkeypatch)
    assert (answer["origin"], answer["changed"]) == ("built", True)
    assert "ansible_job_id" not in answer
    assert len(lines) == 1
    assert lines[0].startswith("ct200: tiny 1.0: compiling k.cu for sm_90, 0 of 2 sources done")
    assert [call[1] for call in container.calls][-2:] == ["status", "cleanup"]


def test_a_short_loss_of_the_connection_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[str | Exception] = [AnsibleConnectionFailure("gone")] * 5
    container = Container({"changed": True}, [*lost, output("{}")], {"changed": True})
    assert run(container, monkeypatch)[0]["changed"] is True


def test_a_long_loss_says_that_the_build_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    container = Container({"changed": True}, [AnsibleConnectionFailure("gone.")] * 100)
    with pytest.raises(AnsibleConnectionFailure, match="The build goes on in the container"):
        run(container, monkeypatch)


def test_a_job_that_vanished_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    container = Container({"changed": True}, [output(RUNNING, STATUS, True), *[output(RUNNING, STATUS, False)] * 100])
    answer, _lines = run(container, monkeypatch)
    assert answer["failed"]
    assert "the container was restarted, or the process was killed" in answer["msg"]


def test_a_job_that_the_kernel_killed_with_its_parent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    status = {**STATUS, "kills": 2, "jobs": 4}
    looks = [output(RUNNING, status, True), *[output(RUNNING, status, False)] * 13, "low 0\noom_kill 3\n"]
    answer, _lines = run(Container({"changed": True}, list(looks)), monkeypatch)
    assert answer["cause"] == "memory"
    assert answer["msg"].startswith("tiny 1.0: the build was killed for lack of memory (4 compiler processes at once)")
