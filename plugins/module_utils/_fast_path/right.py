# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: do the bound functions, and one whole layer, compute what they should, forward and backward?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from . import binding, hints
from .cases import Case, Sizes, cases
from .design import unwrap
from .layer import Layer, new_cache
from .packages import describe

# Relative error |a - b| / |b| (Frobenius norm over the tensor) that a fast path may have against float32 or float64.
# Measured on an H200 in bf16: 0.005 for outputs, 0.004 to 0.013 for gradients. An accumulation bug gives 0.1 and more.
BOUNDS = {"bfloat16": 0.03, "float16": 0.03}
_NOISE = 2.0
_TOKENS = {"whole": 1024, "odd": 333}
_PACKED = (1, 190, 65, 256)


def check(
    config: Mapping[str, Any], device: Any, functions: list[dict[str, Any]], quick: bool = False
) -> dict[str, Any]:
    """All checks on one GPU: ``{"passed": bool | None, "bounds": ..., "checks": [...]}``; never raises."""
    import torch

    strict = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    checks: list[dict[str, Any]] = []
    try:
        for name in ("bfloat16",) if quick else ("bfloat16", "float16"):
            layer = Layer(config, device, getattr(torch, name))
            checks += _functions(layer, [f["name"] for f in functions if f["bound"]], name)
            checks += _layer(layer, name, whole=name == "bfloat16")
    except Exception as error:
        checks.append(_failed("the layer can be built", "build", error))
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = strict
    tried = [c for c in checks if c["passed"] is not None]
    return {
        "passed": all(c["passed"] for c in tried) if tried else None,
        "bounds": BOUNDS,
        "checks": checks,
    }


def relative(found: Any, wanted: Any) -> float:
    """Norm of the difference over the norm of what is wanted; infinite for NaN or another shape."""
    if found is None or found.shape != wanted.shape:
        return float("inf")
    found, wanted = found.detach().double(), wanted.detach().double()
    value = float((found - wanted).norm() / wanted.norm().clamp_min(1e-12))
    return float("inf") if math.isnan(value) else value


def sizes_of(layer: Layer) -> Sizes:
    """The sizes that function cases need, from whichever names the family's config uses; few heads, to stay short."""
    c = layer.config

    def first(*names: str, default: int) -> int:
        return next((int(v) for v in (getattr(c, n, None) for n in names) if isinstance(v, int) and v > 0), default)

    conv = getattr(layer.mixer, "conv1d", None) or getattr(layer.mixer, "conv", None)
    channels = int(getattr(conv, "in_channels", 512))
    return Sizes(
        heads=min(8, first("linear_num_value_heads", "linear_num_heads", "mamba_n_heads", "num_heads", default=4)),
        key=first("linear_key_head_dim", "linear_head_dim", default=128),
        value=first("linear_value_head_dim", "linear_head_dim", "mamba_d_head", "mamba_head_dim", default=64),
        channels=min(channels, 4096) // 8 * 8 or 8,
        width=first("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache", default=4),
        state=first("mamba_d_state", "state_size", "ssm_state_size", default=16),
    )


def _implementation(layer: Layer, name: str) -> Any:
    if layer.design.name == "decorator":
        for item in layer.design.decorated:
            if item.function == name:
                pair = unwrap(getattr(layer.module, item.attribute, None))
                return pair[0] if pair else None
    return getattr(layer.module, name, None) or binding.import_function(name)["object"]


def _functions(layer: Layer, names: list[str], dtype: str) -> Iterator[dict[str, Any]]:
    sizes = sizes_of(layer)
    for name in names:
        implementation = _implementation(layer, name)
        if implementation is None:
            continue
        for case in cases(name, implementation, sizes, layer.device, layer.dtype, seed=7):
            yield _compare(f"{name}: {case.title}", name, dtype, case, layer.device)


def _tensors(value: Any) -> list[Any]:
    return [v for v in (value if isinstance(value, (tuple, list)) else (value,)) if v is not None]


def _compare(title: str, subject: str, dtype: str, case: Case, device: Any) -> dict[str, Any]:
    """Run one case both ways; the entry says the largest error of outputs and of each gradient."""
    import torch

    ours = {k: v.detach().clone().requires_grad_(case.gradients) for k, v in case.inputs.items()}
    exact = {k: v.detach().double().requires_grad_(case.gradients) for k, v in case.inputs.items()}
    stage = "forward"
    try:
        found = _tensors(case.call(**ours))
        wanted = _tensors(case.reference(**exact))
        errors = [relative(a, b) for a, b in zip(found, wanted)]
        gradients: dict[str, float] = {}
        if case.gradients:
            stage = "backward"
            torch.manual_seed(11)
            weights = [torch.randn_like(w) for w in wanted]
            torch.autograd.backward(list(found), [w.to(f.dtype) for w, f in zip(weights, found)])
            torch.autograd.backward(list(wanted), weights)
            gradients = {k: relative(ours[k].grad, exact[k].grad) for k in ours}
        _synchronize(device)
    except Exception as error:
        return _failed(title, stage, error, subject, dtype)
    return _entry(title, subject, dtype, max(errors), gradients)


def _layer(layer: Layer, dtype: str, whole: bool) -> list[dict[str, Any]]:
    precise = layer.precise()
    checks = [_layer_case(layer, precise, dtype, tokens) for tokens in _TOKENS.values()]
    if whole and layer.takes_packed():
        checks.append(_packed(layer, precise, dtype))
    if whole:
        checks.append(_decode(layer, precise, dtype))
    return checks


def _layer_case(layer: Layer, precise: Layer, dtype: str, tokens: int) -> dict[str, Any]:
    """Forward and backward of the whole layer, against the PyTorch functions in float32.

    The same PyTorch functions in the dtype under test say how much of the difference is the dtype's own noise.
    """

    title = f"layer: {tokens} tokens"
    x = layer.inputs(tokens, seed=tokens)
    stage = "reference"
    try:
        with precise.reference():
            wanted, exact, weight = _step(precise, x.float())
        with layer.reference():
            plain, noisy, _weight = _step(layer, x, weight)
        noise = {n: relative(noisy[n], exact[n]) for n in exact} | {"output": relative(plain, wanted)}
        stage = "forward"
        ours = x.clone().requires_grad_()
        found = layer(ours)
        forward = relative(found, wanted)
        stage = "backward"
        found.backward(weight.to(found.dtype))
        _synchronize(layer.device)
        gradients = {n: relative(g, exact[n]) for n, g in _gradients(layer, ours).items() if n in exact}
    except Exception as error:
        return _failed(title, stage, error, "layer", dtype)
    finally:
        layer.mixer.zero_grad(set_to_none=True)
    return _entry(title, "layer", dtype, forward, gradients, noise)


def _step(layer: Layer, x: Any, weight: Any = None) -> tuple[Any, dict[str, Any], Any]:
    """One forward and backward: (output, gradients by name, the weights that the output was summed with)."""
    import torch

    x = x.clone().requires_grad_()
    output = layer(x)
    if weight is None:
        torch.manual_seed(13)
        weight = torch.randn_like(output)
    output.backward(weight.to(output.dtype))
    gradients = _gradients(layer, x)
    layer.mixer.zero_grad(set_to_none=True)
    return output.detach(), gradients, weight


def _gradients(layer: Layer, x: Any) -> dict[str, Any]:
    found = {name: p.grad for name, p in layer.mixer.named_parameters() if p.grad is not None}
    return {**found, "input": x.grad}


def _packed(layer: Layer, precise: Layer, dtype: str) -> dict[str, Any]:
    """Several sequences in one row must not influence each other."""
    import torch

    title = f"layer: packed sequences of {', '.join(map(str, _PACKED))} tokens"
    borders = [0]
    for length in _PACKED:
        borders.append(borders[-1] + length)
    x = layer.inputs(borders[-1], seed=17)
    cu = torch.tensor(borders, device=layer.device, dtype=torch.int32)
    index = torch.cat([torch.full((n,), i, dtype=torch.int32) for i, n in enumerate(_PACKED)])[None].to(layer.device)
    try:
        with torch.no_grad():
            found = layer(x, cu_seq_lens_q=cu, cu_seq_lens_k=cu, seq_idx=index)
            with precise.reference():
                parts = [precise(x[:, a:b].float()) for a, b in zip(borders, borders[1:])]
        _synchronize(layer.device)
    except Exception as error:
        return _failed(title, "forward", error, "layer", dtype)
    return _entry(title, "layer", dtype, relative(found, torch.cat(parts, dim=1)), {})


def _decode(layer: Layer, precise: Layer, dtype: str, prefill: int = 97, steps: int = 4) -> dict[str, Any]:
    """A prefill and then single tokens through the cache must equal one pass over all of them."""
    import torch

    title = f"layer: {prefill} tokens, then {steps} steps of decoding"
    x = layer.inputs(prefill + steps, seed=19)
    try:
        cache = new_cache(layer.config)
    except Exception as error:
        return {**_failed(title, "build", error, "layer", dtype), "passed": None}
    try:
        with torch.no_grad():
            outputs = [layer(x[:, :prefill], cache=cache)]
            outputs += [layer(x[:, prefill + i : prefill + i + 1], cache=cache) for i in range(steps)]
            with precise.reference():
                wanted = precise(x.float())
        _synchronize(layer.device)
    except Exception as error:
        return _failed(title, "forward", error, "layer", dtype)
    found = torch.cat(outputs, dim=1)
    return _entry(
        title, "layer", dtype, max(relative(found, wanted), relative(found[:, prefill:], wanted[:, prefill:])), {}
    )


def _synchronize(device: Any) -> None:
    """Wait for the GPU, so that an asynchronous error is raised where it belongs."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def _entry(
    title: str,
    subject: str,
    dtype: str,
    forward: float,
    gradients: dict[str, float],
    noise: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """One check. A bound is the dtype's, or twice what the PyTorch functions themselves differ by, if that is more."""

    def bound_of(name: str) -> float:
        own = (noise or {}).get(name, 0.0)
        return max(BOUNDS[dtype], _NOISE * own if own < 1 else 0.0)

    worst = max(gradients, key=lambda n: gradients[n] / bound_of(n)) if gradients else None
    passed = forward <= bound_of("output") and all(e <= bound_of(n) for n, e in gradients.items())
    return {
        "title": title,
        "subject": subject,
        "dtype": dtype,
        "passed": passed,
        "stage": "done",
        "forward_error": forward,
        "gradient_error": gradients[worst] if worst else None,
        "worst_gradient": worst,
        "bound": round(bound_of("output"), 4),
        "gradient_bound": round(bound_of(worst), 4) if worst else None,
        "error": None,
        "remedy": None,
    }


def _failed(title: str, stage: str, error: BaseException, subject: str = "layer", dtype: str = "") -> dict[str, Any]:
    text = describe(error)
    return {
        "title": title,
        "subject": subject,
        "dtype": dtype,
        "passed": False,
        "stage": stage,
        "forward_error": None,
        "gradient_error": None,
        "worst_gradient": None,
        "bound": BOUNDS.get(dtype),
        "gradient_bound": BOUNDS.get(dtype),
        "error": text,
        "remedy": hints.remedy(text),
    }
