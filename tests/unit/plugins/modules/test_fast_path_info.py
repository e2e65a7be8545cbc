# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module asks a real interpreter; a GPU's proof is played by a stand-in that answers what an H200 answered."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.proxmox_gpu.training.plugins.modules import fast_path_info
from tests import fast_path_fakes as fakes

Run = Callable[..., dict[str, Any]]
PROOF = {
    "state": "ok",
    "sentence": "All 4 functions are bound; forward and backward are right; training 8.0 times as fast.",
    "binding": {"functions": []},
    "seconds": 14.2,
    "gpus": [
        {
            "index": 0,
            "name": "NVIDIA H200",
            "capability": "9.0",
            "right": {"passed": True, "checks": []},
            "fast": {
                "rows": [
                    {
                        "path": "fast", "tokens": 4096, "forward_ms": 2.68, "training_ms": 8.4, "tokens_per_s": 487619,
                        "peak_bytes": 1, "warm_up_s": 0.1, "error": None, "stage": None,
                    }
                ],
                "ratios": [{"tokens": 4096, "forward": 3.9, "training": 8.0}],
            },
        }
    ],
}  # fmt: skip


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def play(**arguments: Any) -> dict[str, Any]:
        with patch_module_args({"python": sys.executable, **arguments}), pytest.raises(SystemExit):
            fast_path_info.main()
        return dict(json.loads(capsys.readouterr().out))

    return play


@pytest.fixture
def proving(tmp_path: Path) -> str:
    """A stand-in for the training interpreter: it writes its request down and answers with PROOF."""
    path = tmp_path / "python"
    path.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nrequest = json.load(sys.stdin)\n"
        f"json.dump([request, dict(os.environ)], open({str(tmp_path / 'request.json')!r}, 'w'))\n"
        f"os.write(int(sys.argv[sys.argv.index('--answer-fd') + 1]), {json.dumps(PROOF)!r}.encode())\n"
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("check", [False, True])
def test_census_in_check_mode_and_out_of_it(run: Run, check: bool) -> None:
    found = run(action="census", family="falcon_h1", _ansible_check_mode=check)
    assert (found["changed"], found["state"], found["report"]["family"]) == (False, "ok", "falcon_h1")
    assert "record" not in found


def test_binding_of_a_host_where_it_is_broken_is_an_answer(run: Run, tmp_path: Path) -> None:
    fakes.torch(tmp_path, [("NVIDIA H200", 9, 0)])
    fakes.transformers(tmp_path, "future = 1\n", "9.9.9")
    found = run(environment={"PYTHONPATH": str(tmp_path)})
    assert (found["state"], found["report"]["design"]) == ("unknown", "unknown")
    assert "failed" not in found


def test_no_interpreter_is_unknown_and_not_a_failure(run: Run) -> None:
    found = run(python="/no/such/python")
    assert (found["state"], found.get("failed")) == ("unknown", None)
    assert found["sentence"] == "The training interpreter /no/such/python is not there or cannot be run."


def test_a_proof_comes_with_text_metrics_figures_and_a_record(run: Run, proving: str) -> None:
    found = run(python=proving, action="proof")
    assert (found["state"], found["slower"]) == ("ok", [])
    assert found["text"].startswith("ok: All 4 functions are bound")
    assert "proxmox_gpu_fast_path_ratio" in found["metrics"]
    assert [figure["ms"] for figure in found["figures"]] == [2.68, 8.4]
    record = found["record"]
    assert (record["ok"], record["gpu"], record["ratio"], record["error"]) == (True, "NVIDIA H200", 8.0, None)
    assert record["when"].endswith("+00:00") and record["figures"] == found["figures"]


def test_a_proof_that_got_slower_says_so(run: Run, proving: str) -> None:
    baseline = [{"gpu": "NVIDIA H200", "index": 0, "tokens": 4096, "stage": "training", "ms": 7.0}]
    found = run(python=proving, action="proof", baseline=baseline)
    assert found["slower"] == found["record"]["slower"]
    assert "20 % more than the 7.00 ms that were proven" in found["slower"][0]
    assert run(python=proving, action="proof", baseline=baseline, tolerance=0.25)["slower"] == []


def test_a_proof_that_hangs_is_unknown_and_its_record_says_why(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\nexec sleep 30\n")
    path.chmod(0o755)
    found = run(python=str(path), action="proof", timeout=0.5)
    assert (found["state"], found["record"]["ok"]) == ("unknown", False)
    assert "did not end within 0.5 seconds" in found["record"]["error"]
    assert found["text"].startswith("unknown: The check in ")


def test_the_request_and_the_launch_conditions_arrive(run: Run, proving: str, tmp_path: Path) -> None:
    file = tmp_path / "job.env"
    file.write_text("TOKEN_FILE=/run/token\nCUDA_VISIBLE_DEVICES=0\n")
    options = {"lengths": [64], "quick": True, "triton_cache": "/var/cache/x", "model": {"model_type": "mamba2"}}
    run(
        python=proving,
        action="proof",
        environment={"CUDA_VISIBLE_DEVICES": 1},
        environment_files=[str(file)],
        **options,
    )
    request, environment = json.loads((tmp_path / "request.json").read_text())
    assert {name: request[name] for name in options} == options
    assert request["limit"] == 0.9 * 1800
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["TOKEN_FILE"]) == ("1", "/run/token")


def test_the_jobs_environment_is_not_shown(run: Run) -> None:
    found = run(action="census", environment={"WANDB_API_KEY": "s3cret-value"})
    assert "s3cret-value" not in json.dumps(found)


@pytest.mark.parametrize("lengths", [[], [0], [-5], [10**14]])
def test_lengths_that_are_none_fail(run: Run, proving: str, lengths: list[int]) -> None:
    found = run(python=proving, action="proof", lengths=lengths)
    assert found["failed"] and found["msg"].startswith("lengths: ")


@pytest.mark.parametrize("timeout", ["inf", "nan", -1, 0, 1e30])
def test_a_timeout_that_never_comes_fails(run: Run, proving: str, timeout: Any) -> None:
    found = run(python=proving, action="proof", timeout=timeout)
    assert found["failed"] and "at most 86400 seconds" in found["msg"]


@pytest.mark.parametrize("model", [[1], 5])
def test_a_model_that_is_none_is_a_sentence(run: Run, model: Any) -> None:
    found = run(action="census", model=model)
    assert found["state"] == "unknown" and found["sentence"].startswith("A model is a folder")


def test_an_action_that_there_is_none_of_fails(run: Run) -> None:
    assert "value of action must be one of" in run(action="train")["msg"]
