# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 10, facts: the record of the last proof on a GPU, its key today, and the lock of a good provision."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from .._fast_path import config
from . import binding, gpu, torch
from .host import STATE, Host

RECORD = f"{STATE}/proof.json"
LOCK = "/etc/proxmox_gpu/training.lock.json"
#: What a proof says something about, besides the GPU and its driver: a change of any of these makes it worthless.
PACKAGES = (
    "torch",
    "triton",
    "transformers",
    "fla-core",
    "flash-linear-attention",
    "causal-conv1d",
    "mamba-ssm",
    "kernels",
    "tilelang",
    "apache-tvm-ffi",
)


def observe(host: Host, wishes: dict[str, Any], known: dict[str, Any] | None = None) -> dict[str, Any]:
    sections = known or {}
    environment = sections.get("torch") or torch.observe(host, wishes)
    devices = sections.get("gpu") or gpu.observe(host, wishes)
    return {
        "record": host.read_json(RECORD),
        "record_file": RECORD,
        "key": {**key(environment, devices), **subject(host, wishes)},
        "lock": host.read_json(LOCK),
        "lock_file": LOCK,
        "lock_exists": host.exists(LOCK),
    }


def subject(host: Host, wishes: dict[str, Any]) -> dict[str, str]:
    """{model, lengths, conditions, ratio}: what was asked of a proof. A digest stands for what is long, or secret."""
    model, family = wishes.get("model"), wishes.get("family")
    name = model if isinstance(model, str) and model else family if not model else "given"
    try:
        loaded: Any = config.load(model, family)
    except config.ConfigError:
        # The binding says so.
        loaded = None
    parts = {
        "model": f"{name} ({_digest(loaded)})",
        "lengths": ", ".join(str(length) for length in wishes.get("proof_lengths") or []),
        "conditions": _digest(binding.launch(host, wishes)),
        "wanted ratio": wishes.get("wanted_ratio"),
    }
    return {part: str(value) for part, value in parts.items() if value not in (None, "")}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def key(environment: dict[str, Any], devices: dict[str, Any]) -> dict[str, str]:
    """{driver, gpus, python, and each package that is installed}: a proof counts while its key equals this one."""
    installed = {**(environment.get("distributions") or {}), "torch": environment.get("version")}
    gpus = sorted(f"{one.get('name')} {one.get('capability') or ''}".strip() for one in devices.get("gpus") or [])
    parts = {
        "driver": devices.get("module_version"),
        "gpus": ", ".join(gpus),
        "python": environment.get("python_version"),
        **{name: installed.get(name) for name in PACKAGES},
    }
    return {name: str(value) for name, value in parts.items() if value}
