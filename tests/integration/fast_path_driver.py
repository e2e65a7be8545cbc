# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in a training interpreter: asks for the binding of many families under many conditions, each in its own fork.

What is slow to import and has nothing to do with the fast path (torch, transformers' base) is imported once, with the
folder ``start`` on the path, as it would be in a training job that has those packages. A fork then replaces that folder
by its scenario's, and may claim a GPU. Request on stdin, answer on stdout, both JSON; see test_fast_path_matrix.py.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import types


def claim_gpu() -> None:
    """From here on this process CLAIMS to see an H200: releases up to 5.14 bind nothing where they see no GPU."""
    import torch

    properties = types.SimpleNamespace(name="a claimed NVIDIA H200", major=9, minor=0, total_memory=1 << 37)
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda index: properties
    torch.version.cuda = "13.0"


def scenario(wanted: dict) -> dict:
    from _fast_path import binding, families

    if wanted.get("site"):
        sys.path[0] = wanted["site"]
        importlib.invalidate_caches()
    if wanted["gpu"]:
        claim_gpu()
    return {name: binding.observe(families.EXAMPLES[name]) for name in wanted["families"]}


def layers(names: list[str]) -> dict:
    """How many mixers a model has that transformers builds itself from the built-in config: {family: number}."""
    import torch
    from _fast_path import binding, families
    from transformers import AutoModelForCausalLM

    counts = {}
    for name in names:
        family = families.FAMILIES[name]
        try:
            config = binding.text_config(families.EXAMPLES[name])
        except binding.NotSupported:
            continue
        try:
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config)
        except Exception as error:
            counts[name] = f"{type(error).__name__}: {error}"
            continue
        counts[name] = sum(type(module).__name__ == family.mixer for module in model.modules())
    return counts


def forked(work, *arguments):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.dup2(2, 1)
        try:
            answer = {"answer": work(*arguments)}
        except BaseException as error:
            answer = {"raised": f"{type(error).__name__}: {error}"}
        with os.fdopen(write, "w") as stream:
            json.dump(answer, stream, default=str)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return json.loads(text or '{"raised": "the fork died"}')


def main() -> None:
    request = json.load(sys.stdin)
    kept = os.dup(1)
    os.dup2(2, 1)
    sys.path[:0] = [request["start"], request["archive"], *request["overlay"]]
    os.environ.update(request["environment"])
    import torch  # noqa: F401
    import transformers  # noqa: F401

    for name in ("modeling_utils", "generation", "cache_utils", "masking_utils", "modeling_rope_utils"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"transformers.{name}")
    found = {one["name"]: forked(scenario, one) for one in request["scenarios"]}
    if request.get("count"):
        found["count"] = forked(layers, request["count"])
    with os.fdopen(kept, "w") as stream:
        json.dump(found, stream)


if __name__ == "__main__":
    main()
