# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the records of a binding and of a proof, and what each depends on.

A binding costs an import of torch and transformers (seconds), a proof a run on the GPU (up to minutes). Their records
(/var/lib/proxmox_gpu/binding.json and proof.json) may be believed while their keys equal today's: those are made from
file names, stats and versions, without starting the interpreter.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

SCHEMA = 1
# Import package -> files whose change means that the package was touched.
_WATCHED = ("torch", "transformers", "fla", "causal_conv1d", "mamba_ssm", "kernels", "triton", "einops")
_DISTRIBUTIONS = (
    "torch-",
    "transformers-",
    "fla_core-",
    "flash_linear_attention-",
    "causal_conv1d-",
    "mamba_ssm-",
    "kernels-",
    "triton-",
    "einops-",
    "apache_tvm_ffi-",
    "tilelang-",
)


def stamps(site_packages: list[str]) -> dict[str, list[float]]:
    """Path -> [size, mtime] of what decides a binding in these folders: metadata, package roots, ``.so`` files."""
    found: dict[str, list[float]] = {}
    for folder in site_packages:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            low = name.lower()
            package = low in _WATCHED
            metadata = low.endswith(".dist-info") and low.startswith(_DISTRIBUTIONS)
            compiled = low.endswith(".so") and low.startswith(_WATCHED + ("selective_scan",))
            pointer = low.endswith(".pth") or low.startswith("__editable__")
            if not (package or metadata or compiled or pointer):
                continue
            path = os.path.join(folder, name)
            inner = {True: "__init__.py", False: "RECORD"}[package] if os.path.isdir(path) else ""
            for each in (path, os.path.join(path, inner) if inner else path):
                try:
                    status = os.stat(each)
                except OSError:
                    continue
                found[each] = [status.st_size, status.st_mtime]
    return found


def key(
    python: str, config: Mapping[str, Any], stamped: Mapping[str, Any], launch: Mapping[str, Any] | None = None
) -> str:
    """One hash over what a binding depends on: interpreter, model, package stamps, launch conditions. Pure."""
    content = {"schema": SCHEMA, "python": python, "config": config, "stamps": stamped, "launch": launch or {}}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def record(key_: str, binding: Mapping[str, Any], when: float) -> dict[str, Any]:
    """What is written to binding.json. ``when`` is seconds since the epoch."""
    return {"schema": SCHEMA, "key": key_, "when": when, "binding": dict(binding)}


def believe(recorded: Any, key_: str) -> dict[str, Any] | None:
    """The recorded binding when it still holds; None when it is absent, of another schema, or of another key."""
    if not isinstance(recorded, Mapping) or recorded.get("schema") != SCHEMA or recorded.get("key") != key_:
        return None
    binding = recorded.get("binding")
    return dict(binding) if isinstance(binding, Mapping) else None


def proof_record(report: Mapping[str, Any], figures: list[dict[str, Any]], when: str) -> dict[str, Any]:
    """What is written to proof.json, but for its key. ``when`` is a time as ISO 8601 writes it."""
    names = [str(gpu.get("name")) for gpu in report.get("gpus") or []]
    ratios = [
        ratio["training"]
        for gpu in report.get("gpus") or []
        for ratio in (gpu.get("fast") or {}).get("ratios") or []
        if ratio.get("training")
    ]
    proven = report.get("state") == "ok"
    return {
        "schema": SCHEMA,
        "ok": proven,
        "state": report.get("state", "unknown"),
        "error": None if proven else report.get("sentence") or report.get("error"),
        "gpu": ", ".join(dict.fromkeys(names)) or None,
        "gpus": len(names),
        "ratio": min(ratios) if ratios else None,
        "figures": figures,
        "seconds": report.get("seconds"),
        "when": when,
    }
