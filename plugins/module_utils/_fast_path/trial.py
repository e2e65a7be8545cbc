# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the whole layer as bound against the PyTorch functions of transformers in float32: one check each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .decoding import decode
from .layer import Layer
from .marks import BOUNDS, entry, failed, relative, synchronize
from .packages import describe, version_of
from .progress import Expired

PACKED = (1, 190, 65, 256)
Run = Callable[[Layer, Any], Any]
# What transformers itself gets wrong, when it does: a sentence, or None.
Fault = Callable[[Any], "str | None"]


def layer_case(
    layer: Layer, precise: Layer, dtype: str, tokens: int, title: str, backward: bool = True
) -> dict[str, Any]:
    """Forward and backward of one sequence."""
    x = layer.inputs(tokens, seed=tokens)

    def two_things(wanted: Any) -> str | None:
        """In evaluation the layer is right, with the functions that are bound for it; a fused one serves training.

        Where that one is wrong, its own check says so. Else transformers asks it for something else: Mamba-2's norm
        is over all channels in one and over each group in the other.
        """
        layer.mixer.eval()
        try:
            size = _far(lambda: relative(layer(x), wanted))
        finally:
            layer.mixer.train()
        who = f"{_who()} computes something else in training than in evaluation in {type(layer.mixer).__name__}"
        return who if size is not None and size <= BOUNDS[dtype] else None

    return _trial(layer, precise, dtype, title, x, _whole, _whole, backward, two_things)


def packed(
    layer: Layer, precise: Layer, dtype: str, lengths: tuple[int, ...] = PACKED, backward: bool = True
) -> dict[str, Any]:
    """Several sequences in one row must not influence each other, neither forward nor backward."""
    import torch

    borders = [0]
    for length in lengths:
        borders.append(borders[-1] + length)
    cu = torch.tensor(borders, device=layer.device, dtype=torch.int32)
    index = torch.cat([torch.full((n,), i, dtype=torch.int32) for i, n in enumerate(lengths)])[None].to(layer.device)

    def as_one(which: Layer, x: Any) -> Any:
        return which(x, cu_seq_lens_q=cu, cu_seq_lens_k=cu, seq_idx=index)

    def one_by_one(which: Layer, x: Any) -> Any:
        return torch.cat([which(x[:, a:b]) for a, b in zip(borders, borders[1:])], dim=1)

    def unheard(_wanted: Any) -> str | None:
        """A function of the layer gets no borders. One that gets them and ignores them fails its own check of that."""
        with layer.listening() as heard:
            size = _far(lambda: relative(as_one(layer, x), layer(x)))
        if size is None:
            return None
        who = f"{_who()} ignores the borders of packed sequences in {type(layer.mixer).__name__}"
        deaf = [name for name, given in heard.items() if not given]
        if len(deaf) < len(heard) and deaf:
            return f"{who} for {', '.join(deaf)}: do not train packed"
        return f"{who}: do not train packed" if size <= BOUNDS[dtype] else None

    title = f"layer: packed sequences of {', '.join(map(str, lengths))} tokens"
    x = layer.inputs(borders[-1], seed=17)
    return _trial(layer, precise, dtype, title, x, as_one, one_by_one, backward, unheard)


def decoding(layer: Layer, precise: Layer, dtype: str, prefill: int = 97, steps: int = 4) -> dict[str, Any]:
    """A prefill and then single tokens through the cache must equal one pass over all of them."""

    def by_steps(which: Layer, x: Any) -> Any:
        return decode(which, x, prefill)

    def own(wanted: Any) -> str | None:
        try:
            with precise.reference(), _grad(False):
                size = _difference(by_steps(precise, x.float()), wanted, steps)
        except Expired:
            raise
        except Exception as error:
            return f"{_who()} cannot do it with its PyTorch functions either: {describe(error)}"
        return f"{_who()} is wrong by {size:.3g} with its PyTorch functions" if size > BOUNDS[dtype] else None

    title = f"layer: {prefill} tokens, then {steps} steps of decoding"
    x = layer.inputs(prefill + steps, seed=19)
    return _trial(layer, precise, dtype, title, x, by_steps, _whole, False, own, steps)


def _whole(layer: Layer, x: Any) -> Any:
    return layer(x)


def _trial(
    layer: Layer,
    precise: Layer,
    dtype: str,
    title: str,
    x: Any,
    ours: Run,
    theirs: Run,
    backward: bool,
    fault: Fault | None = None,
    last: int | None = None,
) -> dict[str, Any]:
    """``ours`` on the layer as bound against ``theirs`` with the PyTorch functions in float32.

    The same PyTorch functions in the dtype under test say how much of the difference is the dtype's own noise. Where
    the reference fails, or ``fault`` says that transformers itself is behind a failure, nothing was compared.

    :param last: so many of the last tokens count on their own too.
    """
    stage = "reference"
    try:
        with precise.reference(), _without_cudnn():
            wanted, exact, weight = _step(precise, x.float(), theirs, backward)
        with layer.reference(), _without_cudnn():
            plain, noisy, _weight = _step(layer, x, theirs, backward, weight)
        noise = {n: relative(noisy[n], exact[n]) for n in exact} | {"output": relative(plain, wanted)}
        stage = "forward"
        gradients: dict[str, float] = {}
        with _grad(backward):
            given = x.clone().requires_grad_(backward)
            found = ours(layer, given)
        forward = _difference(found, wanted, last)
        if backward:
            stage = "backward"
            found.backward(weight.to(found.dtype))
            gradients = {n: relative(g, exact[n]) for n, g in _gradients(layer, given).items() if n in exact}
        synchronize(layer.device)
        result = entry(title, "layer", dtype, forward, gradients, noise)
    except Expired:
        raise
    except Exception as error:
        result = failed(title, stage, error, "layer", dtype)
        if stage == "reference":
            result["passed"] = None
    finally:
        layer.mixer.zero_grad(set_to_none=True)
    sentence = fault(wanted) if fault is not None and result["passed"] is False else None
    if sentence:
        result.update(passed=None, stage="reference", error=sentence, remedy=None)
    return result


def _far(compute: Callable[[], float]) -> float | None:
    """A difference, computed without gradients; None where it cannot be computed."""
    try:
        with _grad(False):
            return compute()
    except Expired:
        raise
    except Exception:
        return None


def _who() -> str:
    return f"transformers {version_of('transformers')} itself"


def _difference(found: Any, wanted: Any, last: int | None) -> float:
    size = relative(found, wanted)
    return size if last is None else max(size, relative(found[:, -last:], wanted[:, -last:]))


def _step(layer: Layer, x: Any, run: Run, backward: bool, weight: Any = None) -> tuple[Any, dict[str, Any], Any]:
    """One forward, and backward: (output, gradients by name, the weights that the output was summed with)."""
    import torch

    x = x.clone().requires_grad_(backward)
    with _grad(backward):
        output = run(layer, x)
    if not backward:
        return output, {}, None
    if weight is None:
        torch.manual_seed(layer.seed + 13)
        weight = torch.randn_like(output)
    output.backward(weight.to(output.dtype))
    gradients = _gradients(layer, x)
    layer.mixer.zero_grad(set_to_none=True)
    return output.detach(), gradients, weight


@contextmanager
def _without_cudnn() -> Iterator[None]:
    """PyTorch's own convolutions: cuDNN takes 0.05 s to choose a kernel for each new length in float16."""
    import torch

    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


def _grad(wanted: bool) -> Any:
    import torch

    return torch.set_grad_enabled(wanted)


def _gradients(layer: Layer, x: Any) -> dict[str, Any]:
    found = {name: p.grad for name, p in layer.mixer.named_parameters() if p.grad is not None}
    return {**found, "input": x.grad}
