# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 9, facts: what the model's functions are bound to, from the record while it is true, else asked live.

This is the only part that runs the training interpreter, and it does so in a child with a time limit.
"""

from __future__ import annotations

import os
from typing import Any

from .._fast_path import cache, config
from . import distributions, torch
from .host import STATE, Host

RECORD = f"{STATE}/binding.json"


def observe(host: Host, wishes: dict[str, Any], known: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer of _fast_path.binding.observe, and "source": "record" or "live". {"error": ...} is never in it:
    what went wrong is "problem"."""
    environment = (known or {}).get("torch") or torch.observe(host, wishes)
    python, model, family = environment.get("python"), wishes.get("model"), wishes.get("family")
    name = model if isinstance(model, str) and model else (model or {}).get("model_type") or family
    shown = {"model": name, "example": not model}
    if not model and not family:
        return {**shown, "not_applicable": "no model is named (fast_path_model and fast_path_family are empty)"}
    if not python:
        return {**shown, "problem": "there is no training environment", "transformers": None, "functions": []}
    try:
        loaded = config.load(model, family)
    except config.ConfigError as error:
        version = (environment.get("distributions") or {}).get("transformers")
        return {**shown, "model_problem": str(error), "transformers": version, "functions": []}
    if "transformers" not in (environment.get("distributions") or {}):
        return {**shown, "transformers": None, "functions": []}
    today = key(host, environment, loaded, launch(host, wishes))
    # A record tells of an environment that was whole, and damage to a file inside leaves no trace in its key.
    recorded = None if environment.get("damaged") else cache.believe(host.read_json(RECORD), today)
    source = "record" if recorded else "live"
    found = recorded or ask(python, wishes)
    return {**_facts(found), **shown, "source": source, "key": today, "command": python}


def launch(host: Host, wishes: dict[str, Any]) -> dict[str, Any]:
    """The conditions that the training job is started under."""
    files = [str(path) for path in wishes.get("environment_files") or []]
    return {
        "user": wishes.get("user"),
        "environment": wishes.get("environment") or {},
        "files": {path: host.read(path, 1 << 16) for path in files},
    }


def key(host: Host, environment: dict[str, Any], loaded: dict[str, Any], conditions: dict[str, Any]) -> str:
    """What a record must carry to be believed today."""
    folders = distributions.folders(host, environment["path"], environment["python"])
    return cache.key(environment["python"], loaded, cache.stamps([host.path(folder) for folder in folders]), conditions)


def ask(python: str, wishes: dict[str, Any]) -> dict[str, Any]:
    # Imported when it is needed: it brings the whole package that travels into the training interpreter.
    from .._fast_path import child

    request = {"action": "binding", "model": wishes.get("model"), "family": wishes.get("family")}
    user = wishes.get("user") if os.geteuid() == 0 else None
    timeout, files = float(wishes.get("timeout") or 120), wishes.get("environment_files")
    return child.run(python, request, timeout, user, wishes.get("environment"), files)


def _facts(found: dict[str, Any]) -> dict[str, Any]:
    """The answer without the name "error", which in facts means that a section could not be observed."""
    return {("problem" if name == "error" else name): value for name, value in found.items()}
