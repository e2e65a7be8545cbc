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
from .progress import Expired, Progress
from .tuning import compiled_ahead, first_valid

# Relative error |a - b| / |b| (Frobenius norm over the tensor) that a fast path may have against float32 or float64.
# Measured on an H200 in bf16: 0.005 for outputs, 0.004 to 0.013 for gradients. An accumulation bug gives 0.1 and more.
BOUNDS = {"bfloat16": 0.03, "float16": 0.03}
_NOISE = 2.0
# The odd one first: should backward refuse, a short sequence says so soonest.
_TOKENS = {"odd": 333, "whole": 1024}
_PACKED = (1, 190, 65, 256)
# A reference in float64 with all heads of a large model keeps some 5 GB for its backward; with less than this free,
# functions are tried with a few heads.
_ROOM_BYTES = 24 * 2**30


def check(
    config: Mapping[str, Any],
    device: Any,
    functions: list[dict[str, Any]],
    quick: bool = False,
    progress: Progress | None = None,
    found: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """All checks on one GPU: ``{"passed": bool | None, "bounds": ..., "checks": [...]}``; never raises.

    Triton kernels run with one configuration each, so that a first run compiles little; ``as_tuned`` tries those that
    train. ``refused`` is the text of an exception in the layer's backward: after one, only forward is tried, in bf16.
    ``unfinished`` says what the time did not suffice for. ``found`` is filled as checks come in, and returned.
    """
    import torch

    progress = progress or Progress()
    found = {} if found is None else found
    checks: list[dict[str, Any]] = []
    found.update(passed=None, bounds=BOUNDS, checks=checks, refused=None, unfinished="the checks were not done")
    strict = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with first_valid(progress):
            for name in ("bfloat16",) if quick else ("bfloat16", "float16"):
                if found["refused"]:
                    break
                progress.say(f"building the layer in {name}")
                layer = Layer(config, device, getattr(torch, name))
                for entry in _checks(layer, functions, name, progress, found):
                    checks.append(entry)
        found["unfinished"] = None
    except Expired as expired:
        found["unfinished"] = str(expired)
    except Exception as error:
        checks.append(_failed("the layer can be built", "build", error))
        found["unfinished"] = None
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = strict
    conclude(found)
    return found


def conclude(found: dict[str, Any]) -> None:
    """Set ``passed`` from the checks that there are: False by one failure, None while something is unfinished."""
    tried = [c["passed"] for c in found["checks"] if c["passed"] is not None]
    if False in tried:
        found["passed"] = False
    else:
        found["passed"] = True if tried and not found["unfinished"] else None


def _checks(
    layer: Layer, functions: list[dict[str, Any]], dtype: str, progress: Progress, found: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """The checks in one precision: the layer, then each bound function; bf16 with packed sequences and decoding."""
    whole = dtype == "bfloat16"
    bound = [f["name"] for f in functions if f["bound"]]
    precise = layer.precise()
    for tokens in list(_TOKENS.values())[: 2 if whole else 1]:
        title = f"layer: {tokens} tokens"
        progress.say(f"{dtype} {title}")
        entry = layer_case(layer, precise, dtype, tokens, title, backward=not found["refused"])
        if entry["stage"] == "backward" and entry["error"]:
            found["refused"] = entry["error"]
            progress.write(f"backward refuses: {entry['error']}")
        yield entry
    if whole:
        # What a half-bound layer makes of packed sequences is the fault of what is missing, which the binding says.
        if layer.takes_packed() and len(bound) == len(functions):
            progress.say(f"{dtype} layer: packed sequences")
            yield _packed(layer, precise, dtype)
        progress.say(f"{dtype} layer: decoding")
        yield _decode(layer, precise, dtype)
    sizes = sizes_of(layer)
    for name in bound:
        implementation = _implementation(layer, name)
        if implementation is None:
            continue
        for case in cases(name, implementation, sizes, layer.device, layer.dtype, seed=7):
            title = f"{name}: {case.title}"
            progress.say(f"{dtype} {title}")
            case.gradients = case.gradients and not found["refused"]
            yield _compare(title, name, dtype, case, layer.device)
            if not whole:
                # The second precision: one case a function.
                break


def as_tuned(
    config: Mapping[str, Any],
    device: Any,
    lengths: tuple[int, ...],
    found: dict[str, Any],
    progress: Progress | None = None,
) -> None:
    """Try the layer once more at the lengths that were timed, with the configurations that the autotuner chose.

    Adds its checks to ``found``. A length whose reference does not fit into the GPU's memory is left untried.
    """
    import torch

    progress = progress or Progress()
    strict = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        layer = Layer(config, device, torch.bfloat16)
        precise = layer.precise()
        with compiled_ahead(progress):
            for tokens in lengths:
                title = f"layer: {tokens} tokens, as tuned"
                progress.say(f"bfloat16 {title}")
                entry = layer_case(layer, precise, "bfloat16", tokens, title)
                if entry["stage"] == "reference":
                    entry["passed"] = None
                found["checks"].append(entry)
    except Expired as expired:
        found["unfinished"] = found["unfinished"] or str(expired)
    except Exception as error:
        found["checks"].append(_failed("the layer can be built", "build", error))
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = strict
    conclude(found)


def relative(found: Any, wanted: Any) -> float:
    """Norm of the difference over the norm of what is wanted; infinite for NaN or another shape."""
    if found is None or found.shape != wanted.shape:
        return float("inf")
    found, wanted = found.detach().double(), wanted.detach().double()
    value = float((found - wanted).norm() / wanted.norm().clamp_min(1e-12))
    return float("inf") if math.isnan(value) else value


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


def _implementation(layer: Layer, name: str) -> Any:
    if layer.design.name == "decorator":
        for item in layer.design.decorated:
            if item.function == name:
                pair = unwrap(getattr(layer.module, item.attribute, None))
                return pair[0] if pair else None
    return getattr(layer.module, name, None) or binding.import_function(name)["object"]


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
    except Expired:
        raise
    except Exception as error:
        return _failed(title, stage, error, subject, dtype)
    return _entry(title, subject, dtype, max(errors), gradients)


def layer_case(
    layer: Layer, precise: Layer, dtype: str, tokens: int, title: str, backward: bool = True
) -> dict[str, Any]:
    """Forward and backward of the whole layer, against the PyTorch functions in float32.

    The same PyTorch functions in the dtype under test say how much of the difference is the dtype's own noise.
    """
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
        gradients: dict[str, float] = {}
        if backward:
            stage = "backward"
            found.backward(weight.to(found.dtype))
            _synchronize(layer.device)
            gradients = {n: relative(g, exact[n]) for n, g in _gradients(layer, ours).items() if n in exact}
    except Expired:
        raise
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
    except Expired:
        raise
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
    except Expired:
        raise
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
