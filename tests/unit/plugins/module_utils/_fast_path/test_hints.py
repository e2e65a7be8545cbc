# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.hints import known_bad, numbers, remedy

REFUSAL = (
    "RuntimeError: Triton >= 3.4.0 and < 3.7.1 on Hopper GPUs produces incorrect results for gated chunk_bwd_dqkwg; "
    "upgrade Triton or install tilelang"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (REFUSAL, "triton to 3.7.1"),
        ("ImportError: /x/causal_conv1d_cuda.so: undefined symbol: _ZN3c104cuda", "build the extension again"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "compute capability"),
        ("ModuleNotFoundError: No module named 'einops'", "install the missing package"),
        ("half a package: causal_conv1d has no causal_conv1d_update", "install the whole package"),
        ("fatal error: Python.h: No such file or directory", "python3-dev"),
    ],
)
def test_known_errors_have_a_remedy(text: str, words: str) -> None:
    assert words in str(remedy(text))


def test_an_unknown_error_has_none() -> None:
    assert remedy("something that nobody has seen") is None
    assert remedy(None) is None


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.sampled_from(["", "+cu130", ".dev1", "rc2"]))
def test_versions_compare_as_numbers(parts: list[int], suffix: str) -> None:
    assert numbers(".".join(map(str, parts)) + suffix) == tuple(parts)


@pytest.mark.parametrize(
    ("fla", "triton", "capability", "tilelang", "bad"),
    [
        ("0.6.0", "3.6.0", "9.0", None, True),
        ("0.5.2", "3.4.0", "9.0", None, True),
        ("0.4.1", "3.6.0", "9.0", None, False),
        ("0.6.0", "3.7.1", "9.0", None, False),
        ("0.6.0", "3.3.1", "9.0", None, False),
        ("0.6.0", "3.6.0", "8.0", None, False),
        ("0.6.0", "3.6.0", "9.0", "0.1.9", False),
    ],
)
def test_fla_with_a_triton_that_computes_wrong_on_hopper(
    fla: str, triton: str, capability: str, tilelang: str | None, bad: bool
) -> None:
    assert bool(known_bad({"fla": fla, "triton": triton, "tilelang": tilelang}, [capability])) is bad


def test_no_versions_no_complaint() -> None:
    assert known_bad({}, ["9.0"]) == []
