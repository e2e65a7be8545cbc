# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of the checks, and what a refusing backward or a lack of time makes of them; torch is a stand-in."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import marks, right, verdict
from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.cases import Case
from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.progress import Expired, Progress

FUNCTIONS = [{"name": "causal_conv1d_fn", "bound": True}, {"name": "chunk_gated_delta_rule", "bound": True}]


class Bench:
    """``right`` with every check replaced by a note of what would have been tried."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.refuses: str | None = None
        self.expires_at: str | None = None

    def entry(self, dtype: str, title: str, backward: bool) -> dict[str, Any]:
        if title == self.expires_at:
            raise Expired("right was not done within its 9 s; it was at: " + title)
        self.tried.append(f"{dtype} {title}" + ("" if backward else " (forward)"))
        if backward and self.refuses:
            return marks.failed(title, "backward", RuntimeError(self.refuses), "layer", dtype)
        return marks.entry(title, "layer", dtype, 0.005, {"input": 0.006} if backward else {})


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    torch = ModuleType("torch")
    torch.backends = SimpleNamespace(  # type: ignore[attr-defined]
        cudnn=SimpleNamespace(allow_tf32=True), cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True))
    )
    torch.bfloat16, torch.float16 = "bfloat16", "float16"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Layer:
        def __init__(self, _config: Any, device: Any, dtype: str, seed: int) -> None:
            self.device, self.dtype, self.seed = SimpleNamespace(type="cpu"), dtype, seed

        def precise(self) -> Layer:
            return self

        def takes_packed(self) -> bool:
            return True

    def two_cases(name: str, *_rest: Any, **_more: Any) -> list[Case]:
        return [Case(title, {}, lambda: None, lambda: None) for title in ("127 tokens", "packed sequences")]

    monkeypatch.setattr(right, "Layer", Layer)
    monkeypatch.setattr(right, "cases", two_cases)
    monkeypatch.setattr(right, "sizes_of", lambda _layer: None)
    monkeypatch.setattr(right, "_implementation", lambda _layer, name: name)
    monkeypatch.setattr(
        right,
        "layer_case",
        lambda _layer, _precise, dtype, _tokens, title, backward=True: made.entry(dtype, title, backward),
    )
    monkeypatch.setattr(
        right, "packed", lambda _l, _p, dtype, backward=True: made.entry(dtype, "layer: packed", backward)
    )
    monkeypatch.setattr(right, "decoding", lambda _l, _p, dtype: made.entry(dtype, "layer: decoding", False))
    monkeypatch.setattr(
        right, "_compare", lambda title, _name, dtype, case, _device: made.entry(dtype, title, case.gradients)
    )
    return made


def unfit(title: str, dtype: str) -> dict[str, Any]:
    return {**marks.failed(title, "reference", MemoryError("full"), "layer", dtype), "passed": None}


def check(**more: Any) -> dict[str, Any]:
    return right.check({}, "cuda:0", FUNCTIONS, progress=Progress(), **more)


def test_both_precisions_try_all_but_the_long_layer_in_the_second(bench: Bench) -> None:
    found = check()
    assert found["passed"] is True and found["unfinished"] is None and found["refused"] is None
    assert [t for t in bench.tried if t.startswith("bfloat16")] == [
        "bfloat16 layer: 333 tokens",
        "bfloat16 layer: 1024 tokens",
        "bfloat16 layer: packed",
        "bfloat16 layer: decoding (forward)",
        "bfloat16 causal_conv1d_fn: 127 tokens",
        "bfloat16 causal_conv1d_fn: packed sequences",
        "bfloat16 chunk_gated_delta_rule: 127 tokens",
        "bfloat16 chunk_gated_delta_rule: packed sequences",
    ]
    assert [t for t in bench.tried if t.startswith("float16")] == [
        "float16 layer: 333 tokens",
        "float16 layer: packed",
        "float16 layer: decoding (forward)",
        "float16 causal_conv1d_fn: 127 tokens",
        "float16 causal_conv1d_fn: packed sequences",
        "float16 chunk_gated_delta_rule: 127 tokens",
        "float16 chunk_gated_delta_rule: packed sequences",
    ]


def test_after_a_backward_that_refuses_only_forward_is_tried_and_no_second_precision(bench: Bench) -> None:
    bench.refuses = "Triton >= 3.4.0 and < 3.7.1 on Hopper"
    found = check()
    assert found["passed"] is False
    assert found["refused"] == "RuntimeError: Triton >= 3.4.0 and < 3.7.1 on Hopper"
    assert bench.tried[:2] == ["bfloat16 layer: 333 tokens", "bfloat16 layer: 1024 tokens (forward)"]
    assert "bfloat16 layer: packed (forward)" in bench.tried
    assert not any(t.startswith("float16") for t in bench.tried)


def test_packed_sequences_are_no_matter_for_a_layer_that_is_half_bound(bench: Bench) -> None:
    found = right.check({}, "cuda:0", [FUNCTIONS[0], {**FUNCTIONS[1], "bound": False}], progress=Progress())
    assert found["passed"] is True
    assert not any("packed (" in t or t.endswith("layer: packed") for t in bench.tried)
    assert "bfloat16 layer: decoding (forward)" in bench.tried


def test_what_the_time_did_not_suffice_for_is_unknown_and_the_rest_is_kept(bench: Bench) -> None:
    bench.expires_at = "layer: decoding"
    found: dict[str, Any] = {}
    check(found=found)
    assert found["passed"] is None
    assert [c["passed"] for c in found["checks"]] == [True, True, True]
    assert found["unfinished"] == "right was not done within its 9 s; it was at: layer: decoding"


def test_a_failure_counts_although_the_time_was_over(bench: Bench) -> None:
    bench.expires_at, bench.refuses = "layer: decoding", "a bug"
    assert check()["passed"] is False


def test_the_switch_for_tf32_is_put_back(bench: Bench) -> None:
    check()
    torch = sys.modules["torch"]
    assert torch.backends.cudnn.allow_tf32 and torch.backends.cuda.matmul.allow_tf32


def test_the_layer_is_tried_again_as_tuned_at_the_lengths_that_were_timed(bench: Bench) -> None:
    found = check()
    right.as_tuned({}, "cuda:0", (4096, 16384), found, Progress())
    assert bench.tried[-2:] == ["bfloat16 layer: 4096 tokens, as tuned", "bfloat16 layer: 16384 tokens, as tuned"]
    assert found["passed"] is True


def test_a_reference_that_does_not_fit_leaves_its_length_untried(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    found = check()
    monkeypatch.setattr(
        right,
        "layer_case",
        lambda _l, _p, dtype, _t, title, backward=True: unfit(title, dtype),
    )
    right.as_tuned({}, "cuda:0", (4096,), found, Progress())
    assert found["checks"][-1]["passed"] is None and found["passed"] is True


def test_a_layer_whose_reference_fails_is_unknown_whatever_else_is_right(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(right, "layer_case", lambda _l, _p, dtype, _t, title, backward=True: unfit(title, dtype))
    found = check()
    assert (found["passed"], [c["passed"] for c in found["checks"]].count(None)) == (None, 3)
    assert found["unfinished"] == (
        "the layer could not be compared, because the PyTorch reference fails: MemoryError: full"
    )
    assert verdict.judge(report(found, FAST), cpu_only=False)["state"] == "unknown"


def test_weights_and_inputs_are_drawn_from_the_seed_of_the_proof(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def no_cases(*_rest: Any, seed: int) -> list[Case]:
        seeds.append(seed)
        return []

    monkeypatch.setattr(right, "cases", no_cases)
    check(seed=100)
    assert set(seeds) == {107}


def test_an_error_of_the_tuned_kernels_makes_the_proof_fail(bench: Bench) -> None:
    found = check()
    bench.refuses = "wrong when tuned"
    right.as_tuned({}, "cuda:0", (4096,), found, Progress())
    assert found["passed"] is False


def report(right_part: Any, fast_part: Any, **more: Any) -> dict[str, Any]:
    functions = [{"name": "causal_conv1d_fn", "bound": True, "error": None}]
    binding = {"state": "ok", "sentence": "All bound.", "functions": functions}
    return {"binding": binding, "gpus": [{"index": 0, "right": right_part, "fast": fast_part}], **more}


FAST = {"rows": [{"path": "fast", "remedy": None}], "ratios": [{"forward": 4.0, "training": 8.0}], "unfinished": None}


def test_a_verdict_over_unfinished_checks_is_unknown_with_the_reason(bench: Bench) -> None:
    bench.expires_at = "layer: decoding"
    found = verdict.judge(report(check(), FAST), cpu_only=False)
    assert (found["state"], found["right"], found["fast"]) == ("unknown", None, True)
    assert "it was at: layer: decoding" in found["sentence"]


def test_a_verdict_over_unfinished_times_is_unknown_with_the_reason(bench: Bench) -> None:
    part = {"rows": [], "ratios": [], "unfinished": "fast was not done within its 9 s"}
    found = verdict.judge(report(check(), part), cpu_only=False)
    assert (found["state"], found["right"], found["fast"]) == ("unknown", True, None)
    assert found["sentence"].endswith("forward and backward are right; fast was not done within its 9 s.")


def test_a_proof_that_was_given_up_while_binding_knows_nothing() -> None:
    found = verdict.judge({"gpus": [], "unfinished": "binding was not done within its 9 s"}, cpu_only=False)
    assert (found["state"], found["sentence"]) == (
        "unknown",
        "Nothing is known: binding was not done within its 9 s.",
    )
