# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proof as text, as Prometheus' figures, and as the figures that a lock keeps."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import report

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\.)*"'
LINE = re.compile(rf"^proxmox_gpu_[a-z_]+(?:\{{{LABEL}(?:,{LABEL})*\}})? -?[0-9.e+-]+$")


def row(
    path: str = "fast", tokens: int = 4096, training_ms: float | None = 8.4, error: str | None = None
) -> dict[str, Any]:
    return {
        "path": path, "tokens": tokens, "forward_ms": 2.68, "training_ms": training_ms, "tokens_per_s": 487619,
        "peak_bytes": 1660000000, "warm_up_s": 1.5, "error": error, "stage": "training" if error else None,
    }  # fmt: skip


def proof(*rows: dict[str, Any], name: str = "NVIDIA H200") -> dict[str, Any]:
    check = {
        "title": "layer: 1024 tokens", "dtype": "bfloat16", "passed": True, "error": None, "forward_error": 0.0052,
        "bound": 0.03, "gradient_error": 0.013, "worst_gradient": "norm.weight", "gradient_bound": 0.03,
        "stage": "done",
    }  # fmt: skip
    bad = {**check, "passed": False, "error": "RuntimeError: no", "stage": "backward"}
    functions = [
        {"name": "a_fn", "distribution": "a", "bound": True, "implementation": "a.a_fn", "error": None},
        {"name": "b_fn", "distribution": "b", "bound": False, "implementation": None, "error": "no module 'b' here"},
        {"name": "c_fn", "distribution": "c", "bound": None, "implementation": None, "error": "only with a GPU"},
    ]
    model = {"parameters": 27e9, "tokens": 4096, "ratio": 6.9, "reference_ms": 4200.0, "fast_ms": 608.0}
    right = {"passed": True, "checks": [check, bad]}
    fast = {"rows": list(rows), "ratios": [{"tokens": 4096, "forward": 3.9, "training": 8.0}], "model": [model]}
    return {
        "state": "ok",
        "sentence": "All is well.",
        "binding": {
            "layers_sentence": "48 of 64 layers ...", "transformers": "5.17.0", "torch": "2.11.0",
            "design": "decorator", "functions": functions,
        },
        "gpus": [
            {"index": 0, "name": name, "capability": "9.0", "right": right, "fast": fast}
        ],
        "warnings": ["half of it"],
        "seconds": 12.5,
    }  # fmt: skip


def test_text_has_the_verdict_first_and_everything_else_below() -> None:
    lines = report.text(proof(row(), row("reference", training_ms=None, error="out of memory"))).splitlines()
    assert lines[0] == "ok: All is well."
    text = "\n".join(lines)
    for words in (
        "bound     a_fn",
        "SLOW      b_fn",
        "undecided c_fn",
        "error 0.0052 (bound 0.03), gradients 0.0130 (norm.weight, bound 0.03)",
        "WRONG     bfloat16  layer: 1024 tokens: backward: RuntimeError: no",
        "training: out of memory",
        "4096 tokens: forward 3.9 x, training 8.0 x",
        "the slow path would cost 6.9 x per step (4200 instead of 608 ms)",
        "warning: half of it",
        "The proof took 12.5 s.",
    ):
        assert words in text


@pytest.mark.parametrize(
    "found", [{}, {"state": "unknown", "sentence": "no answer"}, {"error": "x", "functions": ["a"]}]
)
def test_text_and_metrics_of_an_answer_that_is_none(found: dict[str, Any]) -> None:
    assert report.text(found)
    assert report.prometheus(found).startswith("# HELP proxmox_gpu_fast_path_state")
    assert report.figures(found) == []


@given(st.text(max_size=20))
def test_metrics_are_well_formed_whatever_the_names(name: str) -> None:
    lines = report.prometheus(proof(row(), row("reference"), name=name)).split("\n")
    assert lines.pop() == ""
    for line in lines:
        assert line.startswith(("# HELP ", "# TYPE ")) or LINE.match(line), line


def test_metrics_of_the_whole_proof() -> None:
    text = report.prometheus({**proof(row()), "seconds": 12.5}, ["training takes longer."])
    assert "\nproxmox_gpu_fast_path_proof_seconds 12.5\n" in text
    assert "\nproxmox_gpu_fast_path_slower 1\n" in text
    assert 'proxmox_gpu_fast_path_warm_up_seconds{gpu="0",name="NVIDIA H200",path="fast",tokens="4096"}' in text
    assert 'proxmox_gpu_fast_path_model_ratio{tokens="4096",gpu="0",name="NVIDIA H200"} 6.9' in text
    assert "fast_path_slower" not in report.prometheus(proof(row()))


def test_why_a_layer_was_not_timed_and_how_to_repeat_are_in_the_text() -> None:
    found = proof(row())
    found["gpus"][0]["fast"]["error"] = "OutOfMemoryError: 10 GiB"
    assert "  not timed: OutOfMemoryError: 10 GiB" in report.text({**found, "seed": 0, "seconds": 1.0})
    assert "--seed 0" in report.text({**found, "seed": 0, "seconds": 1.0})


def test_metrics_are_in_seconds_and_bytes() -> None:
    text = report.prometheus(proof(row()))
    labels = 'gpu="0",name="NVIDIA H200",path="fast",tokens="4096"'
    assert f'proxmox_gpu_fast_path_layer_seconds{{stage="training",{labels}}} 0.0084' in text
    assert f"proxmox_gpu_fast_path_peak_bytes{{{labels}}} 1.66e+09" in text
    assert 'proxmox_gpu_fast_path_bound{function="b_fn",distribution="b"} 0' in text
    assert 'function="c_fn"' not in text


def test_figures_are_those_of_the_fast_path() -> None:
    found = report.figures(proof(row(), row("reference"), row(tokens=16384, training_ms=None)))
    assert [(f["tokens"], f["stage"], f["ms"]) for f in found] == [
        (4096, "forward", 2.68),
        (4096, "training", 8.4),
        (16384, "forward", 2.68),
    ]


FIGURE = {"gpu": "NVIDIA H200", "index": 0, "tokens": 4096, "stage": "training"}


@given(st.floats(0.1, 1e4), st.floats(0.5, 2.0))
def test_more_than_fifteen_percent_is_a_slow_down_and_less_is_none(before: float, factor: float) -> None:
    found = report.slower([{**FIGURE, "ms": before}], [{**FIGURE, "ms": before * factor}])
    if factor < 1.1499:
        assert found == []
    elif factor > 1.1501:
        assert len(found) == 1


def test_a_slow_down_says_what_how_much_and_against_what() -> None:
    assert report.slower([{**FIGURE, "ms": 8.4}], [{**FIGURE, "ms": 10.0}]) == [
        "training of 4096 tokens on GPU 0 takes 10.00 ms, 19 % more than the 8.40 ms that were proven."
    ]


@pytest.mark.parametrize("other", [{"gpu": "NVIDIA A100"}, {"index": 1}, {"tokens": 8192}, {"stage": "forward"}])
def test_figures_of_something_else_are_not_compared(other: dict[str, Any]) -> None:
    assert report.slower([{**FIGURE, "ms": 1.0}], [{**FIGURE, "ms": 99.0, **other}]) == []
