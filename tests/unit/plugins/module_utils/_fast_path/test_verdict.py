# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict over a report. No report may come out as ok unless bound, right and fast were each shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import verdict
from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.families import (
    FAMILIES,
    FUNCTIONS,
    WANTED_RATIO,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.verdict import judge

NAMES = ("causal_conv1d_fn", "causal_conv1d_update", "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule")
REFUSAL = "RuntimeError: Triton >= 3.4.0 and < 3.7.1 on Hopper GPUs produces incorrect results"
UPGRADE = "upgrade triton to 3.7.1 or later, or install tilelang"


def binding(
    state: str = "ok", slow: tuple[str, ...] = (), error: str = "no module 'causal_conv1d' here"
) -> dict[str, Any]:
    functions = [
        {"name": n, "distribution": FUNCTIONS[n].distribution, "bound": n not in slow, "error": error * (n in slow)}
        for n in NAMES
    ]
    return {
        "state": state,
        "sentence": f"It is {state}.",
        "functions": functions,
        "gpu": {"reason": "torch sees no GPU"},
    }


def check(passed: bool | None = True, **more: Any) -> dict[str, Any]:
    return {
        "title": "layer: 1024 tokens", "dtype": "bfloat16", "passed": passed, "stage": "done", "forward_error": 0.005,
        "gradient_error": 0.01, "bound": 0.03, "gradient_bound": 0.03, "error": None, "remedy": None, **more,
    }  # fmt: skip


def row(path: str = "fast", **more: Any) -> dict[str, Any]:
    return {"path": path, "tokens": 4096, "forward_ms": 2.7, "training_ms": 8.4, "remedy": None, "error": None, **more}


def gpu(
    checks: list[dict[str, Any]] | None, rows: list[dict[str, Any]], ratios: list[dict[str, Any]]
) -> dict[str, Any]:
    tried = [c["passed"] for c in checks or [] if c["passed"] is not None]
    right = None if checks is None else {"checks": checks, "passed": all(tried) if tried else None}
    return {"right": right, "fast": {"rows": rows, "ratios": ratios}}


def report(found: dict[str, Any], *gpus: dict[str, Any]) -> dict[str, Any]:
    return {"binding": found, "gpus": list(gpus)}


RATIOS = [{"forward": 3.9, "training": 8.0}, {"forward": 5.8, "training": 19.4}]
GOOD = gpu([check(), check()], [row(), row(tokens=16384), row("reference")], RATIOS)


def test_bound_right_and_fast() -> None:
    found = judge(report(binding(), GOOD), False)
    assert (found["state"], found["bound"], found["right"], found["fast"]) == ("ok", True, True, True)
    assert found["sentence"] == (
        "All 4 functions are bound; forward and backward are right; forward is 3.9 to 5.8 times as fast as the PyTorch "
        "reference, training 8.0 to 19.4 times."
    )


def test_bound_and_fast_forward_but_backward_refuses() -> None:
    """fla 0.6.0 with triton 3.6 on Hopper: everything imports, forward is right and fast, training dies."""
    refused = check(False, stage="backward", error=REFUSAL, remedy=UPGRADE, forward_error=None, gradient_error=None)
    rows = [row(training_ms=None, error=REFUSAL, stage="training", remedy=UPGRADE), row("reference")]
    found = judge(report(binding(), gpu([check(), refused], rows, [{"forward": 5.2, "training": None}])), False)
    assert (found["state"], found["bound"], found["right"], found["fast"]) == ("broken", True, False, False)
    assert "forward is right, backward refuses (RuntimeError: Triton >= 3.4.0" in found["sentence"]
    assert found["sentence"].endswith(f": {UPGRADE}.")
    assert found["remedy"] == UPGRADE


def test_a_failed_check_beats_a_missing_package() -> None:
    slow = binding("absent", NAMES[:2])
    refused = check(False, stage="backward", error=REFUSAL, remedy=UPGRADE)
    found = judge(report(slow, gpu([refused], [row()], [])), False)
    assert found["state"] == "broken"
    assert found["sentence"].startswith(
        "2 of 4 functions are bound, causal_conv1d_fn, causal_conv1d_update not (no module"
    )


def test_nothing_bound() -> None:
    found = judge(report(binding("absent", NAMES), gpu(None, [row("reference")], [])), False)
    assert (found["state"], found["right"], found["fast"]) == ("absent", None, None)
    assert (
        "None of 4 functions is bound (no module 'causal_conv1d' here); training would run on the slow path"
        in found["sentence"]
    )


def test_wrong_numbers() -> None:
    wrong = check(False, gradient_error=0.4, worst_gradient="norm.weight")
    found = judge(report(binding(), gpu([check(), wrong], [row()], RATIOS)), False)
    assert (found["state"], found["right"]) == ("broken", False)
    assert "layer: 1024 tokens in bfloat16 is wrong by 0.4 (bound 0.03)" in found["sentence"]


def test_packed_sequences_alone() -> None:
    packed = check(False, title="layer: packed sequences of 1, 190 tokens", forward_error=1.2)
    found = judge(report(binding(), gpu([check(), packed], [row()], RATIOS)), False)
    assert found["state"] == "broken"
    assert "forward and backward are right, but packed sequences influence each other" in found["sentence"]


@pytest.mark.parametrize(("ratio", "state"), [(WANTED_RATIO, "ok"), (WANTED_RATIO - 0.01, "broken"), (0.9, "broken")])
def test_a_fast_path_that_gains_nothing_is_none(ratio: float, state: str) -> None:
    found = judge(report(binding(), gpu([check()], [row()], [{"forward": 4.0, "training": ratio}])), False)
    assert (found["state"], found["fast"]) == (state, state == "ok")
    assert (", less than the wanted 1.5" in found["sentence"]) is (state != "ok")


def test_what_is_wanted_depends_on_the_family_and_on_the_request() -> None:
    slight = gpu([check()], [row()], [{"forward": 1.0, "training": 1.02}])
    assert judge({**report(binding(), slight), "wanted_ratio": FAMILIES["lfm2"].wanted_ratio}, False)["state"] == "ok"
    found = judge({**report(binding(), GOOD), "wanted_ratio": 9.0}, False)
    assert found["state"] == "broken" and "training 8.0 to 19.4 times, less than the wanted 9." in found["sentence"]


def test_a_layer_that_could_not_be_timed_is_unknown_with_the_reason() -> None:
    part: dict[str, Any] = {"rows": [], "ratios": [], "error": "OutOfMemoryError: 10 GiB", "unfinished": None}
    found = judge(report(binding(), {"right": GOOD["right"], "fast": part}), False)
    assert (found["state"], found["fast"]) == ("unknown", None)
    assert found["sentence"].endswith("; the layer could not be timed (OutOfMemoryError: 10 GiB).")


def test_what_transformers_itself_gets_wrong_is_named_and_blames_no_function() -> None:
    error = "transformers 5.17.0 itself is wrong by 0.84 with its PyTorch functions"
    decoding = check(None, title="layer: 97 tokens, then 4 steps of decoding", stage="reference", error=error)
    found = judge(report(binding(), gpu([check(), decoding], [row(), row(tokens=16384)], RATIOS)), False)
    assert (found["state"], found["right"]) == ("ok", True)
    assert f"layer: 97 tokens, then 4 steps of decoding was not compared ({error})" in found["sentence"]


def test_a_function_that_ignores_borders_is_blamed_and_transformers_is_not() -> None:
    layer = check(None, title="layer: packed sequences of 1, 190 tokens", error="transformers 5.17.0 itself ignores")
    twice = [check(), layer, {**layer, "dtype": "float16"}]
    rows = [row(), row(tokens=16384)]
    alone = judge(report(binding(), gpu(twice, rows, RATIOS)), False)
    assert alone["state"] == "ok" and alone["sentence"].count("transformers 5.17.0 itself ignores") == 1
    own = check(False, title="causal_conv1d_fn: packed sequences (seq_idx)", forward_error=0.2)
    blamed = judge(report(binding(), gpu([*twice, own], rows, RATIOS)), False)
    assert blamed["state"] == "broken" and "packed sequences influence each other" in blamed["sentence"]
    assert "itself" not in blamed["sentence"]


@pytest.mark.parametrize("told", [None, "/job"])
def test_the_folder_that_the_training_job_is_told_wins(
    told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict.binding, "observe", lambda config, say: {"state": "not_applicable", "sentence": "S."})
    monkeypatch.setenv("TRITON_CACHE_DIR", told or "")
    if told is None:
        monkeypatch.delenv("TRITON_CACHE_DIR")
    found = verdict.prove({"model_type": "lfm2"}, {"triton_cache": str(tmp_path), "seed": 7})
    assert found["triton_cache"] == os.environ["TRITON_CACHE_DIR"] == (told or str(tmp_path))
    assert (found["seed"], found["wanted_ratio"]) == (7, FAMILIES["lfm2"].wanted_ratio)


def test_each_proof_has_inputs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict.binding, "observe", lambda config, say: {"state": "not_applicable", "sentence": "S."})
    assert len({verdict.prove({}, {})["seed"] for _proof in range(4)}) > 1


def test_a_cache_below_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sentence = verdict._unwritable(str(tmp_path / "file" / "cache"))
    assert sentence is not None and "(Not a directory): make it writable for this user" in sentence
    assert verdict._unwritable(str(tmp_path / "new")) is None and list((tmp_path / "new").iterdir()) == []


def test_one_bad_gpu_of_two_is_bad() -> None:
    bad = gpu([check(False, forward_error=0.5)], [row()], RATIOS)
    assert judge(report(binding(), GOOD, bad), False)["state"] == "broken"


@pytest.mark.parametrize(
    ("state", "cpu_only", "wanted"),
    [
        ("ok", False, "unknown"),
        ("ok", True, "not_applicable"),
        ("broken", True, "broken"),
        ("absent", False, "absent"),
        ("unknown", True, "not_applicable"),
        ("unknown", False, "unknown"),
        ("absent", True, "not_applicable"),
        ("not_applicable", False, "not_applicable"),
    ],
)
def test_without_a_gpu(state: str, cpu_only: bool, wanted: str) -> None:
    found = judge(report(binding(state)), cpu_only)
    assert found["state"] == wanted
    if wanted == "unknown" and state == "ok":
        assert found["sentence"] == "It is ok, but no GPU here can prove it (torch sees no GPU)."


CHECKS = st.builds(check, st.sampled_from([True, False, None]), stage=st.sampled_from(["forward", "backward", "done"]))
ROWS = st.builds(row, st.sampled_from(["fast", "reference"]), training_ms=st.sampled_from([None, 8.4]))
RATIO = st.fixed_dictionaries({k: st.none() | st.floats(0.1, 30) for k in ("forward", "training")})
GPUS = st.builds(gpu, st.none() | st.lists(CHECKS, max_size=3), st.lists(ROWS, max_size=3), st.lists(RATIO, max_size=2))
BINDINGS = st.builds(
    binding,
    st.sampled_from(["ok", "broken", "absent", "unknown"]),
    st.lists(st.sampled_from(NAMES), unique=True, max_size=4).map(tuple),
)


@given(BINDINGS, st.lists(GPUS, max_size=3), st.booleans())
def test_ok_means_all_three_on_every_gpu(found: dict[str, Any], gpus: list[dict[str, Any]], cpu_only: bool) -> None:
    result = judge(report(found, *gpus), cpu_only)
    assert result["sentence"].endswith(".")
    if result["state"] == "ok":
        assert result["bound"] and result["right"] and result["fast"] and gpus
        assert all(c["passed"] is not False for g in gpus for c in (g["right"] or {"checks": []})["checks"])
        assert all(r["training_ms"] for g in gpus for r in g["fast"]["rows"] if r["path"] == "fast")


def test_a_fast_path_that_crashes_while_it_is_timed_is_broken_and_says_so() -> None:
    """An illegal memory access stays with the process, so that the reference cannot be timed after it either."""
    error = "AcceleratorError: CUDA error: an illegal memory access was encountered"
    crashed = row(training_ms=None, error=error, stage="training")
    report: dict[str, Any] = {"binding": binding(), "gpus": [gpu([check()], [crashed], [])]}
    report["gpus"][0]["fast"]["error"] = error
    found = judge(report, False)
    assert (found["state"], found["fast"]) == ("broken", False)
    assert f"training of 4096 tokens fails ({error})" in found["sentence"]
    assert "could not be timed" not in found["sentence"]
