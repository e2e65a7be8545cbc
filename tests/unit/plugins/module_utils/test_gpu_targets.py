# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._gpu_targets import (
    normalise_targets,
    parse_target,
    runs_on,
)

NAMES = st.builds(
    "{}_{}{}{}".format,
    st.sampled_from(["sm", "compute"]),
    st.integers(5, 13),
    st.integers(0, 9),
    st.sampled_from(["", "a", "f"]),
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("9.0", ("sm_90",)),
        ("90", ("sm_90",)),
        ("9.0a", ("sm_90a",)),
        ("12.1", ("sm_121",)),
        ("121", ("sm_121",)),
        ("10.0+PTX", ("sm_100", "compute_100")),
        ("sm_120f", ("sm_120f",)),
        ("compute_90", ("compute_90",)),
        (" SM_90 ", ("sm_90",)),
    ],
)
def test_spellings(text: str, names: tuple[str, ...]) -> None:
    assert parse_target(text) == names


@pytest.mark.parametrize("text", ["", "9", "hopper", "9.0.1", "sm_90+PTX", "sm-90", "9.0b", "1234", "all", "9.0;8.0"])
def test_what_is_no_target_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(ValueError, match="write the compute capability"):
        parse_target(text)


@given(st.lists(NAMES))
def test_normal_form_is_a_set_in_one_order(names: list[str]) -> None:
    normal = normalise_targets(names)
    assert set(normal) == set(names)
    assert normal == normalise_targets(normal) == normalise_targets(reversed(names))


@pytest.mark.parametrize(
    ("targets", "capability", "runs"),
    [
        (["sm_90"], (9, 0), True),
        (["sm_80"], (8, 6), True),
        (["sm_86"], (8, 0), False),
        (["sm_90"], (10, 0), False),
        (["compute_90"], (12, 1), True),
        (["compute_90"], (8, 9), False),
        (["sm_90a"], (9, 0), True),
        (["compute_90a"], (10, 0), False),
        (["sm_100f"], (10, 3), True),
        (["sm_120"], (12, 1), True),
        ([], (9, 0), False),
        (["sm_75", "sm_90"], (9, 0), True),
    ],
)
def test_which_gpu_runs_which_code(targets: list[str], capability: tuple[int, int], runs: bool) -> None:
    assert runs_on(targets, capability) is runs
