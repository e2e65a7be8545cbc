# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: one check's entry in the report: how far off it is, by which bound, or what it raised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from . import hints
from .packages import describe

# Relative error |a - b| / |b| (Frobenius norm over the tensor) that a fast path may have against float32 or float64.
# Measured on an H200 in bf16: 0.005 for outputs, 0.004 to 0.013 for gradients. An accumulation bug gives 0.1 and more.
BOUNDS = {"bfloat16": 0.03, "float16": 0.03}
NOISE = 2.0


def relative(found: Any, wanted: Any) -> float:
    """Norm of the difference over the norm of what is wanted; infinite for NaN or another shape."""
    if found is None or found.shape != wanted.shape:
        return float("inf")
    found, wanted = found.detach().double(), wanted.detach().double()
    value = float((found - wanted).norm() / wanted.norm().clamp_min(1e-12))
    return float("inf") if math.isnan(value) else value


def synchronize(device: Any) -> None:
    """Wait for the GPU, so that an asynchronous error is raised where it belongs."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def entry(
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
        return max(BOUNDS[dtype], NOISE * own if own < 1 else 0.0)

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


def failed(title: str, stage: str, error: BaseException, subject: str = "layer", dtype: str = "") -> dict[str, Any]:
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
