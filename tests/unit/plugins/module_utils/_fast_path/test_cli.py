# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: exit status, forms of the report, and a stdout that holds the report alone."""

from __future__ import annotations

import json
import os
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
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    monkeypatch.setattr(cli, "answer", lambda request, give_up: seen.update(request) or {"state": "ok"})
    cli.main(
        ["--model", "/m", "--lengths", "64, 128,64", "--triton-cache", "/t", "--cpu-only", "--quick"]
        + ["--limit", "60", "--jobs", "3", "--wanted-ratio", "2", "--seed", "7"]
    )
    assert seen == {
        "action": "proof", "model": "/m", "family": None, "lengths": [64, 128], "triton_cache": "/t", "cpu_only": True,
        "quick": True, "limit": 60.0, "jobs": 3, "wanted_ratio": 2.0, "seed": 7,
    }  # fmt: skip
    # Who names a folder means it, whatever the shell's environment says.
    assert os.environ["TRITON_CACHE_DIR"] == "/t"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--lengths", "long"], "A sequence length is a number of tokens from 1 to 16777216, not 'long'"),
        (["--lengths", "0"], "not '0'"),
        (["--lengths=-5"], "not '-5'"),
        (["--lengths", "100000000000000"], "not '100000000000000'"),
        (["--lengths", ""], "At least one sequence length is needed"),
        (["--limit", "inf"], "it takes a number from 1 to 86400, not 'inf'"),
        (["--limit", "nan"], "not 'nan'"),
        (["--limit", "1e30"], "not '1e30'"),
        (["--limit", "0"], "not '0'"),
        (["--limit=-1"], "not '-1'"),
        (["--jobs", "0"], "it takes a number from 1 to 1024"),
        (["--wanted-ratio", "nan"], "not 'nan'"),
        (["--seed", "1.5"], "not '1.5'"),
        (["--json", "--prometheus"], "not allowed with argument --json"),
        (["--model", "/m", "--family", "mamba"], "not allowed with argument --model"),
    ],
)
def test_wrong_use_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "answer", lambda request, give_up: pytest.fail("it began"))
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err


LONG = """
import sys
sys.path.insert(0, sys.argv[1])
from _fast_path import cli
cli.answer = lambda request, give_up: {"state": "ok", "sentence": "S" * 200000}
sys.exit(cli.main([]))
"""


@pytest.mark.parametrize(
    ("where", "status", "words"),
    [
        ("| true; exit ${PIPESTATUS[0]}", 0, ""),
        ("> /dev/full", 4, "The report cannot be written to stdout: No space left on device.\n"),
        (">&-", 2, "stdout is closed, so the report could not be written anywhere\n"),
        ("2>&- > /dev/full", 4, ""),
    ],
)
def test_a_report_that_nobody_can_read(where: str, status: int, words: str, tmp_path: Path) -> None:
    (tmp_path / "program.zip").write_bytes(archive.build())
    command = ["bash", "-c", f'"$@" {where}', "-", sys.executable, "-I", "-c", LONG, str(tmp_path / "program.zip")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == status, done.stderr
    assert done.stderr.endswith(words) and "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert words or not done.stderr


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
