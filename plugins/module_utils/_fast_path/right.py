# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: do the bound functions, and one whole layer, compute what they should, forward and backward?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import binding
from .cases import Case, cases
from .design import unwrap
from .layer import Layer
from .marks import BOUNDS, entry, failed, relative, synchronize
from .progress import Expired, Progress
from .sizes import sizes_of
from .trial import decoding, layer_case, packed
from .tuning import compiled_ahead, first_valid

# The odd one first: should backward refuse, a short sequence says so soonest.
_TOKENS = {"odd": 333, "whole": 1024}


def check(
    config: Mapping[str, Any],
    device: Any,
    functions: list[dict[str, Any]],
    quick: bool = False,
    progress: Progress | None = None,
    found: dict[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """All checks on one GPU: ``{"passed": bool | None, "bounds": ..., "checks": [...]}``; never raises.

    Triton kernels run with one configuration each, so that a first run compiles little; ``as_tuned`` tries those that
    train. ``refused`` is the text of an exception in the layer's backward: after one, only forward is tried, in bf16.
    ``unfinished`` says what the time did not suffice for, or what could not be compared. ``found`` is filled as checks
    come in, and returned. Weights and inputs are drawn from ``seed``.
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
                layer = Layer(config, device, getattr(torch, name), seed)
                for one in _checks(layer, functions, name, progress, found):
                    checks.append(one)
        found["unfinished"] = _uncompared(checks)
    except Expired as expired:
        found["unfinished"] = str(expired)
    except Exception as error:
        checks.append(failed("the layer can be built", "build", error))
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


def _uncompared(checks: list[dict[str, Any]]) -> str | None:
    """Why the layer, the heart of it, was not compared at all: then nothing is proven, whatever else is right."""
    whole = [c for c in checks if c.get("whole")]
    if not whole or any(c["passed"] is not None for c in whole):
        return None
    return f"the layer could not be compared, because the PyTorch reference fails: {whole[0]['error']}"


def _checks(
    layer: Layer, functions: list[dict[str, Any]], dtype: str, progress: Progress, found: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """The checks in one precision: the layer, packed sequences and decoding, then each bound function."""
    bound = [f["name"] for f in functions if f["bound"]]
    precise = layer.precise()
    # The second precision: one length of the whole layer.
    for tokens in list(_TOKENS.values())[: 2 if dtype == "bfloat16" else 1]:
        title = f"layer: {tokens} tokens"
        progress.say(f"{dtype} {title}")
        one = layer_case(layer, precise, dtype, tokens, title, backward=not found["refused"])
        if one["stage"] == "backward" and one["error"]:
            found["refused"] = one["error"]
            progress.write(f"backward refuses: {one['error']}")
        yield {**one, "whole": True}
    # What a half-bound layer makes of packed sequences is the fault of what is missing, which the binding says.
    if layer.takes_packed() and len(bound) == len(functions):
        progress.say(f"{dtype} layer: packed sequences")
        yield packed(layer, precise, dtype, backward=not found["refused"])
    progress.say(f"{dtype} layer: decoding")
    yield decoding(layer, precise, dtype)
    sizes = sizes_of(layer)
    for name in bound:
        implementation = _implementation(layer, name)
        if implementation is None:
            continue
        for case in cases(name, implementation, sizes, layer.device, layer.dtype, seed=layer.seed + 7):
            title = f"{name}: {case.title}"
            progress.say(f"{dtype} {title}")
            case.gradients = case.gradients and not found["refused"]
            yield _compare(title, name, dtype, case, layer)


def as_tuned(
    config: Mapping[str, Any],
    device: Any,
    lengths: tuple[int, ...],
    found: dict[str, Any],
    progress: Progress | None = None,
    seed: int = 0,
) -> None:
    """Try the layer once more at the lengths that were timed, with the configurations that the autotuner chose.

    Adds its checks to ``found``. A length whose reference does not fit into the GPU's memory is left untried.
    """
    import torch

    progress = progress or Progress()
    strict = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        layer = Layer(config, device, torch.bfloat16, seed)
        precise = layer.precise()
        with compiled_ahead(progress):
            for tokens in lengths:
                title = f"layer: {tokens} tokens, as tuned"
                progress.say(f"bfloat16 {title}")
                found["checks"].append(layer_case(layer, precise, "bfloat16", tokens, title))
    except Expired as expired:
        found["unfinished"] = found["unfinished"] or str(expired)
    except Exception as error:
        found["checks"].append(failed("the layer can be built", "build", error))
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = strict
    conclude(found)


def _implementation(layer: Layer, name: str) -> Any:
    if layer.design.name == "decorator":
        for item in layer.design.decorated:
            if item.function == name:
                pair = unwrap(getattr(layer.module, item.attribute, None))
                return pair[0] if pair else None
    return getattr(layer.module, name, None) or binding.import_function(name)["object"]


def _tensors(value: Any) -> list[Any]:
    return [v for v in (value if isinstance(value, (tuple, list)) else (value,)) if v is not None]


def _compare(title: str, subject: str, dtype: str, case: Case, layer: Layer) -> dict[str, Any]:
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
            torch.manual_seed(layer.seed + 11)
            weights = [torch.randn_like(w) for w in wanted]
            torch.autograd.backward(list(found), [w.to(f.dtype) for w, f in zip(weights, found)])
            torch.autograd.backward(list(wanted), weights)
            gradients = {k: relative(ours[k].grad, exact[k].grad) for k in ours}
        synchronize(layer.device)
    except Expired:
        raise
    except Exception as error:
        return failed(title, stage, error, subject, dtype)
    return entry(title, subject, dtype, max(errors), gradients)
