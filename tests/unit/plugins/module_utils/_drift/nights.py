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
from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import fleet, history, verdict
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


def twelve() -> dict[str, Any]:
    """The report on twelve hosts in mixed states after forty nights, each host's ratio of its own."""
    moves = _moves()
    records: list[history.Record] = []
    for night in range(40, -1, -1):
        now = NOW - night * DAY
        found = [_night(host, begin, move, night, now) for host, (begin, move) in moves.items()]
        report = fleet.document(found, records, now, UTC)
        records.append(fleet.record(report, records, now))
    return report


def _night(host: str, begin: int, move: Move | None, night: int, now: float) -> dict[str, Any]:
    """A host's verdict, ``night`` nights ago: its move came ``begin`` nights ago."""
    away = _unreachable if (len(host) * 7 + int(host[-2:]) * 13 + night * 5) % 61 == 0 and night else None
    number = int(host[-2:])
    ratio = 7.4 + 0.18 * number + 0.12 * ((night * 7 + number * 3) % 5) - (1.9 if number == 6 and night < 9 else 0)
    found = verdict.judge(host, chain(away or (move if night <= begin else None), gpu=True, host=host), now)
    if found["result"] == "not_provisioned" or found["lines"][:1] and found["lines"][0]["link"] == "reach":
        ratio = 0.0
    return {**found, "ratio": round(ratio, 2) or None, "proven": datetime.fromtimestamp(now, UTC).isoformat()}


def _moves() -> dict[str, tuple[int, Move | None]]:
    """{host: (how many nights ago, what moved)}."""
    return {
        "pve1-train01": (0, None),
        "pve1-train02": (0, _unheld),
        "pve1-train03": (0, None),
        "pve1-train04": (5, _transformers),
        "pve1-train05": (0, None),
        "pve1-train06": (8, _driver),
        "pve2-train07": (0, _two),
        "pve2-train08": (0, None),
        "pve2-train09": (1, _unreachable),
        "pve2-train10": (0, _mirror),
        "pve2-train11": (40, _bare),
        "pve2-train12": (0, None),
    }


def _unheld(facts: Facts) -> None:
    facts["toolkit"]["packages"]["cuda-nvcc-13-0"]["held"] = False


def _transformers(facts: Facts) -> None:
    facts["torch"]["distributions"] |= {"transformers": "5.18.0", "tokenizers": "0.23.0"}


def _driver(facts: Facts) -> None:
    facts["gpu"]["module_version"] = "590.44.01"


def _two(facts: Facts) -> None:
    _unheld(facts)
    path = "/usr/bin/nvcc"
    other = {"path": path, "realpath": path, "home": "/usr", "version": "11.8.89", "package": None}
    facts["toolkit"]["nvccs"].append(other)
    facts["toolkit"]["default_nvcc"] = other
    facts["compiler"]["gcc"] = "14.2.0"


def _unreachable(facts: Facts) -> None:
    facts["reach"] = {"error": "The node pve2 does not answer: connection timed out after 10 s"}
    for link in LINKS[1:]:
        facts[link] = {"error": "Not observed: the container did not answer."}


def _mirror(facts: Facts) -> None:
    facts["repository"]["network"] = {"error": "no route to host"}


def _bare(facts: Facts) -> None:
    facts["base"] = {"python_missing": True}
    for link in LINKS[2:]:
        facts[link] = {"error": "Not observed: python3 is missing in the container."}
