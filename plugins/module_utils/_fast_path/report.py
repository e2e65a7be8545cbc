# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: a proof as text for a person and as figures for Prometheus. JSON is the report itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STATES = ("ok", "broken", "drifted", "absent", "unknown", "not_applicable")


def text(found: Mapping[str, Any]) -> str:
    """The verdict first, then each function, each check and each figure on a line of its own."""
    lines = [f"{found.get('state', 'unknown')}: {found.get('sentence', '')}"]
    seen = found.get("binding", found)
    if seen.get("layers_sentence"):
        lines += ["", seen["layers_sentence"]]
    if seen.get("transformers"):
        lines.append(f"transformers {seen['transformers']}, torch {seen['torch']}, design: {seen.get('design')}")
    for entry in seen.get("functions", []):
        if isinstance(entry, Mapping):
            word = {True: "bound", False: "SLOW", None: "undecided"}[entry["bound"]]
            detail = entry["implementation"] or entry["error"] or ""
            lines.append(f"  {word:9} {entry['name']:34} {detail}")
    for gpu in found.get("gpus", []):
        lines += ["", f"GPU {gpu['index']}: {gpu['name']} (compute capability {gpu['capability']})"]
        lines += [_check_line(c) for c in (gpu["right"] or {}).get("checks", [])]
        lines += _figures(gpu["fast"] or {})
        lines += [f"  not timed: {gpu['fast']['error']}"] if (gpu["fast"] or {}).get("error") else []
        lines += [f"  unfinished: {p['unfinished']}" for p in (gpu["right"], gpu["fast"]) if p and p.get("unfinished")]
    lines += [f"given up: {found['unfinished']}"] if found.get("unfinished") else []
    lines += [f"warning: {w}" for w in found.get("warnings", [])]
    if found.get("seconds"):
        imports = f", {found['binding_s']} s of it for importing" if found.get("binding_s") else ""
        lines += ["", f"The proof took {found['seconds']} s{imports}."]
        lines += [f"Its random weights and inputs: --seed {found['seed']}"] if found.get("seed") is not None else []
    return "\n".join(lines)


def _check_line(check: Mapping[str, Any]) -> str:
    word = {True: "right", False: "WRONG", None: "untried"}[check["passed"]]
    if check["error"]:
        detail = f"{check['stage']}: {check['error']}"
    else:
        detail = f"error {check['forward_error']:.4f} (bound {check['bound']:g})"
        if check["gradient_error"] is not None:
            detail += f", gradients {check['gradient_error']:.4f} ({check['worst_gradient']}"
            detail += f", bound {check['gradient_bound']:g})"
    return f"  {word:9} {check['dtype']:9} {check['title']}: {detail}"


def _figures(fast: Mapping[str, Any]) -> list[str]:
    lines = []
    for row in fast.get("rows", []):
        training = f"{row['training_ms']:9.2f} ms" if row["training_ms"] else f"{'-':>12}"
        forward = f"{row['forward_ms']:9.2f} ms" if row["forward_ms"] else f"{'-':>12}"
        lines.append(
            f"  {row['path']:9} {row['tokens']:6} tokens: forward {forward}, with backward {training}, "
            f"{row['tokens_per_s'] or 0:8} tokens/s, peak {row['peak_bytes'] / 1e9:.2f} GB, "
            f"warm-up {row['warm_up_s']:.1f} s" + (f"; {row['stage']}: {row['error']}" if row["error"] else "")
        )
    for ratio in fast.get("ratios", []):
        lines.append(f"  {ratio['tokens']} tokens: forward {ratio['forward']} x, training {ratio['training']} x")
    for model in fast.get("model") or []:
        if "ratio" in model:
            lines.append(
                f"  whole model ({model['parameters'] / 1e9:.1f} G parameters), {model['tokens']} tokens: the slow "
                f"path would cost {model['ratio']} x per step "
                f"({model['reference_ms']:.0f} instead of {model['fast_ms']:.0f} ms)"
            )
    return lines


def prometheus(found: Mapping[str, Any], slower: list[str] | None = None) -> str:
    """The text format that node_exporter's textfile collector reads. Units in the names: seconds, bytes.

    ``slower`` is what was found to take longer than before, where something was compared.
    """
    out: dict[str, list[str]] = {}

    def add(metric: str, value: Any, **labels: Any) -> None:
        if value is not None:
            words = ",".join(f'{k}="{_escape(v)}"' for k, v in labels.items())
            shown = f"{{{words}}}" if words else ""
            out.setdefault(metric, []).append(f"proxmox_gpu_{metric}{shown} {float(value):g}")

    for state in _STATES:
        add("fast_path_state", int(found.get("state") == state), state=state)
    seen = found.get("binding", found)
    for entry in seen.get("functions", []):
        if isinstance(entry, Mapping) and entry["bound"] is not None:
            add("fast_path_bound", int(entry["bound"]), function=entry["name"], distribution=entry["distribution"])
    for gpu in found.get("gpus", []):
        where = {"gpu": gpu["index"], "name": gpu["name"]}
        if gpu["right"] and gpu["right"]["passed"] is not None:
            add("fast_path_right", int(gpu["right"]["passed"]), **where)
        for row in (gpu["fast"] or {}).get("rows", []):
            labels = {**where, "path": row["path"], "tokens": row["tokens"]}
            for key, stage in (("forward_ms", "forward"), ("training_ms", "training")):
                add("fast_path_layer_seconds", row[key] / 1000 if row[key] else None, stage=stage, **labels)
            add("fast_path_peak_bytes", row["peak_bytes"], **labels)
            add("fast_path_tokens_per_second", row["tokens_per_s"], **labels)
            add("fast_path_warm_up_seconds", row["warm_up_s"], **labels)
        for ratio in (gpu["fast"] or {}).get("ratios", []):
            for stage in ("forward", "training"):
                add("fast_path_ratio", ratio[stage], stage=stage, tokens=ratio["tokens"], **where)
        for model in (gpu["fast"] or {}).get("model") or []:
            add("fast_path_model_ratio", model.get("ratio"), tokens=model.get("tokens"), **where)
    add("fast_path_proof_seconds", found.get("seconds"))
    add("fast_path_slower", None if slower is None else len(slower))
    help_texts = {
        "fast_path_state": "1 for the state of the proof.",
        "fast_path_bound": "1 when the function is bound to its fast implementation.",
        "fast_path_right": "1 when forward and backward agree with the reference on this GPU.",
        "fast_path_layer_seconds": "Median time of one layer.",
        "fast_path_peak_bytes": "Peak GPU memory of one layer's step.",
        "fast_path_tokens_per_second": "Tokens per second of one layer, forward and backward.",
        "fast_path_warm_up_seconds": "Time of compiling and tuning before a layer was timed.",
        "fast_path_model_ratio": "What a step of the whole model would cost on the slow path, over the fast path.",
        "fast_path_proof_seconds": "Time of the whole proof.",
        "fast_path_slower": "Number of figures that got slower than when they were locked.",
        "fast_path_ratio": "Time of the PyTorch reference over time of the fast path.",
    }
    lines = []
    for name, values in out.items():
        lines += [f"# HELP proxmox_gpu_{name} {help_texts[name]}", f"# TYPE proxmox_gpu_{name} gauge", *values]
    return "\n".join(lines) + "\n"


def _escape(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def figures(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures that a lock file keeps: one entry a GPU, path, length and stage, in milliseconds."""
    kept = []
    for gpu in found.get("gpus", []):
        for row in (gpu["fast"] or {}).get("rows", []):
            for stage in ("forward", "training"):
                if row["path"] == "fast" and row[stage + "_ms"]:
                    kept.append(
                        {"gpu": gpu["name"], "index": gpu["index"], "tokens": row["tokens"], "stage": stage}
                        | {"ms": row[stage + "_ms"]}
                    )
    return kept


def slower(before: list[dict[str, Any]], now: list[dict[str, Any]], limit: float = 0.15) -> list[str]:
    """One sentence a figure that got slower by more than ``limit`` on the same model of GPU, length and stage."""

    def key(figure: Mapping[str, Any]) -> tuple[Any, ...]:
        return figure["gpu"], figure["index"], figure["tokens"], figure["stage"]

    old = {key(f): f["ms"] for f in before}
    found = []
    for figure in now:
        was = old.get(key(figure))
        if was and figure["ms"] > was * (1 + limit):
            found.append(
                f"{figure['stage']} of {figure['tokens']} tokens on GPU {figure['index']} takes {figure['ms']:.2f} ms, "
                f"{(figure['ms'] / was - 1) * 100:.0f} % more than the {was:.2f} ms that were proven."
            )
    return found
