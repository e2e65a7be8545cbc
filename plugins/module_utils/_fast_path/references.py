# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what the fast functions compute, written as plain recurrences in PyTorch.

Independent of transformers and of the packages under test. Slow on purpose; inputs are upcast by the caller
(float64 on short sequences). Shapes follow the fast functions.
"""

from __future__ import annotations

from typing import Any


def causal_conv1d(x: Any, weight: Any, bias: Any = None, activation: str | None = "silu", state: Any = None) -> Any:
    """Depthwise causal convolution.

    x (batch, channels, tokens), weight (channels, width), state (batch, channels, n).
    """
    import torch
    from torch.nn import functional

    width = weight.shape[-1]
    past = x.new_zeros(x.shape[0], x.shape[1], width - 1) if state is None else state[..., -(width - 1) :]
    padded = torch.cat([past, x], dim=-1)
    out = functional.conv1d(padded, weight.unsqueeze(1), bias, groups=x.shape[1])
    return functional.silu(out) if activation in ("silu", "swish") else out


def delta_rule(
    q: Any, k: Any, v: Any, g: Any, beta: Any, state: Any = None, l2norm: bool = True, scale: float | None = None
) -> tuple[Any, Any]:
    """Gated delta rule, token by token: S = exp(g) S; S += beta k (v - k S); o = q S * scale.

    q, k (batch, tokens, heads, K), v (batch, tokens, heads, V), beta (batch, tokens, heads); g the same as beta, or
    with a last axis K (Kimi delta attention: one decay a key channel). Returns (o, last state (batch, heads, K, V)).
    """
    import torch

    if l2norm:
        q = q / torch.sqrt((q * q).sum(-1, keepdim=True) + 1e-6)
        k = k / torch.sqrt((k * k).sum(-1, keepdim=True) + 1e-6)
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    batch, tokens, heads, width = k.shape
    s = k.new_zeros(batch, heads, width, v.shape[-1]) if state is None else state
    decay = (g if g.dim() == 4 else g.unsqueeze(-1)).exp()
    outputs = []
    for t in range(tokens):
        s = s * decay[:, t].unsqueeze(-1)
        old = torch.einsum("bhk,bhkv->bhv", k[:, t], s)
        s = s + torch.einsum("bhk,bhv->bhkv", k[:, t], (v[:, t] - old) * beta[:, t].unsqueeze(-1))
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], s))
    return torch.stack(outputs, dim=1), s


def selective_scan(
    u: Any,
    delta: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    z: Any = None,
    bias: Any = None,
    softplus: bool = True,
    state: Any = None,
) -> tuple[Any, Any]:
    """Mamba's scan.

    u, delta, z (batch, channels, tokens), a (channels, N), b, c (batch, N, tokens), d, bias (channels).
    """
    import torch
    from torch.nn import functional

    delta = delta if bias is None else delta + bias[:, None]
    delta = functional.softplus(delta) if softplus else delta
    s = u.new_zeros(u.shape[0], u.shape[1], a.shape[-1]) if state is None else state
    outputs = []
    for t in range(u.shape[-1]):
        step = delta[:, :, t, None]
        s = s * torch.exp(step * a) + step * b[:, None, :, t] * u[:, :, t, None]
        outputs.append((s * c[:, None, :, t]).sum(-1))
    out = torch.stack(outputs, dim=-1)
    out = out if d is None else out + u * d[:, None]
    return (out if z is None else out * functional.silu(z)), s


def chunk_scan(
    x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any = None, bias: Any = None, softplus: bool = True, state: Any = None
) -> tuple[Any, Any]:
    """Mamba-2's scan.

    x (batch, tokens, H, P), dt (batch, tokens, H), a, d, bias (H), b, c (batch, tokens, groups, N).
    """
    import torch
    from torch.nn import functional

    dt = dt if bias is None else dt + bias
    dt = functional.softplus(dt) if softplus else dt
    repeat = x.shape[2] // b.shape[2]
    b, c = b.repeat_interleave(repeat, dim=2), c.repeat_interleave(repeat, dim=2)
    s = x.new_zeros(x.shape[0], x.shape[2], x.shape[3], b.shape[-1]) if state is None else state
    outputs = []
    for t in range(x.shape[1]):
        step = dt[:, t]
        s = s * torch.exp(step * a)[..., None, None]
        s = s + torch.einsum("bhp,bhn->bhpn", x[:, t] * step.unsqueeze(-1), b[:, t])
        outputs.append(torch.einsum("bhpn,bhn->bhp", s, c[:, t]))
    out = torch.stack(outputs, dim=1)
    return (out if d is None else out + x * d[:, None]), s


def mamba_inner(xz: Any, conv: Any, project: Any, widen: Any, out: Any, a: Any, d: Any, bias: Any) -> Any:
    """Mamba's layer from its input projection on.

    xz (batch, 2 x channels, tokens), conv (channels, 1, width), project (rank + 2N, channels), widen (channels, rank),
    out (hidden, channels).
    """
    rank, n = widen.shape[1], a.shape[1]
    u, z = xz.chunk(2, dim=1)
    u = causal_conv1d(u, conv[:, 0])
    low, b, c = (u.transpose(1, 2) @ project.T).split([rank, n, n], dim=-1)
    delta = (low @ widen.T).transpose(1, 2)
    y, _state = selective_scan(u, delta, a, b.transpose(1, 2), c.transpose(1, 2), d, z, bias)
    return y.transpose(1, 2) @ out.T


def mamba_split(
    x: Any, conv: Any, bias: Any, a: Any, d: Any, norm: Any, groups: int, size: int, state_size: int, eps: float = 1e-6
) -> Any:
    """Mamba-2's layer from its input projection on, without its output projection.

    x (batch, tokens, gate + channels + B + C + heads), conv (channels + B + C, width), bias, a, d (heads),
    norm (channels): the weight of a root mean square norm over each group, after the gate.
    """
    import torch
    from torch.nn import functional

    heads, grouped = a.shape[0], groups * state_size
    wide = heads * size
    z, mixed, dt = x.split([wide, wide + 2 * grouped, heads], dim=-1)
    mixed = causal_conv1d(mixed.transpose(1, 2), conv).transpose(1, 2)
    u, b, c = mixed.split([wide, grouped, grouped], dim=-1)
    b, c = (part.unflatten(-1, (groups, state_size)) for part in (b, c))
    y, _state = chunk_scan(u.unflatten(-1, (heads, size)), dt, a, b, c, d, bias)
    y = (y.flatten(2) * functional.silu(z)).unflatten(-1, (groups, wide // groups))
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).flatten(2) * norm
