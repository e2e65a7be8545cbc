# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The design is read from a modeling file's text: each known one, and none that is not known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.design import (
    Decorated,
    read_design,
    unwrap,
)

SOURCES = {
    "module flag": "is_fast_path_available = all((causal_conv1d_fn, chunk_gated_delta_rule))\n",
    "mixer flag": """
class Mixer:
    def __init__(self):
        global is_fast_path_available
        is_fast_path_available = True
""",
    "forward flag": """
class Mixer:
    def forward(self, x):
        is_fast_path_available = all((a, b))
        return x
""",
    "decorator": """
@use_kernel_func_from_hub_with_fallback("causal_conv1d_fn", "causal_conv1d")
def causal_conv1d(x): return x
""",
}
FUTURE = {
    "a registry": "FAST = registry.resolve('gated_delta_rule')\n",
    "a flag by another name": "has_fast_path = all((causal_conv1d_fn, chunk_gated_delta_rule))\n",
    "another decorator": "@use_kernelized_func('causal_conv1d_fn')\ndef conv(x): return x\n",
    "the decorator with other arguments": "@use_kernel_func_from_hub_with_fallback(CONV)\ndef conv(x): return x\n",
    "the flag only read": "if is_fast_path_available: pass\n",
    "nothing": "",
}


@pytest.mark.parametrize("name", SOURCES)
def test_known_designs(name: str) -> None:
    assert read_design(SOURCES[name]).name == name


@pytest.mark.parametrize("source", FUTURE.values(), ids=list(FUTURE))
def test_a_future_design_is_unknown(source: str) -> None:
    assert read_design(source).name == "unknown"


def test_decorations_by_position_and_by_name() -> None:
    source = """
@use_kernel_func_from_hub_with_fallback("a_fn", "pkg_a")
def one(): ...
@hub.use_kernel_func_from_hub_with_fallback(func_name="b_fn", package="pkg_b")
def two(): ...
"""
    assert read_design(source).decorated == (Decorated("one", "a_fn", "pkg_a"), Decorated("two", "b_fn", "pkg_b"))


def test_hub_kernels_that_decide_are_seen() -> None:
    source = "x = lazy_load_kernel('mamba-ssm')\ny = hub.lazy_load_kernel('causal-conv1d')\nz = lazy_load_kernel(z)\n"
    assert read_design(source).kernels == {"mamba-ssm", "causal-conv1d"}
    assert read_design("_lazy_load_causal_conv1d()\n").kernels == {"causal-conv1d"}
    assert not read_design(SOURCES["module flag"]).kernels


@given(st.text(max_size=60))
def test_a_comment_or_a_string_never_makes_a_design(words: str) -> None:
    text = repr("is_fast_path_available = True # use_kernel_func_from_hub_with_fallback " + words)
    assert read_design(f"x = {text}\n").name == "unknown"


def decorated(implementation: Callable[..., Any] | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(decorated, reference) as transformers' decorator makes them: a closure over implementation."""

    def reference(x: Any) -> Any:
        return x

    bound = implementation or reference

    def decorate(function: Callable[..., Any], implementation: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*arguments: Any) -> Any:
            return implementation(*arguments)

        return inner

    return decorate(reference, bound), reference


def test_unwrap_tells_the_bound_function_from_the_reference() -> None:
    fast, reference = decorated(abs)
    assert unwrap(fast) == (abs, reference)
    slow, reference = decorated(None)
    assert unwrap(slow) == (reference, reference)


def test_unwrap_sees_through_what_the_kernels_package_makes_of_it() -> None:
    inner, reference = decorated(abs)

    class Layer:
        def forward(self, *arguments: Any) -> Any:
            return inner(*arguments)

    assert unwrap(Layer()) == (abs, reference)


@pytest.mark.parametrize("thing", [None, 3, abs, lambda x: x, object()])
def test_unwrap_of_something_else_is_nothing(thing: Any) -> None:
    assert unwrap(thing) is None
