# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the sizes of the model's mixer that the cases of single functions take."""

from __future__ import annotations

import math
from typing import Any

from .cases import Sizes
from .layer import Layer

# A reference in float64 with all heads of a large model keeps some 5 GB for its backward; with less than this free,
# functions are tried with a few heads.
_ROOM_BYTES = 24 * 2**30


def sizes_of(layer: Layer) -> Sizes:
    """The sizes that function cases need, as the mixer itself holds them: families name them alike, configs do not.

    The layer's own number of heads where memory permits: then functions and layer run the same compiled kernels.
    """
    mixer = layer.mixer

    def first(*names: str, default: int) -> int:
        return next((int(v) for v in (getattr(mixer, n, None) for n in names) if isinstance(v, int) and v > 0), default)

    conv = getattr(mixer, "conv1d", None) or getattr(mixer, "conv", None)
    channels = int(getattr(conv, "in_channels", 512))
    heads = min(_most_heads(layer.device), first("num_v_heads", "num_heads", default=4))
    return Sizes(
        heads=heads,
        key=first("head_k_dim", "head_dim", default=128),
        value=first("head_v_dim", "head_dim", default=64),
        channels=min(channels, 4096) // 8 * 8 or 8,
        width=int(conv.weight.shape[-1]) if conv is not None else first("conv_kernel_size", default=4),
        state=first("ssm_state_size", default=16),
        # With fewer heads than the layer has, as many groups as still divide them.
        groups=math.gcd(heads, first("n_groups", default=1)),
        rank=first("time_step_rank", default=16),
        # Mamba-2 decays by head, Mamba by channel; the same function serves both.
        by_head=hasattr(mixer, "n_groups"),
    )


def _most_heads(device: Any) -> int:
    import torch

    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    return 256 if free >= _ROOM_BYTES else 8
