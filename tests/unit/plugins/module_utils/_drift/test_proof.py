# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nightly proof never disturbs a training, and what it finds is a line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import proof, verdict
from tests.unit.plugins.module_utils._drift import nights

WEEK = 7 * nights.DAY
IDLE = {"processes": 0, "utilization": 0, "memory_mib": 4}


def step(load: dict[str, int] | None, mode: str = "weekly", days: float = 8, gpu: bool = True, move: Any = None) -> str:
    def both(facts: dict[str, Any]) -> None:
        facts["gpu"]["load"] = load
        if move:
            move(facts)

    chain = nights.chain(both, gpu=gpu)
    when = datetime.fromtimestamp(nights.NOW - days * nights.DAY, UTC).isoformat()
    judged = verdict.judge("ct200", chain, nights.NOW)
    return proof.step(chain, judged, {"when": when, "ok": True}, mode, WEEK, nights.NOW)


def unheld(facts: dict[str, Any]) -> None:
    facts["toolkit"]["packages"]["cuda-nvcc-13-0"]["held"] = False


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ("run", {"load": IDLE}),
        ("nothing", {"load": IDLE, "days": 3}),
        ("run", {"load": IDLE, "days": 3, "mode": "always"}),
        ("nothing", {"load": IDLE, "mode": "never"}),
        ("nothing", {"load": IDLE, "gpu": False}),
        ("nothing", {"load": IDLE, "move": unheld}),
        ("busy", {"load": IDLE | {"processes": 1}}),
        ("busy", {"load": IDLE | {"utilization": 40}}),
        ("busy", {"load": IDLE | {"memory_mib": 60000}}),
        ("busy", {"load": None}),
    ],
)
def test_when_the_gpu_is_used(expected: str, arguments: dict[str, Any]) -> None:
    assert step(**arguments) == expected


def test_busy_is_unknown() -> None:
    chain = nights.chain(lambda facts: facts["gpu"].update(load=IDLE | {"processes": 2}), gpu=True)
    found = verdict.judge("ct200", chain, nights.NOW, [proof.busy(chain)])
    assert found["result"] == "unknown"
    assert found["lines"][0]["is"].startswith("busy, proof skipped")


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        ({"state": "ok", "slower": []}, []),
        ({"state": "ok", "slower": ["16384 tokens took 12 ms, 8 ms when locked"]}, ["drift"]),
        ({"state": "broken", "sentence": "backward refuses"}, ["drift"]),
        ({"state": "unknown", "sentence": "out of time"}, ["unknown"]),
        ({"failed": True, "msg": "no python"}, ["unknown"]),
    ],
)
def test_what_a_proof_says(answer: dict[str, Any], kinds: list[str]) -> None:
    assert [line["kind"] for line in proof.lines(answer, nights.chain(gpu=True))] == kinds


def test_it_is_measured_by_the_lock() -> None:
    chain = nights.chain(gpu=True)
    figures = [{"gpu": "NVIDIA H200", "tokens": 4096, "stage": "training", "ms": 8.4}]
    chain["facts"]["proof"]["lock"]["proof"]["figures"] = figures
    given = proof.arguments(chain, 600)
    assert (given["baseline"], given["quick"], given["python"]) == (figures, True, "/opt/training/bin/python")


@pytest.mark.parametrize(("on_disk", "count"), [("580.95.05", 0), ("", 0), ("590.44.01", 1)])
def test_a_driver_that_the_next_boot_loads(on_disk: str, count: int) -> None:
    found = proof.pending_driver("580.95.05", on_disk)
    assert len(found) == count
    assert all("not yet loaded" in line["is"] and line["link"] == "gpu" for line in found)


def test_the_newer_proof_counts() -> None:
    chain = nights.chain(gpu=True)
    chain["facts"]["proof"]["record"] |= {"when": "2026-11-20T02:00:00+00:00"}
    kept = {"when": "2026-11-28T02:00:00+00:00", "ok": True, "ratio": 7.0}
    assert proof.newest(chain, kept) == kept
    assert proof.newest(chain, {})["ratio"] == 8.0
