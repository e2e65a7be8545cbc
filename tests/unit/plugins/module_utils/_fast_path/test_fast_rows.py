# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rows are timed: both paths at each length, forward alone after a refusal, and what the time allowed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import fast
from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.progress import Expired, Progress

REFUSAL = "RuntimeError: Triton >= 3.4.0 and < 3.7.1 on Hopper GPUs produces incorrect results"


class Clock:
    """Stands for ``measure``: (median, first) by path and stage; ``ends`` raises Expired at that measurement."""

    def __init__(self) -> None:
        self.reference = False
        self.measured: list[str] = []
        self.ends = 99

    def measure(self, work: Any, _device: Any) -> tuple[float, float]:
        if len(self.measured) == self.ends:
            raise Expired("fast was not done within its 9 s; it was at: a kernel")
        stage = work.__name__
        self.measured.append(("reference " if self.reference else "fast ") + stage)
        median = {"forward": 2.0, "training": 8.0}[stage] * (5 if self.reference else 1)
        return median, median + 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    torch = ModuleType("torch")
    torch.bfloat16 = "bfloat16"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Layer:
        device = SimpleNamespace(type="cpu")

        def __init__(self, *_arguments: Any) -> None:
            pass

        def inputs(self, tokens: int, seed: int) -> int:
            return tokens

        @contextlib.contextmanager
        def reference(self) -> Iterator[None]:
            made.reference = True
            try:
                yield
            finally:
                made.reference = False

    monkeypatch.setattr(fast, "Layer", Layer)
    monkeypatch.setattr(fast, "measure", made.measure)
    monkeypatch.setattr(fast, "_model", lambda *_arguments: [])
    return made


def check(**more: Any) -> dict[str, Any]:
    return fast.check({}, "cuda:0", (64, 128), progress=Progress(), **more)


def test_both_paths_are_timed_at_each_length(clock: Clock) -> None:
    found = check()
    assert [(r["path"], r["tokens"], r["forward_ms"], r["training_ms"]) for r in found["rows"]] == [
        ("fast", 64, 2.0, 8.0),
        ("reference", 64, 10.0, 40.0),
        ("fast", 128, 2.0, 8.0),
        ("reference", 128, 10.0, 40.0),
    ]
    assert found["ratios"] == [{"tokens": n, "forward": 5.0, "training": 5.0} for n in (64, 128)]
    assert found["warm_up_s"] == 4.0 and found["unfinished"] is None and found["error"] is None


def test_nothing_bound_times_the_reference_alone(clock: Clock) -> None:
    found = check(reference_only=True)
    assert {r["path"] for r in found["rows"]} == {"reference"} and found["ratios"] == []


def test_a_backward_that_is_known_to_refuse_is_not_run_again(clock: Clock) -> None:
    found = check(refused=REFUSAL)
    assert clock.measured[:3] == ["fast forward", "reference forward", "reference training"]
    row = found["rows"][0]
    assert (row["forward_ms"], row["training_ms"], row["stage"], row["error"]) == (2.0, None, "training", REFUSAL)
    assert row["remedy"] == "upgrade triton to 3.7.1 or later, or install tilelang"
    assert found["ratios"][0] == {"tokens": 64, "forward": 5.0, "training": None}


def test_rows_that_the_time_sufficed_for_are_kept(clock: Clock) -> None:
    clock.ends = 5
    kept: dict[str, Any] = {}
    found = check(found=kept)
    assert found is kept
    assert [(r["path"], r["tokens"]) for r in found["rows"]] == [("fast", 64), ("reference", 64)]
    assert len(found["ratios"]) == 1
    assert found["unfinished"] == "fast was not done within its 9 s; it was at: a kernel"


def test_a_layer_that_cannot_be_built_is_an_error_of_the_part(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_arguments: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(fast, "Layer", failing)
    found = check()
    assert (found["rows"], found["error"], found["unfinished"]) == ([], "RuntimeError: out of memory", None)
