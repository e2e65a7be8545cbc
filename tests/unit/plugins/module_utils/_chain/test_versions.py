# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Version numbers: an order, equality across spellings, and wishes as pip writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain import versions

releases = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
endings = st.sampled_from(["", ".post1", ".post3", "rc1", "a2", ".dev5", "+cu130"])
public_versions = st.builds(lambda release, ending: release + ending, releases, endings)
clauses = st.builds(lambda operator, version: operator + version, st.sampled_from(["==", "!=", ">=", "<="]), releases)


@pytest.mark.parametrize(
    ("version", "found"),
    [("13.0.88-1", (13, 0, 88)), ("v2.1", (2, 1)), ("none", ()), (None, ()), ("2.14.1+cu130", (2, 14, 1))],
)
def test_numbers(version: object, found: tuple[int, ...]) -> None:
    assert versions.numbers(version) == found


@pytest.mark.parametrize(
    ("version", "wish", "met"),
    [
        ("2.14.1+cu130", "2.14.1", True),
        ("2.14.1+cu130", "2.14.1+cu130", True),
        ("2.14.1+cu126", "2.14.1+cu130", False),
        ("2.14.1", ">=2.13,<2.15", True),
        ("2.15.0", ">=2.13,<2.15", False),
        ("2.14.1", "2.14.*", True),
        ("3.8.2", "~=3.8.0", True),
        ("3.9.0", "~=3.8.0", False),
        ("1.5.3.post1", ">1.5.3", True),
        ("1.5.3.post1", "1.5.3", False),
        ("2.14.1", "", True),
        ("2.14.1", None, True),
        ("", ">=1", False),
        ("2.14.1", "no version at all", False),
    ],
)
def test_satisfies(version: str, wish: object, met: bool) -> None:
    assert versions.satisfies(version, wish) is met


@given(public_versions, st.lists(clauses, min_size=1, max_size=2).map(",".join))
def test_agrees_with_packaging(version: str, wish: str) -> None:
    expected = SpecifierSet(wish).contains(Version(version), prereleases=True)
    assert versions.satisfies(version, wish) is expected


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_compared_without_an_error(version: str, wish: str) -> None:
    versions.satisfies(version, wish)
    versions.at_least(version, wish)
    versions.minor(version)
