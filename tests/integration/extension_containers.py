# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers that build the tiny CUDA extension of the tests, and what the tests look at in them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests import prepared
from tests.integration import role_runs, tiny_extension
from tests.integration.box import Box, Container

ROLE = "cuda_extensions"
SITE = "/opt/training/lib/python3.11/site-packages"
RECORD = f"{SITE}/tiny_gpu_ops-1.0.dist-info/proxmox_gpu.json"
HOUSE = "/var/cache/proxmox_gpu/wheelhouse"
LOG = "/var/log/proxmox_gpu/tiny-gpu-ops.log"
STATUS = "/run/proxmox_gpu/tiny-gpu-ops.json"
IMPORT = "/opt/training/bin/python -I -c 'import torch, tiny_gpu_ops; print(tiny_gpu_ops.add_one)'"
REMOVE = "/opt/training/bin/python -m pip uninstall -qy tiny-gpu-ops"
BUILT = f"extensions-tests-built-{os.getpid()}"  # of this run, for a box that stays up


def started(box: Box, *vmids: int, options: tuple[str, ...] = (), snapshot: str | None = None) -> list[Container]:
    """Containers with the toolkit (or from a snapshot) and the extension's source archive."""
    source = snapshot or prepared.snapshot("toolkit")
    containers = [box.container(vmid).fresh("--from", source, *options) for vmid in vmids]
    for container in containers:
        tiny_extension.put(container)
    return containers


def built(box: Box, vmid: int, *options: str) -> Container:
    """A container in which the role has built and installed the extension."""
    if BUILT not in box.status()["snapshots"]:
        (container,) = started(box, vmid)
        outcome = role_runs.run_one(ROLE, container, tiny_extension.variables(), timeout=900)
        assert outcome.sentence == "", outcome.result.output
        container.snapshot(BUILT)
    return box.container(vmid).fresh("--from", BUILT, *options)


@contextmanager
def gone_afterwards(box: Box, vmids: tuple[int, ...]) -> Iterator[None]:
    """Those of these containers that were made meanwhile are removed."""
    before = set(box.status()["containers"])
    yield
    if made := sorted({str(vmid) for vmid in vmids} & set(box.status()["containers"]) - before):
        box.testbed("remove", ",".join(made))


def installed_targets(container: Container) -> list[str]:
    found = json.loads(container.run("cat /var/lib/proxmox_gpu/extensions/tiny-gpu-ops.json"))
    return [target for module in found["modules"] for target in module["gpu_targets"]]


def wait_for(container: Container, phase: str) -> dict[str, Any]:
    """The status of the running build, once it is in this phase."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        text = container.attach(f"cat {STATUS} 2>/dev/null").stdout
        if phase in text:
            found: dict[str, Any] = json.loads(text)
            return found
        time.sleep(0.5)
    raise AssertionError(f"the build in {container.vmid} never came to: {phase}")
