# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: bound, right and fast, put together: the proof of one host."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from . import binding, fast, hints, right
from .packages import version_of

SCHEMA = 1
# A fast path that gains less than this in training is none.
WANTED_RATIO = 1.5


def prove(config: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """The whole proof. ``state`` and ``sentence`` are the verdict; ``bound``, ``right``, ``fast`` are its parts.

    :param request: ``lengths`` (list of tokens), ``triton_cache`` (folder), ``cpu_only``, ``quick``.
    """
    started = time.monotonic()
    folder = request.get("triton_cache")
    if folder:
        # Before triton is imported by anything.
        os.environ["TRITON_CACHE_DIR"] = str(folder)
    found = binding.observe(config)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "binding": found,
        "gpus": [],
        "triton_cache": os.environ.get("TRITON_CACHE_DIR"),
        "warnings": list(found.get("warnings", [])),
    }
    gpu = found.get("gpu") or {}
    if found["state"] != "not_applicable" and found.get("design") not in (None, "unknown") and gpu.get("count"):
        report["gpus"] = [_one(config, device, found, request, whole=i == 0) for i, device in enumerate(gpu["devices"])]
        capabilities = [device["capability"] for device in gpu["devices"]]
        known = {**found["packages"], "triton": found["triton"]}
        known.update({n.replace("-", "_"): version_of(n) for n in ("tilelang", "apache-tvm-ffi")})
        report["warnings"] += hints.known_bad(known, capabilities)
        names = sorted({device["name"] for device in gpu["devices"]})
        if len(names) > 1:
            report["warnings"].append(f"This host has different GPUs: {', '.join(names)}.")
    report["seconds"] = round(time.monotonic() - started, 2)
    report.update(judge(report, bool(request.get("cpu_only"))))
    return report


def _one(
    config: Mapping[str, Any],
    device: Mapping[str, Any],
    found: Mapping[str, Any],
    request: Mapping[str, Any],
    whole: bool,
) -> dict[str, Any]:
    """Right and fast on one GPU; the first one does all, further ones the essential part."""
    import torch

    lengths = tuple(int(n) for n in request.get("lengths") or fast.LENGTHS)
    quick = bool(request.get("quick")) or not whole
    anything = any(f["bound"] for f in found["functions"])
    name = f"cuda:{device['index']}"
    result: dict[str, Any] = {**device, "right": None, "fast": None}
    # Triton launches on the current device, whatever device the tensors are on.
    with torch.cuda.device(device["index"]):
        start = time.monotonic()
        if anything:
            result["right"] = right.check(config, name, found["functions"], quick)
        result["right_s"] = round(time.monotonic() - start, 2)
        start = time.monotonic()
        result["fast"] = fast.check(config, name, lengths[:1] if quick else lengths, reference_only=not anything)
        result["fast_s"] = round(time.monotonic() - start, 2)
        torch.cuda.empty_cache()
    return result


def judge(report: Mapping[str, Any], cpu_only: bool) -> dict[str, Any]:
    """The verdict over a report: pure. ``{state, sentence, bound, right, fast, remedy}``."""
    found = report["binding"]
    bound = {"ok": True, "absent": False, "broken": False}.get(found["state"])
    verdict: dict[str, Any] = {"bound": bound, "right": None, "fast": None, "remedy": None}
    if found["state"] == "not_applicable":
        return {**verdict, "state": "not_applicable", "sentence": found["sentence"]}
    if not report["gpus"]:
        return {**verdict, **_without_gpu(found, cpu_only)}
    rights = [g["right"] for g in report["gpus"] if g["right"]]
    failed = [c for r in rights for c in r["checks"] if c["passed"] is False]
    if rights:
        verdict["right"] = not failed if any(r["passed"] is not None for r in rights) else None
    rows = [row for g in report["gpus"] for row in g["fast"]["rows"] if row["path"] == "fast"]
    ratios = [r for g in report["gpus"] for r in g["fast"].get("ratios", [])]
    training = [r["training"] for r in ratios if r["training"]]
    if rows:
        verdict["fast"] = bool(training) and len(training) == len(rows) and min(training) >= WANTED_RATIO
    parts = [_bound_part(found)]
    if verdict["right"] is not None:
        parts.append(_right_part(failed))
    parts.append(_fast_part(rows, ratios, training))
    sentence = "; ".join(p for p in parts if p)
    remedies = [*(c["remedy"] for c in failed), *(row["remedy"] for row in rows)]
    remedies += [hints.remedy(f["error"]) for f in found["functions"] if f["bound"] is False]
    remedies = list(dict.fromkeys(r for r in remedies if r))
    state = found["state"]
    if state == "ok" and (verdict["right"] is False or verdict["fast"] is False or failed):
        state = "broken"
    elif state == "ok" and (verdict["right"] is None or verdict["fast"] is None):
        state = "unknown"
    elif state == "absent" and failed:
        state = "broken"
    if remedies:
        sentence += ": " + ", and ".join(remedies)
        verdict["remedy"] = ", and ".join(remedies)
    return {**verdict, "state": state, "sentence": sentence[:1].upper() + sentence[1:] + "."}


def _without_gpu(found: Mapping[str, Any], cpu_only: bool) -> dict[str, Any]:
    reason = (found.get("gpu") or {}).get("reason", "no GPU here")
    if found["state"] in ("broken", "absent", "unknown"):
        return {"state": found["state"], "sentence": found["sentence"]}
    if cpu_only:
        return {"state": "not_applicable", "sentence": "This host is declared to have no GPU: nothing to prove."}
    return {
        "state": "unknown",
        "sentence": f"{found['sentence'].rstrip('.')}, but no GPU here can prove it ({reason}).",
    }


def _bound_part(found: Mapping[str, Any]) -> str:
    entries = found["functions"]
    slow = [f["name"] for f in entries if f["bound"] is False]
    if not slow:
        return f"all {len(entries)} functions are bound" if found["state"] == "ok" else found["sentence"].rstrip(".")
    error = next(f["error"] for f in entries if f["bound"] is False)
    if len(slow) == len(entries):
        return f"none of {len(entries)} functions is bound ({error})"
    return f"{len(entries) - len(slow)} of {len(entries)} functions are bound, {', '.join(slow)} not ({error})"


def _right_part(failed: list[dict[str, Any]]) -> str:
    """Which of forward and backward is right; the first exception or the worst error of each."""
    if not failed:
        return "forward and backward are right"
    raised = [c for c in failed if c["error"]]
    packed = [c for c in failed if not c["error"] and "packed" in c["title"]]
    wrong = [c for c in failed if not c["error"] and c not in packed]
    backward = [c for c in raised if c["stage"] == "backward"]
    words = []
    for check in [c for c in raised if c not in backward][:1]:
        words.append(f"{check['title']} fails in {check['stage']} ({check['error']})")
    if wrong:
        worst = max(wrong, key=lambda c: max(c["forward_error"] or 0, c["gradient_error"] or 0))
        size, bound = max(
            (worst["forward_error"] or 0, worst["bound"]), (worst["gradient_error"] or 0, worst["gradient_bound"] or 0)
        )
        words.append(f"{worst['title']} in {worst['dtype']} is wrong by {size:.3g} (bound {bound:g})")
    if backward:
        words += [] if words else ["forward is right"]
        words.append(f"backward refuses ({backward[0]['error']})")
    if packed:
        words += [] if words else ["forward and backward are right"]
        words.append("but packed sequences influence each other")
    return ", ".join(words)


def _fast_part(rows: list[dict[str, Any]], ratios: list[dict[str, Any]], training: list[float]) -> str:
    if not rows:
        return "training would run on the slow path"
    forward = [r["forward"] for r in ratios if r["forward"]]
    words = []
    if forward:
        words.append(f"forward is {_span(forward)} times as fast as the PyTorch reference")
    if training:
        words.append(f"training {_span(training)} times")
    return ", ".join(words) or "nothing could be timed"


def _span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
