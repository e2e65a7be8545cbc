# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: one test case a fast function: random inputs, how to call it, and what it must give.

A case yields (inputs that take gradients, call, reference). ``call`` and ``reference`` take the same inputs and return
one tensor or a tuple of tensors; the reference gets float64 copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import references as ref


@dataclass
class Case:
    """``title`` says what is tried; ``inputs`` are leaf tensors; ``gradients`` of all of them, or of none."""

    title: str
    inputs: dict[str, Any]
    call: Callable[..., Any]
    reference: Callable[..., Any]
    gradients: bool = True
    fixed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model's mixer, as far as functions need them. Counts of channels and heads."""

    heads: int = 4
    key: int = 128
    value: int = 128
    channels: int = 512
    width: int = 4
    state: int = 16
    groups: int = 1
    rank: int = 16
    by_head: bool = True


def cases(name: str, fn: Any, sizes: Sizes, device: Any, dtype: Any, seed: int) -> Iterator[Case]:
    """The cases of one function; nothing for a function that has none of its own (the whole layer covers it)."""
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)

    def rand(*shape: int, kind: Any = dtype) -> Any:
        return torch.randn(*shape, generator=generator, device=device).to(kind)

    maker = _MAKERS.get(name)
    if maker:
        yield from maker(fn, sizes, rand, torch)


def _segments(lengths: tuple[int, ...]) -> tuple[list[slice], list[int]]:
    borders = [0]
    for length in lengths:
        borders.append(borders[-1] + length)
    return [slice(a, b) for a, b in zip(borders, borders[1:])], borders


def _conv(fn: Any, n: Sizes, rand: Any, torch: Any) -> Iterator[Case]:
    def inputs(tokens: int) -> dict[str, Any]:
        # (batch, tokens, channels) transposed: the layout that the layers hand over, and the only one for seq_idx.
        return {"x": rand(1, tokens, n.channels), "weight": rand(n.channels, n.width) * 0.5}

    def call(x: Any, weight: Any, **more: Any) -> Any:
        return fn(x.transpose(1, 2), weight, None, activation="silu", **more).transpose(1, 2)

    def plain(x: Any, weight: Any) -> Any:
        return ref.causal_conv1d(x.transpose(1, 2), weight).transpose(1, 2)

    for tokens in (256, 251):
        yield Case(f"{tokens} tokens", inputs(tokens), call, plain)
    parts, _borders = _segments((1, 62, 131, 63))
    found = inputs(257)
    index = torch.cat([torch.full((p.stop - p.start,), i) for i, p in enumerate(parts)])
    index = index[None].to(device=found["x"].device, dtype=torch.int32)
    yield Case(
        "packed sequences (seq_idx)",
        found,
        lambda x, weight: call(x, weight, seq_idx=index),
        lambda x, weight: torch.cat([plain(x[:, p], weight) for p in parts], dim=1),
    )


def _conv_update(fn: Any, n: Sizes, rand: Any, torch: Any) -> Iterator[Case]:
    steps = 5

    def call(x: Any, weight: Any, state: Any) -> Any:
        state = state.clone()
        return torch.stack([fn(x[:, :, t].contiguous(), state, weight, None, "silu") for t in range(steps)], dim=-1)

    yield Case(
        f"{steps} steps of decoding from a state",
        {"x": rand(2, n.channels, steps), "weight": rand(n.channels, n.width), "state": rand(2, n.channels, n.width)},
        call,
        lambda x, weight, state: ref.causal_conv1d(x, weight, state=state),
        gradients=False,
    )


def _delta(kda: bool, recurrent: bool) -> Callable[..., Iterator[Case]]:
    def make(fn: Any, n: Sizes, rand: Any, torch: Any) -> Iterator[Case]:
        def inputs(tokens: int, state: bool = False) -> dict[str, Any]:
            found = {
                "q": rand(1, tokens, n.heads, n.key),
                "k": rand(1, tokens, n.heads, n.key),
                "v": rand(1, tokens, n.heads, n.value),
                "g": -torch.nn.functional.softplus(
                    rand(*((1, tokens, n.heads, n.key) if kda else (1, tokens, n.heads)), kind=torch.float32)
                ),
                "beta": rand(1, tokens, n.heads).sigmoid(),
            }
            if state:
                found["state"] = rand(1, n.heads, n.key, n.value, kind=torch.float32)
            return found

        def call(q: Any, k: Any, v: Any, g: Any, beta: Any, state: Any = None, **more: Any) -> Any:
            return fn(
                q,
                k,
                v,
                g=g,
                beta=beta,
                initial_state=state,
                output_final_state=True,
                use_qk_l2norm_in_kernel=True,
                **more,
            )

        titles = {64: "64 tokens", 127: "127 tokens"} if not recurrent else {1: "1 token", 7: "7 tokens"}
        for tokens, title in titles.items():
            yield Case(f"{title} from a state", inputs(tokens, True), call, ref.delta_rule, gradients=not recurrent)
        parts, borders = _segments((1, 62, 65))
        found = inputs(128)
        cu = torch.tensor(borders, device=found["q"].device, dtype=torch.int32 if not recurrent else torch.long)
        yield Case(
            "packed sequences (cu_seqlens)",
            found,
            lambda **x: call(**x, cu_seqlens=cu)[0],
            lambda **x: torch.cat([ref.delta_rule(**{k: t[:, p] for k, t in x.items()})[0] for p in parts], dim=1),
            gradients=not recurrent,
        )

    return make


def _scan(fn: Any, n: Sizes, rand: Any, torch: Any) -> Iterator[Case]:
    for tokens in (64, 51):
        yield Case(
            f"{tokens} tokens",
            {
                "u": rand(1, n.channels, tokens),
                "delta": rand(1, n.channels, tokens),
                "a": -rand(n.channels, n.state, kind=torch.float32).exp(),
                "b": rand(1, n.state, tokens),
                "c": rand(1, n.state, tokens),
                "d": rand(n.channels, kind=torch.float32),
                "z": rand(1, n.channels, tokens),
                "bias": rand(n.channels, kind=torch.float32),
            },
            lambda u, delta, a, b, c, d, z, bias: fn(u, delta, a, b, c, d, z, bias, delta_softplus=True),
            lambda **x: ref.selective_scan(**x)[0],
        )


def _state_update(fn: Any, n: Sizes, rand: Any, torch: Any) -> Iterator[Case]:
    """Two steps from a state: heads with groups of them as in Mamba-2, or the channels of Mamba.

    With D and the bias, as every model has them: mamba-ssm 2.3.2 raises a TypeError without.
    """
    if not n.by_head:
        yield _channel_update(fn, n, rand, torch)
        return
    heads, size = n.heads, n.value

    def call(x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any, bias: Any, state: Any) -> Any:
        state = state.clone()
        outputs = []
        for t in range(x.shape[1]):
            wide = (heads, size)
            outputs.append(
                fn(
                    state,
                    x[:, t],
                    dt[:, t, :, None].expand(-1, *wide),
                    a[:, None, None].expand(*wide, n.state),
                    b[:, t],
                    c[:, t],
                    d[:, None].expand(*wide),
                    dt_bias=bias[:, None].expand(*wide),
                    dt_softplus=True,
                )
            )
        return torch.stack(outputs, dim=1)

    yield Case(
        "2 steps of decoding from a state",
        {
            "x": rand(1, 2, heads, size),
            "dt": rand(1, 2, heads),
            "a": -rand(heads, kind=torch.float32).exp(),
            "b": rand(1, 2, n.groups, n.state),
            "c": rand(1, 2, n.groups, n.state),
            "d": rand(heads, kind=torch.float32),
            "bias": rand(heads, kind=torch.float32),
            "state": rand(1, heads, size, n.state, kind=torch.float32),
        },
        call,
        lambda **x: ref.chunk_scan(**x)[0],
        gradients=False,
    )


def _channel_update(fn: Any, n: Sizes, rand: Any, torch: Any) -> Case:
    def call(u: Any, delta: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any, state: Any) -> Any:
        state = state.clone()
        more = {"dt_bias": bias, "dt_softplus": True}
        parts = [
            fn(state, u[..., t], delta[..., t], a, b[..., t], c[..., t], d, z=z[..., t], **more)
            for t in range(u.shape[-1])
        ]
        return torch.stack(parts, dim=-1)

    return Case(
        "2 steps of decoding from a state",
        {
            "u": rand(1, n.channels, 2),
            "delta": rand(1, n.channels, 2),
            "a": -rand(n.channels, n.state, kind=torch.float32).exp(),
            "b": rand(1, n.state, 2),
            "c": rand(1, n.state, 2),
            "d": rand(n.channels, kind=torch.float32),
            "z": rand(1, n.channels, 2),
            "bias": rand(n.channels, kind=torch.float32),
            "state": rand(1, n.channels, n.state, kind=torch.float32),
        },
        call,
        lambda **x: ref.selective_scan(**x)[0],
        gradients=False,
    )


def _inner(fn: Any, n: Sizes, rand: Any, torch: Any) -> Iterator[Case]:
    """All of a Mamba layer between its two projections, and the second of them."""
    for tokens in (64, 51):
        yield Case(
            f"{tokens} tokens",
            {
                "xz": rand(1, 2 * n.channels, tokens),
                "conv": rand(n.channels, 1, n.width) * 0.5,
                "project": rand(n.rank + 2 * n.state, n.channels) * n.channels**-0.5,
                "widen": rand(n.channels, n.rank) * n.rank**-0.5,
                "out": rand(n.channels // 2, n.channels) * n.channels**-0.5,
                "a": -rand(n.channels, n.state, kind=torch.float32).exp(),
                "d": rand(n.channels, kind=torch.float32),
                "bias": rand(n.channels, kind=torch.float32),
            },
            lambda xz, conv, project, widen, out, a, d, bias: fn(
                xz, conv, None, project, widen, out, None, a, None, None, d, delta_bias=bias, delta_softplus=True
            ),
            ref.mamba_inner,
        )


def _split(fn: Any, n: Sizes, rand: Any, torch: Any) -> Iterator[Case]:
    """All of a Mamba-2 layer between its two projections, its norm included: over each group of heads."""
    wide, grouped = n.heads * n.value, 2 * n.groups * n.state
    for tokens in (128, 101):
        yield Case(
            f"{tokens} tokens",
            {
                "x": rand(1, tokens, 2 * wide + grouped + n.heads),
                "conv": rand(wide + grouped, n.width) * 0.5,
                "bias": rand(n.heads, kind=torch.float32),
                "a": -rand(n.heads, kind=torch.float32).exp(),
                "d": rand(n.heads, kind=torch.float32),
                "norm": rand(wide, kind=torch.float32),
            },
            lambda x, conv, bias, a, d, norm: fn(
                x,
                conv,
                None,
                bias,
                a,
                d,
                64,
                activation="silu",
                rmsnorm_weight=norm,
                rmsnorm_eps=1e-6,
                headdim=n.value,
                ngroups=n.groups,
                norm_before_gate=False,
            ),
            lambda **x: ref.mamba_split(**x, groups=n.groups, size=n.value, state_size=n.state),
        )


def _chunk_scan(fn: Any, n: Sizes, rand: Any, torch: Any) -> Iterator[Case]:
    def inputs(tokens: int) -> dict[str, Any]:
        return {
            "x": rand(1, tokens, n.heads, n.value),
            "dt": rand(1, tokens, n.heads),
            "a": -rand(n.heads, kind=torch.float32).exp(),
            "b": rand(1, tokens, n.groups, n.state),
            "c": rand(1, tokens, n.groups, n.state),
            "d": rand(n.heads, kind=torch.float32),
            "bias": rand(n.heads, kind=torch.float32),
        }

    def call(x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any, bias: Any, **more: Any) -> Any:
        return fn(x, dt, a, b, c, 64, D=d, dt_bias=bias, dt_softplus=True, **more)

    for tokens in (128, 101):
        yield Case(f"{tokens} tokens", inputs(tokens), call, lambda **x: ref.chunk_scan(**x)[0])
    parts, _borders = _segments((1, 62, 65))
    found = inputs(128)
    index = torch.cat([torch.full((p.stop - p.start,), i) for i, p in enumerate(parts)])
    index = index[None].to(device=found["x"].device, dtype=torch.int32)

    def packed(x: Any, dt: Any, b: Any, c: Any, **rest: Any) -> Any:
        return torch.cat(
            [ref.chunk_scan(x=x[:, p], dt=dt[:, p], b=b[:, p], c=c[:, p], **rest)[0] for p in parts], dim=1
        )

    yield Case("packed sequences (seq_idx)", found, lambda **x: call(**x, seq_idx=index), packed)


_MAKERS: dict[str, Callable[..., Iterator[Case]]] = {
    "causal_conv1d_fn": _conv,
    "causal_conv1d_update": _conv_update,
    "chunk_gated_delta_rule": _delta(False, False),
    "fused_recurrent_gated_delta_rule": _delta(False, True),
    "chunk_kda": _delta(True, False),
    "fused_recurrent_kda": _delta(True, True),
    "selective_scan_fn": _scan,
    "selective_state_update": _state_update,
    "mamba_chunk_scan_combined": _chunk_scan,
    "mamba_inner_fn": _inner,
    "mamba_split_conv1d_scan_combined": _split,
}
