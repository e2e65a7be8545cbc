# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: which layers of a model have a fast path, which functions they call, and who provides those.

Pure data and rules over a config dict (the content of config.json): no transformers, no torch, no files. The facts
come from the modeling files of transformers 4.57 to 5.24; ``binding.py`` asks the installed version itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Function:
    """One fast function. ``sources`` are the modules that define it; ``arguments`` are names that callers rely on."""

    name: str
    package: str
    distribution: str
    sources: tuple[str, ...]
    arguments: tuple[str, ...] = ()


_DELTA_ARGUMENTS = ("g", "beta", "initial_state", "output_final_state", "use_qk_l2norm_in_kernel", "cu_seqlens")
_CONV, _FLA, _MAMBA = "causal-conv1d", "flash-linear-attention", "mamba-ssm"
_SCAN = "mamba_ssm.ops.selective_scan_interface"
_UPDATE = "mamba_ssm.ops.triton.selective_state_update"
_SSD = "mamba_ssm.ops.triton.ssd_combined"
FUNCTIONS = {
    f.name: f
    for f in (
        Function("causal_conv1d_fn", "causal_conv1d", _CONV, ("causal_conv1d",), ("seq_idx", "activation")),
        Function("causal_conv1d_update", "causal_conv1d", _CONV, ("causal_conv1d",), ("activation",)),
        Function("chunk_gated_delta_rule", "fla", _FLA, ("fla.ops.gated_delta_rule",), _DELTA_ARGUMENTS),
        Function("fused_recurrent_gated_delta_rule", "fla", _FLA, ("fla.ops.gated_delta_rule",), _DELTA_ARGUMENTS),
        Function("chunk_kda", "fla", _FLA, ("fla.ops.kda",), ("g", "beta", "cu_seqlens")),
        Function("fused_recurrent_kda", "fla", _FLA, ("fla.ops.kda",), ("g", "beta", "cu_seqlens")),
        Function("selective_scan_fn", "mamba_ssm", _MAMBA, (_SCAN,), ("delta_bias", "delta_softplus")),
        Function("mamba_inner_fn", "mamba_ssm", _MAMBA, (_SCAN,), ("delta_bias", "delta_softplus")),
        Function("selective_state_update", "mamba_ssm", _MAMBA, (_UPDATE,), ("dt_bias", "dt_softplus")),
        Function("mamba_chunk_scan_combined", "mamba_ssm", _MAMBA, (_SSD,), ("chunk_size", "dt_bias", "seq_idx")),
        Function("mamba_split_conv1d_scan_combined", "mamba_ssm", _MAMBA, (_SSD,), ("chunk_size", "seq_idx")),
        # olmo_hybrid up to transformers 5.14 calls two modules of fla instead of causal-conv1d.
        Function("ShortConvolution", "fla", _FLA, ("fla.modules",)),
        Function("FusedRMSNormGated", "fla", _FLA, ("fla.modules",)),
    )
}
_CONV_FUNCTIONS = ("causal_conv1d_fn", "causal_conv1d_update")
_DELTA = (*_CONV_FUNCTIONS, "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule")
_KDA = (*_CONV_FUNCTIONS, "chunk_kda", "fused_recurrent_kda")
_MAMBA1 = (*_CONV_FUNCTIONS, "selective_scan_fn", "selective_state_update", "mamba_inner_fn")
_MAMBA2 = (
    *_CONV_FUNCTIONS,
    "selective_state_update",
    "mamba_chunk_scan_combined",
    "mamba_split_conv1d_scan_combined",
)

# The words that the configs of all versions use for a layer that holds a mixer with a fast path.
_FAST_WORDS = frozenset(("linear_attention", "mamba", "mamba2", "m", "conv", "hybrid", "hybrid_sliding", "g", "kda"))
_WORDS = {
    "full_attention": "full attention",
    "attention": "full attention",
    "sliding_attention": "sliding attention",
    "mlp": "MLP",
    "moe": "mixture of experts",
}
_MOST_LAYERS = 100_000
_PATTERN = {"M": "mamba", "E": "moe", "*": "full_attention", "-": "mlp"}


def _count(config: Config) -> int:
    """Number of layers under any of its names. Raises KeyError or ValueError when the config does not say."""
    for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            if not 1 <= value <= _MOST_LAYERS:
                raise ValueError(f"{key} is {value}")
            return value
    raise KeyError("num_hidden_layers")


def _every(config: Config) -> list[str]:
    return ["linear_attention"] * _count(config)


def _interval(default: int) -> Callable[[Config], list[str]]:
    """Each ``full_attention_interval``-th layer is full attention (1-indexed)."""

    def layers(config: Config) -> list[str]:
        interval = int(config.get("full_attention_interval") or default)
        return ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(_count(config))]

    return layers


def _period(period: int, offset: int) -> Callable[[Config], list[str]]:
    """Jamba: layer i is attention where i mod attn_layer_period == attn_layer_offset."""

    def layers(config: Config) -> list[str]:
        p = int(config.get("attn_layer_period", period))
        o = int(config.get("attn_layer_offset", offset))
        return ["attention" if i % p == o else "mamba" for i in range(_count(config))]

    return layers


def _indices(*keys: str) -> Callable[[Config], list[str]]:
    """Layers listed (0-indexed) under one of ``keys`` are attention; the rest hold the mixer."""

    def layers(config: Config) -> list[str]:
        attention = next((config[k] for k in keys if config.get(k) is not None), None)
        if attention is None and "full_attn_idxs" in keys:
            attention = range(_count(config))  # lfm2: no list means attention everywhere
        return ["full_attention" if i in set(attention or ()) else "linear_attention" for i in range(_count(config))]

    return layers


def _olmo(config: Config) -> list[str]:
    layers = _interval(4)({"num_hidden_layers": _count(config)})
    if "full_attention" not in layers:
        layers[-1] = "full_attention"
    return layers


def _nemotron(config: Config) -> list[str]:
    pattern = config.get("hybrid_override_pattern")
    if not isinstance(pattern, str):
        raise KeyError("hybrid_override_pattern or layers_block_type")
    return [_PATTERN.get(letter, letter) for letter in pattern]


def _kimi(config: Config) -> list[str]:
    inner = config.get("linear_attn_config") or {}
    if "kda_layers" in inner:
        kda = set(inner["kda_layers"])  # 1-indexed in the published checkpoints
        return ["linear_attention" if i + 1 in kda else "full_attention" for i in range(_count(config))]
    return ["full_attention" if i and i % 4 == 0 else "linear_attention" for i in range(_count(config))]


# An algorithm of many small steps gains several times from its kernels (Qwen3.5: 8 and more on an H200); one that gains
# less than this runs on something else.
WANTED_RATIO = 1.5
# A short convolution is one call of PyTorch's in the reference, too: there is nothing to gain for sure, so all that is
# wanted is that it is not slower than that by what counts as a slow-down (15 %).
_NOT_SLOWER = 0.85


@dataclass(frozen=True)
class Family:
    """One architecture: ``kind`` and ``plural`` name its fast layer, ``mixer`` is the class name in transformers.

    ``finished_by`` is the model class that adds to a mixer what its own constructor leaves out. ``wanted_ratio`` is how
    many times as fast as the PyTorch reference a layer has to train before its fast path counts as one.
    """

    model_type: str
    kind: str
    plural: str
    functions: tuple[str, ...]
    mixer: str
    layers: Callable[[Config], list[str]]
    finished_by: str = ""
    wanted_ratio: float = WANTED_RATIO

    @property
    def modeling(self) -> str:
        return f"transformers.models.{self.model_type}.modeling_{self.model_type}"


def _family(model_type: str, kind: str, functions: tuple[str, ...], mixer: str, layers: Any, **more: Any) -> Family:
    return Family(model_type, kind, kind + "s", functions, mixer, layers, **more)


_GDN, _SHORT = "gated delta net", "short convolution"
FAMILIES = {
    f.model_type: f
    for f in (
        _family("qwen3_5", _GDN, _DELTA, "Qwen3_5GatedDeltaNet", _interval(4)),
        _family("qwen3_5_moe", _GDN, _DELTA, "Qwen3_5MoeGatedDeltaNet", _interval(4)),
        _family("qwen3_next", _GDN, _DELTA, "Qwen3NextGatedDeltaNet", _interval(4)),
        _family("olmo_hybrid", _GDN, _DELTA, "OlmoHybridGatedDeltaNet", _olmo),
        Family("kimi_linear", "Kimi delta attention", "Kimi delta attention", _KDA, "KimiLinearDeltaAttention", _kimi),
        _family("mamba", "mamba mixer", _MAMBA1, "MambaMixer", _every),
        _family("falcon_mamba", "mamba mixer", _MAMBA1, "FalconMambaMixer", _every),
        _family("jamba", "mamba mixer", _MAMBA1, "JambaMambaMixer", _period(8, 4)),
        _family("zamba", "mamba mixer", _MAMBA1, "ZambaMambaMixer", _every),
        _family("mamba2", "mamba-2 mixer", _MAMBA2, "Mamba2Mixer", _every),
        _family("falcon_h1", "mamba-2 mixer", _MAMBA2, "FalconH1Mixer", _every, finished_by="FalconH1Model"),
        _family("bamba", "mamba-2 mixer", _MAMBA2, "BambaMixer", _indices("attn_layer_indices")),
        _family("zamba2", "mamba-2 mixer", _MAMBA2, "Zamba2MambaMixer", _every),
        _family("granitemoehybrid", "mamba-2 mixer", _MAMBA2, "GraniteMoeHybridMambaLayer", _every),
        _family("nemotron_h", "mamba-2 mixer", _MAMBA2, "NemotronHMamba2Mixer", _nemotron),
        _family("lfm2", _SHORT, _CONV_FUNCTIONS, "Lfm2ShortConv", _indices("full_attn_idxs"), wanted_ratio=_NOT_SLOWER),
        _family(
            "lfm2_moe",
            _SHORT,
            _CONV_FUNCTIONS,
            "Lfm2MoeShortConv",
            _indices("full_attn_idxs"),
            wanted_ratio=_NOT_SLOWER,
        ),
    )
}

# Small models to prove a host with when nobody names one. Sizes that are left out are the family's own defaults.
EXAMPLES: dict[str, dict[str, Any]] = {
    name: {"model_type": name, "num_hidden_layers": 8} for name in FAMILIES if name not in ("nemotron_h", "zamba")
}
EXAMPLES["qwen3_5"] = {
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 8,
    "full_attention_interval": 4,
    "hidden_size": 1024,
    "intermediate_size": 3584,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_value_heads": 16,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "vocab_size": 4096,
}
EXAMPLES["lfm2"]["full_attn_idxs"] = [2, 5]
EXAMPLES["lfm2_moe"]["layer_types"] = ["conv", "conv", "full_attention", "conv"] * 2
EXAMPLES["nemotron_h"] = {"model_type": "nemotron_h", "hybrid_override_pattern": "MEM*MEM*"}
EXAMPLES["zamba2"]["layers_block_type"] = ["mamba", "mamba", "hybrid", "mamba"] * 2
EXAMPLES["zamba"] = {"model_type": "zamba", "num_hidden_layers": 8, "attn_layer_period": 6, "attn_layer_offset": 4}

# Parts of parts: composite configs have two levels, and three in omni models.
_DEEPEST = 8
_NESTED = ("text_config", "language_config", "llm_config", "thinker_config", "talker_config")


def find_family(config: Config, depth: int = 0) -> tuple[Family, Config] | None:
    """The family that governs this config and the (nested) part of the config that describes its layers."""
    model_type = str(config.get("model_type", ""))
    for key in (*_NESTED, *sorted(k for k in config if k not in _NESTED)):
        nested = config.get(key)
        if isinstance(nested, Mapping) and nested.get("model_type"):
            found = find_family(nested, depth + 1) if depth < _DEEPEST else None
            if found:
                return found
    family = FAMILIES.get(model_type) or FAMILIES.get(model_type[: -len("_text")] if "_text" in model_type else "")
    if not family:
        return None
    # A composite config without a nested model_type: its text part is still where the layers are.
    text = config.get("text_config")
    return family, (text if isinstance(text, Mapping) and text else config)


def layer_words(family: Family, config: Config) -> list[str]:
    """The config's word for each layer, in order. Raises KeyError (name of what is missing) when it does not say."""
    for key in ("layer_types", "layers_block_type"):
        if isinstance(config.get(key), (list, tuple)):
            return [str(word) for word in config[key]]
    return family.layers(config)


def census(config: Config) -> dict[str, Any]:
    """How many layers of each kind, and which functions they call: ``{state, sentence, layers, functions, ...}``.

    ``state`` is ``ok``, ``not_applicable`` (a known family whose layers are all attention) or ``unknown``.
    """
    found = find_family(config)
    if found is None:
        seen = config.get("model_type") or "no model_type"
        listed = config.get("layer_types")
        words = Counter(str(w) for w in listed) if isinstance(listed, (list, tuple)) else Counter()
        return {
            "state": "unknown",
            "model_type": config.get("model_type"),
            "family": None,
            "layers": dict(words),
            "functions": [],
            "sentence": f"The model family is not known here: the config says {seen!r}"
            + (f" with layers {dict(words)}" if words else "")
            + f", architectures {config.get('architectures') or 'not given'}.",
        }
    family, text = found
    base = {"model_type": config.get("model_type"), "family": family.model_type, "kind": family.kind}
    try:
        words_list = layer_words(family, text)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        return {
            **base,
            "state": "unknown",
            "layers": {},
            "functions": list(family.functions),
            "sentence": f"The config of this {family.model_type} model does not say how many layers it has ({error}).",
        }
    kinds = Counter(family.kind if w.lower() in _FAST_WORDS else _WORDS.get(w, w) for w in words_list)
    fast = kinds.get(family.kind, 0)
    strange = sorted({w for w in words_list if w not in _WORDS}) if not fast else []
    if strange or not words_list:
        seen = f"layers of kinds that are not known here: {', '.join(strange)}" if strange else "no layers"
        return {
            **base,
            "state": "unknown",
            "layers": dict(kinds),
            "functions": list(family.functions),
            "sentence": f"The config of this {family.model_type} model has {seen}.",
        }
    result = {
        **base,
        "state": "ok" if fast else "not_applicable",
        "layers": dict(kinds),
        "total": len(words_list),
        "fast_layers": fast,
        "functions": list(family.functions) if fast else [],
    }
    result["sentence"] = (
        f"{fast} of {len(words_list)} layers are {family.plural}; they need {needs(family.functions)}."
        if fast
        else f"None of the {len(words_list)} layers of this {family.model_type} model has a fast path of its own."
    )
    return result


def needs(names: tuple[str, ...] | list[str]) -> str:
    """``a, b from causal-conv1d and c from flash-linear-attention``."""
    by_distribution: dict[str, list[str]] = {}
    for name in names:
        function = FUNCTIONS.get(name)
        by_distribution.setdefault(function.distribution if function else "an unknown package", []).append(name)
    return " and ".join(f"{', '.join(names)} from {dist}" for dist, names in by_distribution.items())
