# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: one mixer's prefill and single steps through the cache that its release of transformers has for it.

What a whole model does around its mixers is done here for one: up to 5.14 the model says when a cache is filled, and
4.57 tells mixers by ``cache_position`` where they are.
"""

from __future__ import annotations

import inspect
from typing import Any

from .binding import NotSupported
from .layer import Layer, parameters_of

_CACHE_NAMES = ("cache_params", "cache", "past_key_values")


def decode(layer: Layer, x: Any, prefill: int) -> Any:
    """The output of the first ``prefill`` tokens at once, then of each further token alone."""
    import torch

    accepted = parameters_of(type(layer.mixer).forward)
    name = next((n for n in _CACHE_NAMES if n in accepted), None)
    if name is None:
        raise NotSupported(f"{type(layer.mixer).__name__} takes no cache.")
    cache = new_cache(layer, x.shape[0])

    def run(part: Any, start: int, positions: int) -> Any:
        more: dict[str, Any] = {name: cache}
        if "cache_position" in accepted:
            more["cache_position"] = torch.arange(start, start + positions, device=layer.device)
        return layer(part, **more)

    # At the prefill, mixers of 4.57 want the positions in the window of the convolution, as generate() gives them.
    outputs = [run(x[:, :prefill], 0, _window(layer))]
    if isinstance(vars(cache).get("has_previous_state"), bool):
        cache.has_previous_state = True
    outputs += [run(x[:, t : t + 1], t, 1) for t in range(prefill, x.shape[1])]
    return torch.cat(outputs, dim=1)


def new_cache(layer: Layer, batch: int) -> Any:
    """The cache class of the modeling file where it has one of its own, else transformers' DynamicCache."""
    import transformers

    own = [
        found
        for name, found in vars(layer.module).items()
        if name.endswith("Cache") and inspect.isclass(found) and found.__module__ == layer.module.__name__
    ]
    if not own:
        return transformers.DynamicCache(config=layer.config)
    offered = {
        "config": layer.config,
        "batch_size": batch,
        "max_batch_size": batch,
        "dtype": layer.dtype,
        "device": layer.device,
        "devices": [layer.device] * layer.config.num_hidden_layers,
    }
    wanted = inspect.signature(own[0].__init__).parameters
    cache = own[0](**{name: value for name, value in offered.items() if name in wanted})
    if hasattr(cache, "last_linear_layer"):
        # Such a cache counts as filled when the model's last mixer has filled it; here there is only this one.
        cache.last_linear_layer = layer.mixer.layer_idx
    return cache


def _window(layer: Layer) -> int:
    names = ("conv_kernel", "mamba_d_conv", "conv_L_cache", "linear_conv_kernel_dim")
    return next((int(getattr(layer.config, n)) for n in names if getattr(layer.config, n, None)), 4)
