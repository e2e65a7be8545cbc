# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One small layer of each family, under the oldest and the newest designs: built, trained, packed, and decoded.

On a CPU everything is transformers' own PyTorch, so a check that says False blames the fast path for what it did not
do. Each release is one process; together they take about half a minute of one core.
"""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import archive, families
from tests import fast_path_environments as environments

pytestmark = pytest.mark.timeout(600)

# Families whose release has something of its own: a cache, a constructor, a switch, a mistake.
WANTED = {
    "4.57.6": ["qwen3_next", "lfm2", "mamba", "falcon_mamba", "mamba2", "jamba", "falcon_h1", "zamba", "zamba2"],
    "5.14.1": ["qwen3_5", "falcon_mamba", "falcon_h1", "olmo_hybrid", "zamba"],
    "5.17.0": ["qwen3_5", "olmo_hybrid", "mamba", "mamba2", "jamba", "kimi_linear"],
    "5.24.0": ["qwen3_5", "falcon_mamba", "falcon_h1", "nemotron_h", "zamba2", "kimi_linear"],
}
CASES = [(release, family) for release, wanted in WANTED.items() for family in wanted]
Answers = dict[str, "Future[dict[str, dict[str, Any]]]"]


def ask(program: Path, release: str) -> dict[str, dict[str, Any]]:
    """{family: what the driver found} of one release."""
    request = {
        "archive": str(program),
        "overlay": environments.transformers(release),
        "families": WANTED[release],
        "seed": 5,
        "wrong": ["qwen3_5"] if release == "5.17.0" else [],
    }
    done = subprocess.run(
        [str(environments.base()), "-B", str(Path(__file__).with_name("fast_path_layers.py"))],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {found["family"]: found for found in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    program = tmp_path_factory.mktemp("program") / "program.zip"
    program.write_bytes(archive.build())
    environments.base()
    with ThreadPoolExecutor(2) as pool:
        yield {release: pool.submit(ask, program, release) for release in WANTED}


@pytest.mark.parametrize(("release", "family"), CASES)
def test_a_layer_that_runs_pytorch_alone_is_right(answers: Answers, release: str, family: str) -> None:
    layer, decoding, *packed = answers[release].result()[family]["checks"]
    assert layer["passed"] is True, layer
    assert layer["gradient_error"] is not None
    if (release, family) == ("5.17.0", "olmo_hybrid"):
        assert (decoding["passed"], decoding["stage"]) == (None, "reference")
        assert "transformers 5.17.0 itself is wrong by 0." in decoding["error"]
    else:
        assert decoding["passed"] is True, decoding
    for check in packed:
        # No release keeps them apart in PyTorch; the newest says so itself.
        words = (f"transformers {release} itself ignores the borders", "can't keep packed sequences apart without")
        assert any(word in check["error"] for word in words), check


@pytest.mark.parametrize("family", [family for release, family in CASES if release == "5.24.0"])
def test_what_the_functions_are_compared_with_is_what_transformers_computes(answers: Answers, family: str) -> None:
    """The cases' own recurrences, written by hand, against the PyTorch functions of the release: also backward."""
    found = answers["5.24.0"].result()[family]
    assert {check["subject"] for check in found["functions"]} >= set(families.FAMILIES[family].functions)
    for check in found["functions"]:
        assert check["passed"] is True and check["forward_error"] < 1e-4, check
        assert (check["gradient_error"] or 0) < 1e-4, check


def test_functions_are_tried_at_the_sizes_of_the_layer(answers: Answers) -> None:
    found = {family: answers["5.24.0"].result()[family]["sizes"] for family in ("qwen3_5", "nemotron_h", "zamba2")}
    net, nemotron, zamba = (found[name] for name in ("qwen3_5", "nemotron_h", "zamba2"))
    assert (net["heads"], net["key"], net["value"], net["width"]) == (4, 32, 32, 4)
    wanted = {"heads": 8, "value": 32, "state": 16, "width": 4, "by_head": True}
    assert {name: nemotron[name] for name in wanted} == {name: zamba[name] for name in wanted} == wanted
    assert (nemotron["groups"], zamba["groups"]) == (8, 1)


def test_packed_sequences_that_transformers_itself_forgets_are_not_the_fault_of_a_function(answers: Answers) -> None:
    packed = answers["5.17.0"].result()["qwen3_5"]["checks"][2]
    assert (packed["passed"], packed["stage"]) == (None, "reference")
    assert packed["error"].startswith("transformers 5.17.0 itself ignores the borders of packed sequences in Qwen3_5Ga")


def test_borders_that_transformers_hands_to_half_of_the_functions_are_its_own_fault(answers: Answers) -> None:
    packed = answers["5.17.0"].result()["jamba"]["checks"][2]
    assert (packed["passed"], packed["stage"]) == (None, "reference")
    assert packed["error"].endswith("in JambaMambaMixer for selective_scan_fn: do not train packed")


def test_what_differs_in_training_alone_is_not_the_fault_of_the_functions(answers: Answers) -> None:
    """As Mamba-2's norm with several groups, which its fused function takes over each group and its class over all."""
    check = answers["5.17.0"].result()["qwen3_5"]["fused"]
    assert (check["passed"], check["stage"]) == (None, "reference")
    assert "itself computes something else in training than in evaluation in Qwen3_5GatedDeltaNet" in check["error"]


def test_a_fast_path_that_is_wrong_alone_is_blamed(answers: Answers) -> None:
    """The same layer with an error in what runs outside of the reference, and a half-heard border."""
    for check in answers["5.17.0"].result()["qwen3_5"]["wrong"]:
        assert check["passed"] is False and check["error"] is None, check
        assert check["forward_error"] > 0.1
