# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counting layers: published configs by hand, and rules that must hold for any config."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.families import (
    EXAMPLES,
    FAMILIES,
    FUNCTIONS,
    census,
    find_family,
    needs,
)

# (config as published or as transformers' own defaults make it, kind of the fast layer, fast layers, all layers).
# The counts were read off the model cards and off models that transformers 5.24 built from the same configs.
PUBLISHED: dict[str, tuple[dict[str, Any], str, int, int]] = {
    "Qwen3.5-27B": (
        {"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text", "num_hidden_layers": 64}},
        "gated delta net",
        48,
        64,
    ),
    "Qwen3.5-35B-A3B": (
        {"model_type": "qwen3_5_moe", "text_config": {"model_type": "qwen3_5_moe_text", "num_hidden_layers": 40}},
        "gated delta net",
        30,
        40,
    ),
    "Qwen3-Next-80B-A3B": (
        {"model_type": "qwen3_next", "num_hidden_layers": 48, "full_attention_interval": 4},
        "gated delta net",
        36,
        48,
    ),
    "mamba-2.8b": ({"model_type": "mamba", "num_hidden_layers": 64}, "mamba mixer", 64, 64),
    "mamba-130m, old name": ({"model_type": "mamba", "n_layer": 24}, "mamba mixer", 24, 24),
    "mamba2-2.7b": ({"model_type": "mamba2", "num_hidden_layers": 64}, "mamba-2 mixer", 64, 64),
    "falcon-mamba-7b": ({"model_type": "falcon_mamba", "num_hidden_layers": 64}, "mamba mixer", 64, 64),
    "Falcon-H1-34B": ({"model_type": "falcon_h1", "num_hidden_layers": 72}, "mamba-2 mixer", 72, 72),
    "Jamba-v0.1": (
        {"model_type": "jamba", "num_hidden_layers": 32, "attn_layer_period": 8, "attn_layer_offset": 4},
        "mamba mixer",
        28,
        32,
    ),
    "Bamba-9B": (
        {"model_type": "bamba", "num_hidden_layers": 32, "attn_layer_indices": [9, 18, 27]},
        "mamba-2 mixer",
        29,
        32,
    ),
    "Zamba-7B": ({"model_type": "zamba", "num_hidden_layers": 76}, "mamba mixer", 76, 76),
    "Zamba2-7B": ({"model_type": "zamba2", "num_hidden_layers": 81}, "mamba-2 mixer", 81, 81),
    "granite-4.0-h-small": (
        {"model_type": "granitemoehybrid", "layer_types": (["mamba"] * 9 + ["attention"]) * 4},
        "mamba-2 mixer",
        36,
        40,
    ),
    "Nemotron-H-8B": (
        {
            "model_type": "nemotron_h",
            "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
        },
        "mamba-2 mixer",
        24,
        52,
    ),
    "LFM2-1.2B": (
        {"model_type": "lfm2", "num_hidden_layers": 16, "full_attn_idxs": [2, 5, 8, 10, 12, 14]},
        "short convolution",
        10,
        16,
    ),
    "LFM2-8B-A1B": (
        {"model_type": "lfm2_moe", "layer_types": ["conv", "conv", "full_attention", "conv"] * 6},
        "short convolution",
        18,
        24,
    ),
    "Olmo-Hybrid-7B": ({"model_type": "olmo_hybrid", "num_hidden_layers": 32}, "gated delta net", 24, 32),
    "Kimi-Linear-48B-A3B": (
        {
            "model_type": "kimi_linear",
            "num_hidden_layers": 27,
            "linear_attn_config": {
                "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26],
                "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
            },
        },
        "Kimi delta attention",
        20,
        27,
    ),
}  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-3, 200) | st.floats(allow_nan=False) | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
KEYS = (
    "layer_types", "layers_block_type", "num_hidden_layers", "n_layer", "full_attention_interval", "attn_layer_period",
    "attn_layer_offset", "attn_layer_indices", "full_attn_idxs", "hybrid_override_pattern", "linear_attn_config",
    "text_config", "architectures",
)  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_model(name: str) -> None:
    config, kind, fast, total = PUBLISHED[name]
    found = census(config)
    assert (found["state"], found["kind"], found["fast_layers"], found["total"]) == ("ok", kind, fast, total)
    assert sum(found["layers"].values()) == total


def test_the_sentence_names_functions_and_who_provides_them() -> None:
    assert census(PUBLISHED["Qwen3.5-27B"][0])["sentence"] == (
        "48 of 64 layers are gated delta nets; they need causal_conv1d_fn, causal_conv1d_update from causal-conv1d and "
        "chunk_gated_delta_rule, fused_recurrent_gated_delta_rule from flash-linear-attention."
    )


def test_every_family_has_an_example_that_has_fast_layers() -> None:
    assert set(EXAMPLES) == set(FAMILIES)
    for name, config in EXAMPLES.items():
        found = census(config)
        assert (found["state"], found["family"]) == ("ok", name)
        assert 0 < found["fast_layers"] <= found["total"] == 8


def test_every_function_of_a_family_is_described() -> None:
    for family in FAMILIES.values():
        assert set(family.functions) <= set(FUNCTIONS)
        assert "an unknown package" not in needs(family.functions)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "llama", "num_hidden_layers": 32}, "'llama'"),
        (
            {"model_type": "brand_new_hybrid", "layer_types": ["linear_attention", "x"]},
            "{'linear_attention': 1, 'x': 1}",
        ),
        ({"architectures": ["RwkvForCausalLM"]}, "RwkvForCausalLM"),
        ({}, "no model_type"),
        ({"model_type": "mamba"}, "does not say how many layers"),
        ({"model_type": "jamba", "num_hidden_layers": 8, "attn_layer_period": 0}, "does not say how many layers"),
        ({"model_type": "nemotron_h", "num_hidden_layers": 52}, "hybrid_override_pattern"),
        ({"model_type": "mamba", "num_hidden_layers": -3}, "num_hidden_layers is -3"),
        ({"model_type": "mamba", "num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"model_type": "qwen3_next", "num_hidden_layers": 10**12}, "num_hidden_layers is 1000000000000"),
        ({"model_type": "mamba", "num_hidden_layers": True}, "does not say how many layers"),
        ({"model_type": "qwen3_5", "layer_types": ["warp", "full_attention"]}, "kinds that are not known here: warp"),
        ({"model_type": "qwen3_5", "layer_types": []}, "has no layers"),
    ],
)
def test_what_cannot_be_counted_is_unknown_with_what_was_seen(config: dict[str, Any], words: str) -> None:
    found = census(config)
    assert found["state"] == "unknown"
    assert words in found["sentence"]


def test_a_known_family_without_fast_layers_has_nothing_to_judge() -> None:
    found = census({"model_type": "lfm2", "num_hidden_layers": 4})
    assert (found["state"], found["fast_layers"], found["functions"]) == ("not_applicable", 0, [])


@given(st.integers(1, 200), st.integers(1, 12))
def test_an_interval_of_full_attention(count: int, interval: int) -> None:
    found = census({"model_type": "qwen3_next", "num_hidden_layers": count, "full_attention_interval": interval})
    assert found["layers"].get("full attention", 0) == count // interval
    assert found["fast_layers"] == count - count // interval


@given(st.sampled_from(sorted(FAMILIES)), st.sampled_from(["text_config", "language_config", "thinker_config", "any"]))
def test_a_nested_config_counts_as_itself(name: str, key: str) -> None:
    inner = EXAMPLES[name]
    outer = {"model_type": "some_vision_model", key: inner, "vision_config": {"model_type": "siglip", "depth": 27}}
    alone, nested = census(inner), census(outer)
    assert {k: nested[k] for k in ("state", "family", "layers", "functions")} == {
        k: alone[k] for k in ("state", "family", "layers", "functions")
    }


@given(st.sampled_from(sorted(FAMILIES)), st.lists(st.sampled_from(["linear_attention", "full_attention"]), min_size=1))
def test_layer_types_win_over_every_rule(name: str, words: list[str]) -> None:
    found = census({**EXAMPLES[name], "layer_types": words})
    assert found["fast_layers"] == words.count("linear_attention")
    assert found["total"] == len(words)


@given(
    st.sampled_from([*sorted(FAMILIES), "qwen3_5_text", "something", ""]),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6),
)
def test_any_config_is_answered_and_only_counted_layers_are_ok(model_type: str, config: dict[str, Any]) -> None:
    found = census({"model_type": model_type, **config})
    assert found["state"] in ("ok", "unknown", "not_applicable")
    assert found["sentence"].endswith(".")
    assert (found["state"] == "ok") is (found.get("fast_layers", 0) > 0)
    json.dumps(found)


@given(JSON)
def test_anything_that_json_holds_has_a_family_or_none(value: Any) -> None:
    config = value if isinstance(value, dict) else {"model_type": value}
    assert find_family(config) is None or find_family(config)[0].model_type in FAMILIES  # type: ignore[index]
