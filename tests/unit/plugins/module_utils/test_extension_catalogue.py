# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import (
    CATALOGUE,
    GIB,
    Edit,
    Split,
    describe,
    math_headers_wanted,
    refusal,
)


def test_a_name_in_any_spelling() -> None:
    assert describe("Causal_Conv1d").compiled == ("causal_conv1d_cuda",)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_each_description_says_what_must_import_and_exist(name: str) -> None:
    description = CATALOGUE[name]
    assert description.modules
    assert description.functions
    assert bool(description.compiled) is not description.pure_python
    assert all(":" in function for function in description.functions)
    assert description.pure_python or any(key.endswith("FORCE_BUILD") for key in description.variables)


def test_cxx17_is_repaired_from_torch_2_13_on() -> None:
    mamba = describe("mamba-ssm")
    assert mamba.key_flags("2.12.1+cu130") == ()
    assert mamba.key_flags("2.14.1+cu130") == ("edit:setup.py:-std=c++17>-std=c++20",)
    assert describe("causal-conv1d").key_flags("2.14.1") == ()


def test_an_extension_of_ones_own() -> None:
    wish = {
        "name": "my-kernels",
        "version": "2.1",
        "compiled": ["my_cuda"],
        "variables": {"MY_JOBS": 3},
        "memory_per_process": GIB,
        "edits": [{"file": "setup.py", "old": "a", "new": "b"}],
    }
    found = describe("my-kernels", wish)
    assert (found.compiled, found.variables, found.memory_per_process) == (("my_cuda",), {"MY_JOBS": "3"}, GIB)
    assert found.edits == (Edit("setup.py", "a", "b"),)


def test_a_field_of_the_catalogue_can_be_set() -> None:
    assert describe("causal-conv1d", {"version": "1.7.0", "memory_per_process": GIB}).memory_per_process == GIB


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"name": "unknown-thing"}, "not in the catalogue"),
        ({"name": "causal-conv1d", "moduls": ["x"]}, "unknown field moduls; known are"),
        ({"name": "causal-conv1d", "compiled": "x"}, "the field compiled is 'x', expected tuple"),
        ({"name": "causal-conv1d", "math_headers": 1}, "expected bool"),
        ({"name": "causal-conv1d", "memory_per_process": True}, "expected int"),
        ({"name": "causal-conv1d", "edits": [{"file": "x"}]}, "each of edits has file, old, new"),
    ],
)
def test_a_wish_that_is_wrong_is_explained(wish: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        describe(str(wish["name"]), wish)


def test_versions_that_cannot_be_built() -> None:
    conv = describe("causal-conv1d")
    assert "holds no sources" in str(refusal(conv, "1.5.0.post8"))
    assert "expected one release" in str(refusal(conv, ">=1.6"))
    assert refusal(conv, "1.7.0") is None


def test_math_headers_only_where_asked_for() -> None:
    assert not math_headers_wanted([{"name": name} for name in CATALOGUE])
    assert math_headers_wanted([{"name": "causal-conv1d"}, {"name": "x", "compiled": ["x"], "math_headers": True}])


def test_variables_that_somebody_sets_are_part_of_the_key_and_the_catalogues_own_are_not() -> None:
    assert describe("causal-conv1d").key_flags("2.14.1") == ()
    assert describe("causal-conv1d", {"variables": {"X_FAST": "1"}}).key_flags("2.14.1") == ("env:X_FAST=1",)
    own = describe("mine", {"compiled": ["mine_cuda"], "variables": {"B": "2", "A": "1"}})
    assert own.key_flags("2.14.1") == ("env:A=1", "env:B=2")


def test_a_split_of_ones_own() -> None:
    wish = {"compiled": ["mine_cuda"], "splits": [{"file": "k.cu", "parts": 4}]}
    assert describe("mine", wish).splits == (Split("k.cu", 4),)
    with pytest.raises(ValueError, match="each of splits has file, parts, setup"):
        describe("mine", {"compiled": ["mine_cuda"], "splits": [{"file": "k.cu"}]})
