# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in a training interpreter: compares one small layer of each family with itself, on the CPU.

Every function is transformers' own here, so each check has to be right, or to name transformers. Request on stdin
(folders for the path, families), one JSON line a check on stdout; see test_fast_path_layers.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

SMALL = {
    "hidden_size": 128,
    "num_hidden_layers": 8,
    "vocab_size": 100,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
MAMBA_2 = {"mamba_n_heads": 8, "mamba_d_head": 32, "mamba_d_state": 16}
NET = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "head_dim": 32,
}
# A Mamba's own intermediate size follows from its hidden size.
MORE = {
    "qwen3_next": NET,
    "qwen3_5": NET,
    "mamba": {"intermediate_size": None},
    "falcon_mamba": {"intermediate_size": None},
    "mamba2": {"intermediate_size": None, "num_heads": 8, "head_dim": 32, "state_size": 16},
    "bamba": MAMBA_2,
    "granitemoehybrid": MAMBA_2,
    "falcon_h1": {**MAMBA_2, "mamba_d_ssm": 256},
    "zamba2": {"n_mamba_heads": 8, "mamba_headdim": 32, "mamba_d_state": 16},
    "nemotron_h": {"mamba_num_heads": 8, "mamba_head_dim": 32, "ssm_state_size": 16},
    "jamba": {"use_mamba_kernels": False},
    "zamba": {"use_mamba_kernels": False},
}


def inner(torch_of):
    """mamba_inner_fn, made of the PyTorch functions of transformers: it has none for the whole."""
    from torch.nn import functional

    def fn(xz, conv, _bias, project, widen, out, _out_bias, a, _b, _c, d, delta_bias, delta_softplus):
        u, z = xz.chunk(2, dim=1)
        u = torch_of("causal_conv1d_fn")(u, conv.squeeze(1), None, activation="silu")
        low, b, c = functional.linear(u.transpose(1, 2), project).split([widen.shape[1], *2 * [a.shape[1]]], dim=-1)
        delta = functional.linear(low, widen).transpose(1, 2)
        found = torch_of("selective_scan_fn")(
            u, delta, a, b.transpose(1, 2), c.transpose(1, 2), d, z, delta_bias, delta_softplus=delta_softplus
        )
        return functional.linear(found.transpose(1, 2), out)

    return fn


def split(torch_of):
    """mamba_split_conv1d_scan_combined, made in the same way."""
    from torch.nn import functional

    def fn(
        x, conv, _bias, dt_bias, a, d, chunk_size, activation, rmsnorm_weight, rmsnorm_eps, headdim, ngroups, **_rest
    ):
        grouped = (conv.shape[0] - a.shape[0] * headdim) // 2
        z, mixed, dt = x.split([a.shape[0] * headdim, conv.shape[0], a.shape[0]], dim=-1)
        mixed = torch_of("causal_conv1d_fn")(mixed.transpose(1, 2), conv, None, activation=activation).transpose(1, 2)
        u, b, c = mixed.split([a.shape[0] * headdim, grouped, grouped], dim=-1)
        found = torch_of("mamba_chunk_scan_combined")(
            u.unflatten(-1, (-1, headdim)),
            dt,
            a,
            b.unflatten(-1, (ngroups, -1)),
            c.unflatten(-1, (ngroups, -1)),
            chunk_size,
            D=d,
            dt_bias=dt_bias,
            dt_softplus=True,
        )
        gated = (found.flatten(2) * functional.silu(z)).unflatten(-1, (ngroups, -1))
        return functional.rms_norm(gated, gated.shape[-1:], eps=rmsnorm_eps).flatten(2) * rmsnorm_weight

    return fn


def functions(layer):
    """Every case of every function, with transformers' PyTorch function in the place of the fast one."""
    import torch
    from _fast_path import cases, design, right, sizes

    plain = {}
    for item in layer.design.decorated:
        pair = design.unwrap(getattr(layer.module, item.attribute))
        plain[item.function] = pair[1]
    step = plain["causal_conv1d_update"]
    # transformers hands over one token as (batch, channels, 1), and its own function takes nothing else.
    plain["causal_conv1d_update"] = lambda x, *more: step(x[..., None], *more)[..., 0]
    whole = {"mamba_inner_fn": inner, "mamba_split_conv1d_scan_combined": split}
    found = []
    for name in plain:
        fn = whole[name](plain.get) if name in whole else plain[name]
        for case in cases.cases(name, fn, sizes.sizes_of(layer), layer.device, torch.float32, seed=layer.seed):
            # Borders are for the fast functions alone.
            if "packed" not in case.title:
                found.append(right._compare(f"{name}: {case.title}", name, "bfloat16", case, layer))
    return found


def wronged(layer, in_training_alone=False):
    """The layer as if one of its fast functions were wrong; its reference stays right."""
    right_one = layer.reference
    honest = [0]

    @contextlib.contextmanager
    def reference():
        honest[0] += 1
        with right_one():
            yield
        honest[0] -= 1

    def spoil(mixer, _args, kwargs, output):
        if honest[0] or (in_training_alone and not mixer.training):
            return output
        return output * (1.5 if "seq_idx" in kwargs or output.shape[1] == 1 else 1.25)

    layer.reference = reference
    layer.mixer.register_forward_hook(spoil, with_kwargs=True)
    return layer


def main() -> None:
    request = json.load(sys.stdin)
    kept = os.dup(1)
    os.dup2(2, 1)
    sys.path[:0] = [request["archive"], *request["overlay"]]
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from _fast_path import binding, families, sizes, trial
    from _fast_path.layer import Layer

    torch.set_num_threads(1)
    with os.fdopen(kept, "w") as stream:
        for name in request["families"]:
            config = {**families.EXAMPLES[name], **SMALL, **MORE.get(name, {})}
            config = {key: value for key, value in config.items() if value is not None}
            try:
                layer = Layer(config, "cpu", torch.float32, seed=request["seed"])
            except binding.NotSupported as error:
                stream.write(json.dumps({"family": name, "not_supported": str(error)}) + "\n")
                continue
            precise = layer.precise()
            checks = [
                trial.layer_case(layer, precise, "bfloat16", 9, "layer"),
                trial.decoding(layer, precise, "bfloat16", prefill=9, steps=2),
            ]
            if layer.takes_packed():
                checks.append(trial.packed(layer, precise, "bfloat16", (1, 6, 4)))
            found = {"family": name, "checks": checks, "sizes": vars(sizes.sizes_of(layer))}
            if layer.design.decorated:
                found["functions"] = functions(layer)
            if name in request["wrong"]:
                wrong = wronged(layer)
                found["wrong"] = [
                    trial.layer_case(wrong, precise, "bfloat16", 9, "layer"),
                    trial.decoding(wrong, precise, "bfloat16", prefill=9, steps=2),
                    trial.packed(wrong, precise, "bfloat16", (1, 6, 4)),
                ]
                fused = wronged(Layer(config, "cpu", torch.float32, seed=request["seed"]), in_training_alone=True)
                found["fused"] = trial.layer_case(fused, precise, "bfloat16", 9, "layer")
            stream.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
