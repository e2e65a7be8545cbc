# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module writes the lock once, shows what it would write, and hides no damage."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.proxmox_gpu.training.plugins.modules import training_lock

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "causal_conv1d_cuda.so"
    path.write_bytes(b"\x7fELF one")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "etc" / "training.lock.json"


@pytest.fixture
def run(library: Path, path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def play(torch: str | None = "2.14.1+cu130", check: bool = False) -> dict[str, Any]:
        modules = [{"name": "causal_conv1d_cuda", "file": str(library), "exists": True}]
        facts = {"torch": {"version": torch}, "extensions": {"causal-conv1d": {"version": "1.7.0", "modules": modules}}}
        arguments = {"facts": facts, "path": str(path), "_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            training_lock.main()
        return dict(json.loads(capsys.readouterr().out))

    return play


def test_first_lock(run: Run, path: Path, library: Path) -> None:
    result = run()
    assert (result["changed"], result["differences"], result["path"]) == (True, [], str(path))
    lock = json.loads(path.read_text())
    wanted = hashlib.sha256(library.read_bytes()).hexdigest()
    assert lock["extensions"]["causal-conv1d"]["modules"]["causal_conv1d_cuda"]["sha256"] == wanted
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(path.parent) == [path.name]


def test_a_second_run_changes_nothing(run: Run, path: Path) -> None:
    run()
    before = path.stat().st_mtime_ns
    result = run()
    assert (result["changed"], result["differences"]) == (False, [])
    assert path.stat().st_mtime_ns == before
    assert result["diff"]["before"] == result["diff"]["after"]


def test_check_mode_shows_and_writes_nothing(run: Run, path: Path) -> None:
    result = run(check=True)
    assert result["changed"] and not path.parent.exists()
    assert '"version": "2.14.1+cu130"' in result["diff"]["after"]


def test_drift_is_named(run: Run, library: Path) -> None:
    run()
    library.write_bytes(b"\x7fELF two")
    result = run("2.15.0+cu132")
    assert result["changed"]
    assert [line.partition(":")[0] for line in result["differences"]] == [
        "extensions.causal-conv1d.modules.causal_conv1d_cuda.sha256",
        "torch.version",
    ]


def test_a_damaged_lock_is_replaced(run: Run, path: Path) -> None:
    path.parent.mkdir()
    path.write_text("{half")
    assert run()["changed"]
    assert json.loads(path.read_text())["schema"] == 1


def test_facts_without_a_torch_fail_in_one_sentence(run: Run, path: Path) -> None:
    result = run(None)
    assert result["failed"] and result["msg"].startswith("There is no torch in the facts")
    assert not path.exists()


def test_a_place_that_cannot_be_written_fails_in_one_sentence(run: Run, path: Path) -> None:
    path.parent.write_text("a file where the folder should be")
    result = run()
    assert result["msg"].startswith(f"The lock {path} cannot be made: ")
