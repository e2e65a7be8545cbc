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


def wronged(layer):
    """The layer as if one of its fast functions were wrong; its reference stays right."""
    right_one = layer.reference
    honest = [0]

    @contextlib.contextmanager
    def reference():
        honest[0] += 1
        with right_one():
            yield
        honest[0] -= 1

    def spoil(_mixer, _args, kwargs, output):
        if honest[0]:
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
            if name in request["wrong"]:
                wrong = wronged(layer)
                found["wrong"] = [
                    trial.layer_case(wrong, precise, "bfloat16", 9, "layer"),
                    trial.decoding(wrong, precise, "bfloat16", prefill=9, steps=2),
                    trial.packed(wrong, precise, "bfloat16", (1, 6, 4)),
                ]
            stream.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
