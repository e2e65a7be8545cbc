# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: bound, right and fast, put together: the proof of one host."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from . import binding, fast, hints, right
from .families import WANTED_RATIO, find_family
from .packages import describe, version_of
from .progress import Progress

SCHEMA = 1
# Seconds for the whole proof of one host, when the request names none. A first one compiles for about two minutes.
LIMIT_S = 900.0
# What the checks may take of the time; what they leave is there for the timing.
_RIGHT_SHARE = 0.6


def prove(
    config: Mapping[str, Any],
    request: Mapping[str, Any],
    stream: Any = None,
    give_up: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """The whole proof. ``state`` and ``sentence`` are the verdict; ``bound``, ``right``, ``fast`` are its parts.

    :param request: ``lengths`` (list of tokens), ``triton_cache`` (folder), ``cpu_only``, ``quick``, ``limit`` (seconds
        of the whole; what did not run by then is unknown), ``jobs`` (threads that compile), ``wanted_ratio`` (the
        family's own by default), ``seed`` (of the random weights and inputs; a fresh one by default).
    :param stream: where each step is said.
    :param give_up: is called, from another thread, with the report as far as it is known, when a step hangs past the
        limit; must end the process.
    """
    report: dict[str, Any] = {"schema": SCHEMA, "gpus": [], "warnings": []}
    seed = request.get("seed")
    report["seed"] = int.from_bytes(os.urandom(4), "big") if seed is None else int(seed)
    report["wanted_ratio"] = _wanted_ratio(config, request)
    cpu_only = bool(request.get("cpu_only"))

    def last_words(reason: str) -> None:
        report["unfinished"] = reason
        if give_up is not None:
            give_up(_conclude(report, cpu_only, progress))

    progress = Progress(float(request.get("limit") or LIMIT_S), stream, last_words)
    folder = request.get("triton_cache")
    if folder:
        # Before triton is imported by anything. What the training job is started with is where it will look.
        os.environ.setdefault("TRITON_CACHE_DIR", str(folder))
    report["triton_cache"] = os.environ.get("TRITON_CACHE_DIR")
    with progress.stage("binding"):
        found = binding.observe(config, progress.write)
    report["binding"] = found
    # Importing torch and transformers is most of a warm proof.
    report["binding_s"] = round(progress.elapsed, 2)
    report["warnings"] += found.get("warnings", [])
    gpu = found.get("gpu") or {}
    if found["state"] != "not_applicable" and found.get("design") not in (None, "unknown") and gpu.get("count"):
        capabilities = [device["capability"] for device in gpu["devices"]]
        known = {**found["packages"], "triton": found["triton"]}
        known.update({n.replace("-", "_"): version_of(n) for n in ("tilelang", "apache-tvm-ffi")})
        report["warnings"] += hints.known_bad(known, capabilities)
        names = sorted({device["name"] for device in gpu["devices"]})
        if len(names) > 1:
            report["warnings"].append(f"This host has different GPUs: {', '.join(names)}.")
        report["unfinished"] = _unwritable(report["triton_cache"])
        for position, device in enumerate(gpu["devices"] if not report["unfinished"] else ()):
            result: dict[str, Any] = {**device, "right": None, "fast": None}
            report["gpus"].append(result)
            left = len(gpu["devices"]) - position
            try:
                _one(config, found, {**request, "seed": report["seed"]}, result, progress, left)
            except Exception as error:
                result["fast"] = {"rows": [], **(result["fast"] or {}), "error": describe(error), "unfinished": None}
    return _conclude(report, cpu_only, progress)


def _wanted_ratio(config: Mapping[str, Any], request: Mapping[str, Any]) -> float:
    family = find_family(config)
    wanted = request.get("wanted_ratio")
    return float(wanted if wanted is not None else family[0].wanted_ratio if family else WANTED_RATIO)


def _unwritable(folder: str | None) -> str | None:
    """Why Triton cannot keep what it compiles in this folder; each kernel would fail by it, and look broken."""
    if not folder:
        return None
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return (
            f"Triton's cache {folder} cannot be written by user {os.geteuid()} ({error.strerror}): make it "
            "writable for this user, or name another folder"
        )


def _conclude(report: dict[str, Any], cpu_only: bool, progress: Progress) -> dict[str, Any]:
    report["seconds"] = round(progress.elapsed, 2)
    report.update(judge(report, cpu_only))
    return report


def _one(
    config: Mapping[str, Any],
    found: Mapping[str, Any],
    request: Mapping[str, Any],
    result: dict[str, Any],
    progress: Progress,
    left: int,
) -> None:
    """Right and fast on one GPU, into ``result``; the first GPU does all, further ones the essential part.

    ``left`` GPUs, this one included, share the time that is left.
    """
    import torch

    lengths = tuple(int(n) for n in request.get("lengths") or fast.LENGTHS)
    quick = bool(request.get("quick")) or result["index"] != found["gpu"]["devices"][0]["index"]
    lengths = lengths[:1] if quick else lengths
    anything = any(f["bound"] for f in found["functions"])
    name, seed = f"cuda:{result['index']}", request["seed"]
    # Triton launches on the current device, whatever device the tensors are on.
    with torch.cuda.device(result["index"]):
        start = progress.elapsed
        refused = None
        if anything:
            result["right"] = {}
            with progress.stage(f"right on GPU {result['index']}", _RIGHT_SHARE / left):
                right.check(config, name, found["functions"], quick, progress, result["right"], seed)
            refused = result["right"]["refused"]
        result["right_s"] = round(progress.elapsed - start, 2)
        start = progress.elapsed
        result["fast"] = {}
        with progress.stage(f"fast on GPU {result['index']}", 1 / left):
            jobs = request.get("jobs")
            fast.check(config, name, lengths, not anything, refused, progress, result["fast"], jobs, seed)
            if anything and not refused and not result["fast"]["unfinished"] and not result["fast"].get("error"):
                torch.cuda.empty_cache()
                right.as_tuned(config, name, lengths, result["right"], progress, seed)
        result["fast_s"] = round(progress.elapsed - start, 2)
        if not result["fast"].get("error"):
            # An error of CUDA stays with the process, and each later call would raise it again.
            torch.cuda.empty_cache()


def judge(report: Mapping[str, Any], cpu_only: bool) -> dict[str, Any]:
    """The verdict over a report: pure. ``{state, sentence, bound, right, fast, remedy}``."""
    found = report.get("binding")
    verdict: dict[str, Any] = {"bound": None, "right": None, "fast": None, "remedy": None}
    if found is None:
        reason = report.get("unfinished") or "the binding was not read"
        return {**verdict, "state": "unknown", "sentence": f"Nothing is known: {reason}."}
    verdict["bound"] = {"ok": True, "absent": False, "broken": False}.get(found["state"])
    if found["state"] == "not_applicable":
        return {**verdict, "state": "not_applicable", "sentence": found["sentence"]}
    if not report["gpus"] and report.get("unfinished"):
        return {**verdict, "state": "unknown", "sentence": f"{found['sentence'].rstrip('.')}; {report['unfinished']}."}
    if not report["gpus"]:
        return {**verdict, **_without_gpu(found, cpu_only)}
    rights = [g["right"] for g in report["gpus"] if g["right"]]
    checks = [c for r in rights for c in r["checks"]]
    failed = [c for c in checks if c["passed"] is False]
    open_ = [part["unfinished"] for part in _parts(report) if part.get("unfinished")]
    # What the watchdog saw is truer than what a part had set before it began.
    open_ = [report["unfinished"]] if report.get("unfinished") else open_
    if rights and failed:
        verdict["right"] = False
    elif rights and not any(r.get("unfinished") for r in rights):
        verdict["right"] = True if any(c["passed"] for c in checks) else None
    fasts = [g["fast"] for g in report["gpus"] if g["fast"]]
    rows = [row for part in fasts for row in part["rows"] if row["path"] == "fast"]
    ratios = [r for part in fasts for r in part.get("ratios", [])]
    training = [r["training"] for r in ratios if r["training"]]
    wanted = report.get("wanted_ratio", WANTED_RATIO)
    untimed = [part["error"] for part in fasts if part.get("error")]
    if rows and not untimed and not any(part.get("unfinished") for part in fasts):
        verdict["fast"] = bool(training) and len(training) == len(rows) and min(training) >= wanted
    crashed = [row for row in rows if row.get("error") and row["error"] not in [c["error"] for c in failed]]
    if crashed:
        verdict["fast"] = False
    parts = [_bound_part(found)]
    if verdict["right"] is not None:
        parts.append(_right_part(failed))
    parts += _uncompared(checks)[:2]
    parts += [f"{row['stage']} of {row['tokens']} tokens fails ({row['error']})" for row in crashed[:1]]
    if untimed and not crashed:
        parts.append(f"the layer could not be timed ({untimed[0]})")
    elif not untimed and (rows or not open_):
        parts.append(_fast_part(rows, ratios, training, wanted))
    parts += open_[:1]
    sentence = "; ".join(p for p in parts if p)
    remedies = [*(c["remedy"] for c in failed), *(row["remedy"] for row in rows)]
    remedies += [hints.remedy(f["error"]) for f in found["functions"] if f["bound"] is False]
    remedies = list(dict.fromkeys(r for r in remedies if r))
    state = found["state"]
    if state == "ok" and (verdict["right"] is False or verdict["fast"] is False or failed):
        state = "broken"
    elif state == "ok" and (open_ or verdict["right"] is None or verdict["fast"] is None):
        state = "unknown"
    elif state == "absent" and failed:
        state = "broken"
    if remedies:
        sentence += ": " + ", and ".join(remedies)
        verdict["remedy"] = ", and ".join(remedies)
    return {**verdict, "state": state, "sentence": sentence[:1].upper() + sentence[1:] + "."}


def _uncompared(checks: list[dict[str, Any]]) -> list[str]:
    """What transformers itself failed, each once; not the long lengths, whose reference may not fit into the memory."""
    # A function that ignores borders makes the whole layer look as if transformers did.
    deaf = any(c["passed"] is False and "packed" in c["title"] for c in checks)
    found = [c for c in checks if c["passed"] is None and c["error"] and not c["title"].endswith("as tuned")]
    found = [c for c in found if not (deaf and "packed" in c["title"])]
    return list(dict.fromkeys(f"{c['title']} was not compared ({c['error']})" for c in found))


def _parts(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts, right and fast, of each GPU, as far as they began."""
    return [gpu[name] for gpu in report["gpus"] for name in ("right", "fast") if gpu[name]]


def _without_gpu(found: Mapping[str, Any], cpu_only: bool) -> dict[str, Any]:
    reason = (found.get("gpu") or {}).get("reason", "no GPU here")
    if cpu_only and found["state"] != "broken":
        # Without a GPU functions may be undecided, and need not be there.
        return {"state": "not_applicable", "sentence": "This host is declared to have no GPU: nothing to prove."}
    if found["state"] in ("broken", "absent", "unknown"):
        return {"state": found["state"], "sentence": found["sentence"]}
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


def _fast_part(rows: list[dict[str, Any]], ratios: list[dict[str, Any]], training: list[float], wanted: float) -> str:
    if not rows:
        return "training would run on the slow path"
    forward = [r["forward"] for r in ratios if r["forward"]]
    words = []
    if forward:
        words.append(f"forward is {_span(forward)} times as fast as the PyTorch reference")
    if training:
        less = f", less than the wanted {wanted:g}" if min(training) < wanted else ""
        words.append(f"training {_span(training)} times{less}")
    return ", ".join(words) or "nothing could be timed"


def _span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
