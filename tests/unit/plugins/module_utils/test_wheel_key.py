# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import (
    WheelKey,
    differences,
    key_from_dict,
    make_key,
)

FACTS: dict[str, t.Any] = {
    "package": "causal-conv1d",
    "version": "1.7.0",
    "source_sha256": "ab" * 32,
    "torch": "2.14.1+cu130",
    "torch_cuda": "13.0",
    "python_tag": "cp311",
    "cxx11_abi": True,
    "machine": "x86_64",
    "libc": "glibc-2.36",
    "gpu_targets": ["9.0"],
    "flags": ["-std=c++20"],
}

VARIANTS: dict[str, list[t.Any]] = {
    "package": ["causal-conv1d", "mamba-ssm", "flash-attn"],
    "version": ["1.7.0", "1.7.0.post1", "1.6.1"],
    "source_sha256": ["ab" * 32, "ac" * 32],
    "torch": ["2.14.1+cu130", "2.14.1+cu126", "2.13.0+cu130"],
    "torch_cuda": ["13.0", "12.6"],
    "python_tag": ["cp311", "cp313", "cp313t"],
    "cxx11_abi": [True, False],
    "machine": ["x86_64", "aarch64"],
    "libc": ["glibc-2.36", "glibc-2.41"],
    "gpu_targets": [["sm_90"], ["sm_90", "compute_90"], ["sm_80", "sm_90"], []],
    "flags": [[], ["-std=c++20"], ["a", "b"], ["b", "a"], ["a,b"], ['a","b']],
}
SETS_OF_FACTS = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VARIANTS.items()})


@given(SETS_OF_FACTS, SETS_OF_FACTS)
def test_keys_are_equal_exactly_when_every_fact_is(one: dict[str, t.Any], two: dict[str, t.Any]) -> None:
    first, second = make_key(**one), make_key(**two)
    assert (first == second) is (one == two)
    assert (first.canonical() == second.canonical()) is (one == two)
    assert (first.digest() == second.digest()) is (one == two)
    assert bool(differences(first, second)) is (one != two)


@given(SETS_OF_FACTS, st.sampled_from(sorted(VARIANTS)))
def test_one_changed_fact_is_the_one_difference(facts: dict[str, t.Any], name: str) -> None:
    for value in [other for other in VARIANTS[name] if other != facts[name]]:
        found = differences(make_key(**facts), make_key(**{**facts, name: value}))
        assert [field for field, _before, _now in found] == [name]


@given(SETS_OF_FACTS)
def test_a_key_survives_its_manifest(facts: dict[str, t.Any]) -> None:
    key = make_key(**facts)
    assert key_from_dict(json.loads(json.dumps(key.as_dict()))) == key


def test_every_field_of_the_key_is_varied_above() -> None:
    assert {field.name for field in dataclasses.fields(WheelKey)} == set(VARIANTS)


@pytest.mark.parametrize(
    ("field", "spelling"),
    [
        ("package", "Causal_Conv1d"),
        ("source_sha256", "AB" * 32),
        ("gpu_targets", ["sm_90", "90", "9.0"]),
        ("libc", "GLIBC-2.36"),
        ("version", " 1.7.0 "),
    ],
)
def test_spelling_does_not_change_the_key(field: str, spelling: t.Any) -> None:
    assert make_key(**{**FACTS, field: spelling}) == make_key(**FACTS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("torch", ""),
        ("torch_cuda", "None"),
        ("torch_cuda", "13"),
        ("source_sha256", "abc"),
        ("python_tag", "3.11"),
        ("libc", "2.36"),
        ("cxx11_abi", None),
        ("version", "latest"),
    ],
)
def test_a_fact_that_is_missing_or_of_another_form_is_named(field: str, value: t.Any) -> None:
    with pytest.raises(ValueError, match=field):
        make_key(**{**FACTS, field: value})


def test_the_canonical_text_and_the_digest_never_move() -> None:
    """Wheelhouses outlive releases: a change here makes every stored wheel worthless, so it must be meant."""
    key = make_key(**FACTS)
    assert key.canonical() == (
        '{"cxx11_abi":true,"flags":["-std=c++20"],"gpu_targets":["sm_90"],"libc":"glibc-2.36","machine":"x86_64",'
        '"package":"causal-conv1d","python_tag":"cp311","schema":1,"source_sha256":"' + "ab" * 32 + '",'
        '"torch":"2.14.1+cu130","torch_cuda":"13.0","version":"1.7.0"}'
    )
    assert key.build_tag() == "0k" + key.digest()
    assert key.digest() == "d6af7845b2b6413c"


def test_another_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="schema 2"):
        key_from_dict({**make_key(**FACTS).as_dict(), "schema": 2})


def test_a_manifest_without_a_field_is_refused() -> None:
    data = make_key(**FACTS).as_dict()
    del data["libc"]
    with pytest.raises(ValueError, match="lacks libc"):
        key_from_dict(data)
