# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: one mixer of a model, as bound and as reference, on a device.

``Layer`` holds a mixer of the model's real sizes with random weights. ``reference()`` switches the modeling file to
its own PyTorch functions for a while, whatever the design.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import binding
from .design import FLAG, unwrap
from .families import FUNCTIONS, Family, find_family

# The words by which functions take the borders of packed sequences.
BORDERS = ("seq_idx", "cu_seqlens", "cu_seq_lens_q")


class Layer:
    """One mixer. ``module`` is the modeling file, ``config`` transformers' config object of the text part.

    Weights and inputs are random: ``seed`` is what they are drawn from.
    """

    def __init__(self, config: Mapping[str, Any], device: Any, dtype: Any, seed: int = 0) -> None:
        import torch

        found = find_family(config)
        if found is None:
            raise binding.NotSupported("The model family is not known here.")
        self.family: Family = found[0]
        self.module, self.design, _mixer = binding.load(self.family, config)
        self.config = binding.text_config(config)
        self.device, self.dtype, self.seed = torch.device(device), dtype, seed
        torch.manual_seed(seed)
        self.mixer = _build(self.family, self.config, self.module, self.device)
        _settle(self.mixer)
        self.mixer.to(device=self.device, dtype=dtype).train()

    @property
    def hidden(self) -> int:
        return int(self.config.hidden_size)

    def inputs(self, tokens: int, batch: int = 1, seed: int = 1) -> Any:
        """Random hidden states of shape (batch, tokens, hidden)."""
        import torch

        generator = torch.Generator(device=self.device).manual_seed(self.seed + seed)
        values = torch.randn(batch, tokens, self.hidden, generator=generator, device=self.device)
        return values.to(self.dtype)

    def precise(self) -> Layer:
        """The same weights in float32: what the reference is computed with."""
        other = copy.copy(self)
        other.mixer = copy.deepcopy(self.mixer).float()
        other.dtype = next(other.mixer.parameters()).dtype
        return other

    def __call__(self, hidden_states: Any, **arguments: Any) -> Any:
        """The mixer's output tensor."""
        output = self.mixer(hidden_states, **arguments)
        return output[0] if isinstance(output, (tuple, list)) else output

    def takes_packed(self) -> bool:
        """Whether the borders of packed sequences can be handed to this mixer at all."""
        parameters = parameters_of(type(self.mixer).forward).values()
        return any(p.kind is p.VAR_KEYWORD for p in parameters)

    @contextmanager
    def listening(self) -> Iterator[dict[str, bool]]:
        """Within it, which functions the mixer calls, and whether it hands them the borders of packed sequences."""
        heard: dict[str, bool] = {}
        names = {name: name for name in FUNCTIONS}
        if self.design.name == "decorator":
            names = {item.attribute: item.function for item in self.design.decorated}
        held = [(place, name) for place in (self.module.__dict__, self.mixer.__dict__) for name in names]
        kept = [(place, name, place[name]) for place, name in held if callable(place.get(name))]

        def listen(name: str, function: Any) -> Any:
            def called(*arguments: Any, **named: Any) -> Any:
                given = any(named.get(word) is not None for word in BORDERS)
                heard[name] = heard.get(name, False) or given
                return function(*arguments, **named)

            return called

        try:
            for place, name, function in kept:
                place[name] = listen(names[name], function)
            yield heard
        finally:
            for place, name, function in kept:
                place[name] = function

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Within it, the mixer computes with the PyTorch functions of transformers instead of the bound ones."""
        module, mixer = self.module, self.mixer
        kept_module: dict[str, Any] = {}
        kept_mixer: dict[str, Any] = {}

        def replace(name: str, value: Any) -> None:
            kept_module.setdefault(name, module.__dict__[name])
            setattr(module, name, value)

        try:
            if self.design.name == "decorator":
                for item in self.design.decorated:
                    pair = unwrap(getattr(module, item.attribute, None))
                    if pair and pair[1] is not None:
                        replace(item.attribute, pair[1])
            else:
                for name in (*FUNCTIONS, "falcon_mamba_inner_fn"):
                    slow = getattr(module, "torch_" + name, None) or getattr(
                        module, "torch_" + name.replace("fused_", ""), None
                    )
                    if name in module.__dict__:
                        replace(name, None)
                    if name in mixer.__dict__:
                        kept_mixer[name] = mixer.__dict__[name]
                        mixer.__dict__[name] = slow
                if FLAG in module.__dict__:
                    replace(FLAG, False)
                if "use_fast_kernels" in mixer.__dict__:
                    # Jamba and Zamba refuse to run without kernels unless their config does not ask for them.
                    kept_mixer["use_fast_kernels"] = mixer.__dict__["use_fast_kernels"]
                    mixer.__dict__["use_fast_kernels"] = False
                if "_lazy_load_causal_conv1d" in module.__dict__:
                    replace("_lazy_load_causal_conv1d", lambda: (None, None))
            yield
        finally:
            for name, value in kept_module.items():
                setattr(module, name, value)
            mixer.__dict__.update(kept_mixer)


def _build(family: Family, config: Any, module: Any, device: Any) -> Any:
    """A mixer as its model would hold it."""
    import torch

    if family.finished_by:
        config = copy.deepcopy(config)
        config.num_hidden_layers, config.vocab_size, config.pad_token_id = 1, 8, 0
        with torch.device(device):
            model = getattr(module, family.finished_by)(config)
        return next(part for part in model.modules() if type(part).__name__ == family.mixer)
    try:
        with torch.device(device):
            return binding.build_mixer(family, config, module)
    except AttributeError:
        # falcon_mamba sets initial values of parts that its constructor makes only later, except on the meta device.
        with torch.device("meta"):
            return _materialized(binding.build_mixer(family, config, module), device)


def _materialized(mixer: Any, device: Any) -> Any:
    """A mixer from the meta device with values: those that its parts, then its own methods, begin with."""
    import torch

    mixer.to_empty(device=device)
    with torch.no_grad():
        for tensor in (*mixer.parameters(), *mixer.buffers()):
            tensor.fill_(1.0)
        for part in mixer.modules():
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()
        for name in dir(mixer):
            if name.startswith("init_") and name.endswith("_weights"):
                getattr(mixer, name)()
    return mixer


def _settle(mixer: Any) -> None:
    """Give every parameter that its constructor left unset (``torch.empty``) a plain value."""
    import torch

    with torch.no_grad():
        for parameter in mixer.parameters():
            values = parameter.float()
            spread = float(values.std()) if values.numel() > 1 else 1.0
            if not bool(torch.isfinite(values).all()) or spread > 1e3:
                parameter.zero_() if parameter.ndim < 2 else parameter.normal_(0.0, 0.02)
            elif parameter.ndim >= 2 and spread < 1e-9:
                parameter.normal_(0.0, 0.02)


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter]:
    """Parameters of a forward, also behind a decorator that hides them (``force_accelerate_hooks`` of 5.14)."""
    found = inspect.signature(function).parameters
    if "hidden_states" not in found and inspect.isfunction(function):
        for value in inspect.getclosurevars(function).nonlocals.values():
            if inspect.isfunction(value):
                return parameters_of(value)
    return found
