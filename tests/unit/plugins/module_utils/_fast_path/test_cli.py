# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: exit status, forms of the report, and a stdout that holds the report alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import archive, cli


@pytest.mark.parametrize(
    ("state", "status"), [("ok", 0), ("not_applicable", 0), ("unknown", 3), ("broken", 1), ("absent", 1), ("", 1)]
)
def test_exit_status(
    state: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "answer", lambda request, give_up: {"state": state, "sentence": "S."})
    assert cli.main([]) == status
    assert capsys.readouterr().out == f"{state}: S.\n"


def test_the_request_carries_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(cli, "answer", lambda request, give_up: seen.update(request) or {"state": "ok"})
    cli.main(
        ["--model", "/m", "--family", "f", "--lengths", "64, 128,", "--triton-cache", "/t", "--cpu-only", "--quick"]
        + ["--limit", "60", "--jobs", "3"]
    )
    assert seen == {
        "action": "proof", "model": "/m", "family": "f", "lengths": [64, 128], "triton_cache": "/t", "cpu_only": True,
        "quick": True, "limit": 60.0, "jobs": 3,
    }  # fmt: skip


def test_lengths_that_are_no_numbers_are_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--lengths", "long"])
    assert caught.value.code == 2
    assert "--lengths takes numbers with commas, not 'long'" in capsys.readouterr().err


def test_a_model_that_cannot_be_read_is_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--model", str(tmp_path / "gone"), "--only", "census"]) == 3
    assert capsys.readouterr().out.startswith("unknown: The model's config ")


NOISY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from _fast_path import cli
def noisy(request, give_up):
    print("a library talks")
    os.write(1, b"and a C library as well\\n")
    return {"state": "ok", "sentence": "S."}
cli.answer = noisy
sys.exit(cli.main(["--json"]))
"""


def test_stdout_holds_the_report_alone(tmp_path: Path) -> None:
    (tmp_path / "program.zip").write_bytes(archive.build())
    command = [sys.executable, "-I", "-c", NOISY, str(tmp_path / "program.zip")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    assert json.loads(done.stdout) == {"state": "ok", "sentence": "S."}
    assert "a library talks" in done.stderr and "and a C library as well" in done.stderr


def test_prometheus(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "answer", lambda request, give_up: {"state": "unknown"})
    assert cli.main(["--prometheus"]) == 3
    assert 'proxmox_gpu_fast_path_state{state="unknown"} 1' in capsys.readouterr().out
