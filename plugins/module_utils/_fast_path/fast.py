# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: how much faster is the layer as bound than with the PyTorch functions, and what is that for the model?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import hints
from .layer import Layer
from .packages import describe
from .progress import Expired, Progress
from .tuning import compiled_ahead

LENGTHS = (4096, 16384)
_WARM_UPS, _REPEATS = 3, 7
# The slow path at 16,384 tokens takes over half a second a step: a few rounds tell enough.
_SLOW_BUDGET_S = 1.5


def check(
    config: Mapping[str, Any],
    device: Any,
    lengths: tuple[int, ...] = LENGTHS,
    reference_only: bool = False,
    refused: str | None = None,
    progress: Progress | None = None,
    found: dict[str, Any] | None = None,
    jobs: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Time one layer in bf16, batch 1. Returns ``{"rows": [...], "model": estimate, "warm_up_s": ...}``; never raises.

    A row: tokens, path (fast or reference), forward_ms, training_ms (forward + backward), tokens_per_s (training),
    peak_bytes, warm_up_s (compiling and tuning), error.

    :param refused: the exception of a backward that is known to fail: then the fast path's forward alone is timed.
    :param found: filled as rows come in, and returned. ``unfinished`` says what the time did not suffice for.
    :param jobs: threads that compile; by default as many as there are processors, 16 at most.
    """
    import torch

    progress = progress or Progress()
    found = {} if found is None else found
    rows: list[dict[str, Any]] = []
    found.update(dtype="bfloat16", rows=rows, ratios=[], warm_up_s=0.0, model=None, error=None)
    found["unfinished"] = "the times were not measured"
    try:
        layer = Layer(config, device, torch.bfloat16, seed)
        with compiled_ahead(progress, jobs):
            for tokens in lengths:
                if not reference_only:
                    rows.append(_row(layer, tokens, "fast", progress, refused))
                with layer.reference():
                    rows.append(_row(layer, tokens, "reference", progress))
                found["ratios"] += [r for r in (_ratio(rows, tokens),) if r]
        found["unfinished"] = None
        if not reference_only:
            progress.say("the whole model's size, and the rate of matrix products")
            found["model"] = _model(config, layer, rows, lengths)
    except Expired as expired:
        found["unfinished"] = str(expired)
    except Exception as error:
        found.update(error=describe(error), unfinished=None)
    found["warm_up_s"] = round(sum(row["warm_up_s"] for row in rows if row["path"] == "fast"), 3)
    return found


def _row(
    layer: Layer, tokens: int, path: str, progress: Progress | None = None, refused: str | None = None
) -> dict[str, Any]:
    import torch

    x = layer.inputs(tokens, seed=tokens)
    row: dict[str, Any] = {
        "tokens": tokens,
        "path": path,
        "forward_ms": None,
        "training_ms": None,
        "tokens_per_s": None,
        "peak_bytes": None,
        "warm_up_s": 0.0,
        "error": None,
        "stage": None,
        "remedy": None,
    }

    def forward() -> None:
        with torch.no_grad():
            layer(x)

    def training() -> None:
        ours = x.clone().requires_grad_()
        output = layer(ours)
        output.backward(torch.ones_like(output))
        layer.mixer.zero_grad(set_to_none=True)

    on_gpu = layer.device.type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(layer.device)
    for stage, work in (("forward", forward), ("training", training)):
        if progress is not None:
            progress.say(f"{path} path, {tokens} tokens: {stage}")
        if refused and stage == "training":
            row.update(error=refused, stage=stage, remedy=hints.remedy(refused))
            break
        try:
            median, first = measure(work, layer.device)
        except Expired:
            raise
        except Exception as error:
            row.update(error=describe(error), stage=stage)
            row["remedy"] = hints.remedy(row["error"])
            layer.mixer.zero_grad(set_to_none=True)
            break
        row[stage + "_ms"] = round(median, 3)
        row["warm_up_s"] = round(row["warm_up_s"] + max(0.0, first - median) / 1000, 3)
    if row["training_ms"]:
        row["tokens_per_s"] = round(tokens / row["training_ms"] * 1000)
    row["peak_bytes"] = torch.cuda.max_memory_allocated(layer.device) if on_gpu else 0
    return row


def measure(work: Callable[[], None], device: Any) -> tuple[float, float]:
    """(median, first) milliseconds of ``work``; the first call compiles and tunes, and is no part of the median."""
    import torch

    wait = (lambda: torch.cuda.synchronize(device)) if torch.device(device).type == "cuda" else (lambda: None)

    def once() -> float:
        wait()
        start = time.perf_counter()
        work()
        wait()
        return (time.perf_counter() - start) * 1000

    first = last = once()
    # What takes long needs no more warming up than its first call.
    for _round in range(_WARM_UPS - 1):
        if last * _REPEATS < _SLOW_BUDGET_S * 1000:
            last = once()
    repeats = max(3, min(_REPEATS, int(_SLOW_BUDGET_S * 1000 / max(last, 0.001))))
    return statistics.median(once() for _round in range(repeats)), first


def _ratio(rows: list[dict[str, Any]], tokens: int) -> dict[str, Any] | None:
    found = {row["path"]: row for row in rows if row["tokens"] == tokens}
    if set(found) != {"fast", "reference"}:
        return None

    def over(key: str) -> float | None:
        fast, slow = found["fast"][key], found["reference"][key]
        return round(slow / fast, 2) if fast and slow else None

    return {"tokens": tokens, "forward": over("forward_ms"), "training": over("training_ms")}


def _model(
    config: Mapping[str, Any], layer: Layer, rows: list[dict[str, Any]], lengths: tuple[int, ...]
) -> list[dict[str, Any]] | None:
    """The estimate for one training step of the whole model, at each length."""
    import torch

    from .families import census

    count = census(config).get("fast_layers")
    if not count:
        return None
    try:
        shape = model_shape(layer)
        rate = matrix_rate(torch, layer.device)
    except Exception as error:
        return [{"error": describe(error)}]
    found = []
    for tokens in lengths:
        times = {r["path"]: r["training_ms"] for r in rows if r["tokens"] == tokens}
        if times.get("fast") and times.get("reference"):
            found.append(estimate(tokens, times["fast"], times["reference"], count, shape, rate))
    return found


def model_shape(layer: Layer) -> dict[str, int]:
    """Parameters outside the mixers that take part in matrix products, and the attention layers; from a meta model."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(layer.config)
    mixer = type(layer.mixer)
    mixers = sum(p.numel() for m in model.modules() if isinstance(m, mixer) for p in m.parameters())
    total = sum(p.numel() for p in model.parameters())
    embedding = model.get_input_embeddings().weight.numel()
    head = model.get_output_embeddings()
    tied = head is not None and head.weight is model.get_input_embeddings().weight
    experts = _idle_experts(layer.config, model)
    attention = sum(1 for m in model.modules() if type(m).__name__.endswith("Attention"))
    heads = int(getattr(layer.config, "num_attention_heads", 0) or 0)
    width = int(getattr(layer.config, "head_dim", 0) or (layer.hidden // heads if heads else 0))
    return {
        "total_parameters": total,
        "other_parameters": total - mixers - (0 if tied else embedding) - experts,
        "attention_layers": attention,
        "attention_width": heads * width,
    }


def _idle_experts(config: Any, model: Any) -> int:
    """Parameters of experts that one token does not visit."""
    experts = next((getattr(config, n, None) for n in ("num_experts", "n_routed_experts", "num_local_experts")), None)
    per_token = getattr(config, "num_experts_per_tok", None)
    if not experts or not per_token or experts <= 1:
        return 0
    held = sum(p.numel() for n, p in model.named_parameters() if ".experts." in n)
    return int(held * (1 - per_token / experts))


def matrix_rate(torch: Any, device: Any, size: int = 8192) -> float:
    """Measured FLOP/s of a bf16 matrix product on this GPU."""
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    b = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    median, _first = measure(lambda: torch.matmul(a, b), device)
    return 2.0 * size**3 / (median / 1000)


def estimate(
    tokens: int, fast_ms: float, slow_ms: float, count: int, shape: Mapping[str, int], rate: float
) -> dict[str, Any]:
    """One training step of the whole model: ``count`` measured mixers, and the rest as matrix products. Pure.

    Forward and backward take 6 operations a parameter and token; causal attention adds 6 tokens^2 x width a layer
    (half of the full square, forward once, backward twice). The rest runs at the measured ``rate`` (FLOP/s), which
    flatters it: the true ratio is a little smaller than said when the rest is slower than that.
    """
    work = 6.0 * shape["other_parameters"] * tokens
    work += 6.0 * tokens**2 * shape["attention_width"] * shape["attention_layers"]
    rest = work / rate * 1000
    fast, slow = count * fast_ms + rest, count * slow_ms + rest
    return {
        "tokens": tokens,
        "fast_ms": round(fast, 1),
        "reference_ms": round(slow, 1),
        "rest_ms": round(rest, 1),
        "ratio": round(slow / fast, 2),
        "matrix_tflops": round(rate / 1e12, 1),
        "parameters": shape["total_parameters"],
    }
