# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _build_run
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import (
    build_environment,
    read_log,
    run_logged,
    write_json,
)

SHELL = {"PATH": os.environ["PATH"]}


def test_output_and_status(tmp_path: Path) -> None:
    log = str(tmp_path / "logs" / "x.log")
    finished = run_logged(["sh", "-c", "echo out; echo err >&2; exit 3"], SHELL, "/", log, 30)
    assert (finished.status, finished.timed_out) == (3, False)
    assert read_log(log).splitlines()[1:] == ["out", "err"]


def test_the_log_holds_no_login(tmp_path: Path) -> None:
    log = str(tmp_path / "x.log")
    run_logged(["true", "--index-url", "https://me:secret@wheels.example.org/simple"], SHELL, "/", log, 30)
    assert read_log(log) == "$ true --index-url https://wheels.example.org/simple\n"


def test_a_build_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    log, mark = str(tmp_path / "x.log"), tmp_path / "child"
    script = f"sh -c 'echo $$ > {mark}; trap \"\" TERM; sleep 300' & wait"
    started = time.monotonic()
    finished = run_logged(["sh", "-c", script], SHELL, "/", log, 1, tick=0.1)
    assert finished.timed_out
    assert time.monotonic() - started < 30
    child = int(mark.read_text())
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{child}") and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline, "the child of an ended build lives on"
        time.sleep(0.05)


def test_ticks(tmp_path: Path) -> None:
    ticks: list[float] = []
    run_logged(["sleep", "0.5"], SHELL, "/", str(tmp_path / "x.log"), 30, ticks.append, 0.1)
    assert ticks == sorted(ticks)
    assert len(ticks) >= 2


def test_nothing_of_the_caller_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", ":/stray")
    monkeypatch.setenv("CC", "clang")
    found = build_environment("/opt/training/bin/python", "/usr/local/cuda-13.0", "/var/tmp/x", {"MAX_JOBS": "2"})
    assert found["CUDA_HOME"] == "/usr/local/cuda-13.0"
    assert found["PATH"].startswith("/opt/training/bin:/usr/local/cuda-13.0/bin:")
    assert "CC" not in found
    assert found["MAX_JOBS"] == "2"


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("a" * 100 + "end")
    assert read_log(str(tmp_path / "x.log"), 5) == "aaend"
    assert read_log(str(tmp_path / "absent")) == ""


def test_a_record_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "state" / "x.json"
    write_json(str(path), {"a": 1})
    assert json.loads(path.read_text()) == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o644
    with pytest.raises(TypeError):
        write_json(str(path), {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [item.name for item in path.parent.iterdir()] == ["x.json"]


def test_python_is_what_it_says() -> None:
    assert build_environment(sys.executable, "/c", "/t", {})["PATH"].split(":")[0] == os.path.dirname(sys.executable)


def test_whoever_is_killed_the_kernels_count_tells_for_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter((3, 4))
    monkeypatch.setattr(_build_run, "oom_kills", lambda: next(counts))
    finished = run_logged(["sh", "-c", "exit 1"], SHELL, "/", str(tmp_path / "x.log"), 30)
    assert (finished.status, finished.starved) == (1, True)


def test_a_failure_alone_is_no_lack_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_build_run, "oom_kills", lambda: 3)
    assert not run_logged(["sh", "-c", "exit 1"], SHELL, "/", str(tmp_path / "x.log"), 30).starved


def test_the_kernel_is_offered_the_build_before_its_parent(tmp_path: Path) -> None:
    log = str(tmp_path / "x.log")
    run_logged(["sh", "-c", "sleep 0.3; cat /proc/self/oom_score_adj"], SHELL, "/", log, 30)
    assert read_log(log).split()[-1] == "500"
