# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock: the same host gives the same text, and whatever decides a training run is in it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _training_lock as lock_of

LIBRARY = "/opt/training/lib/python3.11/site-packages/causal_conv1d_cuda.cpython-311-x86_64-linux-gnu.so"
SUMS = {LIBRARY: "5e" * 32}
PROOF = {
    "schema": 1,
    "ok": True,
    "gpu": "NVIDIA H200",
    "ratio": 8.02,
    "figures": [{"gpu": "NVIDIA H200", "index": 0, "tokens": 4096, "stage": "training", "ms": 8.4}],
    "key": {"torch": "2.14.1", "gpu": "NVIDIA H200"},
    "when": "2026-11-30T12:00:00+00:00",
    "seconds": 14.2,
}
FACTS: dict[str, Any] = {
    "reach": {"answered": True},
    "base": {
        "os": {"id": "debian", "version_id": "12", "pretty_name": "Debian GNU/Linux 12 (bookworm)"},
        "machine": "x86_64",
        "deb_arch": "amd64",
        "glibc": "2.36",
        "python": "3.11.2",
        "disk": {"/": {"free_bytes": 1, "total_bytes": 2}},
        "memory_limit_bytes": 1 << 35,
    },
    "gpu": {"module_version": "580.159", "gpus": [{"name": "NVIDIA H200", "capability": "9.0", "uuid": "GPU-1"}]},
    "torch": {
        "path": "/opt/training",
        "python": "/opt/training/bin/python",
        "python_version": "3.11.2",
        "version": "2.14.1+cu130",
        "cuda": "13.0",
        "cxx11_abi": True,
        "distributions": {"torch": "2.14.1", "tokenizers": "0.22.2", "transformers": "5.17.0"},
    },
    "repository": {
        "url": "https://user:secret@mirror.example/compute/cuda/repos/debian12/x86_64/",
        "keyring": {"path": "/usr/share/keyrings/k.gpg", "fingerprints": ["EB693B3035CD5710E231E123A4B469963BF863CC"]},
    },
    "toolkit": {
        "packages": {"cuda-nvcc-13-0": {"version": "13.0.88-1", "held": True}},
        "nvccs": [{"path": "/usr/local/cuda-13.0/bin/nvcc", "version": "13.0.88", "package": "cuda-nvcc-13-0"}],
    },
    "compiler": {"gcc": "12.2.0", "gxx": "12.2.0", "ninja": "1.13.2", "key": {}, "record": {"seconds": 12.1}},
    "extensions": {
        "causal-conv1d": {
            "version": "1.7.0",
            "record": {
                "schema": 1,
                "key": {"package": "causal-conv1d", "torch": "2.14.1+cu130"},
                "built": {"seconds": 9},
            },
            "modules": [{"name": "causal_conv1d_cuda", "file": LIBRARY, "exists": True, "gpu_targets": ["sm_90"]}],
        }
    },
    "binding": {
        "model": "qwen3_5",
        "family": "qwen3_5",
        "design": "decorator",
        "fast_layers": 6,
        "total": 8,
        "source": "live",
        "functions": [{"name": "causal_conv1d_fn", "implementation": "causal_conv1d.causal_conv1d_fn"}],
    },
    "proof": {"record": PROOF, "lock": None},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """FACTS with one leaf replaced; ``path`` has dots."""
    facts = copy.deepcopy(FACTS)
    *parents, last = path.split("/")
    where: Any = facts
    for name in parents:
        where = where[int(name) if isinstance(where, list) else name]
    where[last] = value
    return facts


def test_it_holds_what_decides_a_training_run() -> None:
    lock = lock_of.content(FACTS, SUMS)
    assert lock["schema"] == 1
    assert lock["torch"]["version"] == "2.14.1+cu130"
    assert lock["distributions"]["tokenizers"] == "0.22.2"
    assert lock["toolkit"]["packages"]["cuda-nvcc-13-0"] == {"version": "13.0.88-1", "held": True}
    assert lock["repository"]["fingerprints"] == ["EB693B3035CD5710E231E123A4B469963BF863CC"]
    extension = lock["extensions"]["causal-conv1d"]
    assert extension["key"]["torch"] == "2.14.1+cu130"
    assert extension["modules"]["causal_conv1d_cuda"] == {"sha256": "5e" * 32, "gpu_targets": ["sm_90"]}
    assert lock["binding"]["functions"] == {"causal_conv1d_fn": "causal_conv1d.causal_conv1d_fn"}
    assert lock["proof"]["figures"][0]["ms"] == 8.4


def test_no_login_gets_into_it() -> None:
    assert "secret" not in lock_of.text(lock_of.content(FACTS, SUMS))


def test_the_text_is_json_with_a_last_newline_and_reads_back() -> None:
    lock = lock_of.content(FACTS, SUMS)
    text = lock_of.text(lock)
    assert text.endswith("}\n") and json.loads(text) == lock == lock_of.read(text)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"schema": 99}', "null"])
def test_a_damaged_lock_or_one_of_another_schema_is_none(text: str | None) -> None:
    assert lock_of.read(text) is None


MOVES = {
    "base/disk": {"/": {"free_bytes": 5, "total_bytes": 9}},
    "base/memory_limit_bytes": 1,
    "binding/source": "record",
    "compiler/record": {"seconds": 99.0},
    "extensions/causal-conv1d/record/built": {"seconds": 1},
    "proof/record/seconds": 1.0,
    "proof/record/when": "2027-01-01T00:00:00+00:00",
    "proof/record/figures": [{"ms": 8.5}],
    "proof/record/ratio": 7.9,
    "proof/lock": {"schema": 1},
}
DRIFTS = {
    "base/glibc": "2.41",
    "gpu/module_version": "590.1",
    "torch/version": "2.15.0+cu132",
    "torch/distributions": {"torch": "2.14.1"},
    "repository/keyring": {"fingerprints": ["AA"]},
    "toolkit/packages": {"cuda-nvcc-13-0": {"version": "13.0.88-1", "held": False}},
    "toolkit/nvccs": [],
    "compiler/gcc": "13.1.0",
    "extensions/causal-conv1d/version": "1.7.1",
    "extensions/causal-conv1d/record/key": {"torch": "2.11.0+cu130"},
    "binding/functions": [{"name": "causal_conv1d_fn", "implementation": "transformers.torch_causal_conv1d"}],
    "proof/record/key": {"torch": "2.14.1", "gpu": "NVIDIA A100"},
}


@pytest.mark.parametrize("path", MOVES)
def test_what_moves_by_itself_does_not_change_it(path: str) -> None:
    before = lock_of.content(FACTS, SUMS)
    assert lock_of.text(lock_of.content(changed(path, MOVES[path]), SUMS, before)) == lock_of.text(before)


@pytest.mark.parametrize("path", DRIFTS)
def test_drift_changes_it_and_is_named(path: str) -> None:
    before = lock_of.content(FACTS, SUMS)
    after = lock_of.content(changed(path, DRIFTS[path]), SUMS, before)
    assert lock_of.differences(before, after)


def test_a_replaced_library_is_named() -> None:
    before = lock_of.content(FACTS, SUMS)
    assert lock_of.differences(before, lock_of.content(FACTS, {LIBRARY: "00" * 32}, before)) == [
        f"extensions.causal-conv1d.modules.causal_conv1d_cuda.sha256: {'5e' * 32} -> {'00' * 32}"
    ]


def test_differences_name_what_came_and_what_went() -> None:
    assert lock_of.differences({"a": {"x": 1}, "b": [1]}, {"a": {"y": None}, "b": [1, 2]}) == [
        "a.x: 1 -> nothing",
        "a.y: nothing -> null",
        "b: [1] -> [1, 2]",
    ]
    assert lock_of.differences(None, {"a": 1}) == []


def test_a_failed_proof_is_not_locked() -> None:
    before = lock_of.content(FACTS, SUMS)
    assert lock_of.content(changed("proof/record/ok", False), SUMS, before)["proof"] is None


def test_a_proof_under_new_conditions_replaces_the_old_figures() -> None:
    before = lock_of.content(FACTS, SUMS)
    facts = changed("proof/record", {**PROOF, "key": {"torch": "2.15.0"}, "when": "2027-01-01T00:00:00+00:00"})
    assert lock_of.content(facts, SUMS, before)["proof"]["when"] == "2027-01-01T00:00:00+00:00"


@pytest.mark.parametrize("facts", [{}, {"torch": {"error": "no answer"}}, {"torch": {"path": "/opt/training"}}])
def test_without_a_torch_there_is_nothing_to_lock(facts: dict[str, Any]) -> None:
    with pytest.raises(lock_of.NotLockable, match="There is no torch in the facts"):
        lock_of.content(facts, {})


def test_sections_that_were_not_observed_are_empty_and_do_not_raise() -> None:
    facts = {link: {"error": "no answer"} for link in FACTS}
    lock = lock_of.content({**facts, "torch": FACTS["torch"]}, {})
    assert (lock["extensions"], lock["proof"], lock["binding"]["functions"]) == ({}, None, {})


def test_modules_to_be_summed_are_those_that_exist() -> None:
    assert lock_of.compiled_modules(FACTS) == [LIBRARY]
    gone = [{"name": "causal_conv1d_cuda", "file": LIBRARY, "exists": False}]
    assert lock_of.compiled_modules(changed("extensions/causal-conv1d/modules", gone)) == []


LEAVES = st.none() | st.booleans() | st.integers(0, 5) | st.text(max_size=3)
SECTIONS = st.recursive(LEAVES, lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=8)


@given(
    st.dictionaries(st.text(max_size=3), SECTIONS, max_size=4),
    st.dictionaries(st.text(max_size=3), SECTIONS, max_size=4),
)
def test_no_differences_exactly_when_equal(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert (lock_of.differences(one, two) == []) is (json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True))
