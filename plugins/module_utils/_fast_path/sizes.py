# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the sizes of the model's mixer that the cases of single functions take."""

from __future__ import annotations

from typing import Any

from .cases import Sizes
from .layer import Layer

# A reference in float64 with all heads of a large model keeps some 5 GB for its backward; with less than this free,
# functions are tried with a few heads.
_ROOM_BYTES = 24 * 2**30


def sizes_of(layer: Layer) -> Sizes:
    """The sizes that function cases need, from whichever names the family's config uses.

    The layer's own number of heads where memory permits: then functions and layer run the same compiled kernels.
    """
    c = layer.config

    def first(*names: str, default: int) -> int:
        return next((int(v) for v in (getattr(c, n, None) for n in names) if isinstance(v, int) and v > 0), default)

    conv = getattr(layer.mixer, "conv1d", None) or getattr(layer.mixer, "conv", None)
    channels = int(getattr(conv, "in_channels", 512))
    return Sizes(
        heads=min(
            _most_heads(layer.device),
            first("linear_num_value_heads", "linear_num_heads", "mamba_n_heads", "num_heads", default=4),
        ),
        key=first("linear_key_head_dim", "linear_head_dim", default=128),
        value=first("linear_value_head_dim", "linear_head_dim", "mamba_d_head", "mamba_head_dim", default=64),
        channels=min(channels, 4096) // 8 * 8 or 8,
        width=first("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache", default=4),
        state=first("mamba_d_state", "state_size", "ssm_state_size", default=16),
    )


def _most_heads(device: Any) -> int:
    import torch

    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    return 256 if free >= _ROOM_BYTES else 8
