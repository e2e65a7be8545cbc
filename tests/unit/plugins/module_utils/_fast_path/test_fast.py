# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The estimate for the whole model, from one layer's times: pure arithmetic, so held up to what must be true of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.fast import estimate

SHAPES = st.fixed_dictionaries(
    {
        "total_parameters": st.integers(1, 10**12),
        "other_parameters": st.integers(0, 10**11),
        "attention_layers": st.integers(0, 100),
        "attention_width": st.integers(0, 20000),
    }
)


@given(st.integers(1, 10**5), st.floats(0.1, 1e3), st.floats(1, 30), st.integers(1, 100), SHAPES, st.floats(1e13, 1e15))
def test_a_model_gains_no_more_than_its_layer(
    tokens: int, fast_ms: float, ratio: float, count: int, shape: dict[str, int], rate: float
) -> None:
    found = estimate(tokens, fast_ms, fast_ms * ratio, count, shape, rate)
    assert 1 <= found["ratio"] <= round(ratio, 2) + 0.01
    assert found["fast_ms"] >= found["rest_ms"] >= 0


def test_layers_alone_gain_as_much_as_one() -> None:
    shape = {"total_parameters": 1, "other_parameters": 0, "attention_layers": 0, "attention_width": 0}
    assert estimate(4096, 8.4, 67.4, 48, shape, 7e14)["ratio"] == round(67.4 / 8.4, 2)


def test_the_rest_is_six_operations_a_parameter_and_token() -> None:
    shape = {"total_parameters": 20, "other_parameters": 10**9, "attention_layers": 0, "attention_width": 0}
    assert estimate(1000, 1.0, 2.0, 1, shape, 6e14)["rest_ms"] == 10.0
