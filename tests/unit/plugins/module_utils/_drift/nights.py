# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with a lock, what moved on them, and a fleet of twelve over forty nights, to start a test or a picture from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ansible_collections.proxmox_gpu.training.plugins.action.chain_info import conclude
from ansible_collections.proxmox_gpu.training.plugins.module_utils import _training_lock as lock_of
from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import fleet, verdict
from tests.unit.plugins.module_utils._chain import hosts

Facts = dict[str, Any]
Move = Callable[[Facts], None]
NOW = datetime(2026, 11, 30, 2, 14, tzinfo=UTC).timestamp()
DAY = 86400.0
LINKS = list(fleet.LINKS)


def locked(gpu: bool = False) -> Facts:
    """A provisioned host's facts, with the lock that was made of them."""
    facts = hosts.with_gpu() if gpu else hosts.provisioned()
    made = lock_of.content(conclude(hosts.wishes(), facts, LINKS, "ct200")["facts"], {})
    facts["proof"] = {
        **facts["proof"],
        "lock": made,
        "lock_exists": True,
        "lock_file": "/etc/proxmox_gpu/training.lock.json",
    }
    return facts


def chain(move: Move | None = None, gpu: bool = False, host: str = "ct200", **wishes: Any) -> dict[str, Any]:
    """What chain_info says of a locked host on which something moved."""
    facts = copy.deepcopy(locked(gpu))
    if move:
        move(facts)
    return conclude(hosts.wishes(**wishes), facts, LINKS, host)


def judged(move: Move | None = None, gpu: bool = False, host: str = "ct200", **wishes: Any) -> dict[str, Any]:
    return verdict.judge(host, chain(move, gpu, host, **wishes), NOW)
