# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""When the nightly check may use the GPU for a proof, and what came of it. Pure.

It must never disturb a training: a proof is made once in a while, on a host where nothing moved, and only when
nvidia-smi says that nobody computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .._chain.catalogue import provision
from .verdict import DRIFT, UNKNOWN_RESULT, Line, line

NOTHING, RUN, BUSY = "nothing", "run", "busy"
#: What an idle GPU shows at most: a display or a monitor uses a little.
IDLE_UTILIZATION, IDLE_MIB = 5, 1024


def newest(chain: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """The latest proof: provision's record on the host, or the one that a night kept on the control node."""
    record = _section(chain, "proof").get("record") or {}
    return dict(max(record, kept, key=lambda one: _seconds(one.get("when"))))


def step(
    chain: Mapping[str, Any], judged: Mapping[str, Any], last: Mapping[str, Any], mode: str, age: float, now: float
) -> str:
    """RUN a proof, or say that it is due and the GPU BUSY, or NOTHING."""
    gpus = _section(chain, "gpu").get("gpus")
    fresh = mode == "weekly" and now - _seconds(last.get("when")) < age
    if mode == "never" or fresh or not gpus or judged["result"] not in ("ok",):
        return NOTHING
    return RUN if _idle(chain) else BUSY


def _idle(chain: Mapping[str, Any]) -> bool:
    load = _section(chain, "gpu").get("load")
    if not load:
        return False
    quiet = load["utilization"] <= IDLE_UTILIZATION and load["memory_mib"] <= IDLE_MIB
    return quiet and not load["processes"]


def busy(chain: Mapping[str, Any]) -> Line:
    load = _section(chain, "gpu").get("load")
    if load:
        use = f"{load['processes']} processes, {load['utilization']} % used, {load['memory_mib']} MiB of memory"
        told = f"busy, proof skipped: the GPU is in use ({use})."
    else:
        told = "busy or not, nobody can tell (nvidia-smi does not answer), so the proof was skipped."
    return line(UNKNOWN_RESULT, "proof", "proof", "proven", told, None, "nvidia-smi", "proof.busy")


def arguments(chain: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """Options of fast_path_info for a short proof, measured by the lock's figures."""
    wish = (chain.get("desired") or {}).get("fast_path") or {}
    lock = _section(chain, "proof").get("lock") or {}
    given = {
        "action": "proof",
        "quick": True,
        "python": _section(chain, "torch").get("python"),
        "model": wish.get("model") or None,
        "family": wish.get("family"),
        "user": wish.get("training_user"),
        "environment": wish.get("environment") or {},
        "environment_files": wish.get("environment_files") or [],
        "lengths": wish.get("proof_lengths"),
        "wanted_ratio": wish.get("wanted_ratio"),
        "triton_cache": wish.get("triton_cache") or None,
        "baseline": (lock.get("proof") or {}).get("figures") or [],
        "timeout": timeout,
    }
    return {name: value for name, value in given.items() if value is not None}


def lines(answer: Mapping[str, Any], chain: Mapping[str, Any]) -> list[Line]:
    """What a proof that was just made says."""
    repair = provision("fast_path")
    if answer.get("failed") or answer.get("state") in (None, "unknown", "absent"):
        told = str(answer.get("sentence") or answer.get("msg") or "The proof gave no answer.")
        return [line(UNKNOWN_RESULT, "proof", "proof", "proven", told, repair, None, "proof.not_made")]
    if answer["state"] not in ("ok", "not_applicable"):
        return [
            line(DRIFT, "proof", "fast path on the GPU", "right", str(answer["sentence"]), repair, None, "proof.failed")
        ]
    slower = answer.get("slower") or []
    if slower:
        remedy = f"See with nvidia-smi what else runs and at which clock, then: {repair}"
        return [
            line(DRIFT, "proof", "speed of the fast path", "as locked", str(slower[0]), remedy, None, "proof.slower")
        ]
    return []


def pending_driver(loaded: str, on_disk: str) -> list[Line]:
    """The line about a node whose next boot loads another driver than the containers' libraries are for."""
    if not on_disk or on_disk == loaded:
        return []
    now = f"{on_disk} is installed and not yet loaded; the node's next reboot breaks the GPU here"
    remedy = f"Reboot the node when it suits, then: {provision('gpu_passthrough')}"
    return [
        line(DRIFT, "gpu", "driver on the node", f"{loaded}", now, remedy, "modinfo -F version nvidia", "gpu.pending")
    ]


def _section(chain: Mapping[str, Any], link: str) -> Mapping[str, Any]:
    found = (chain.get("facts") or {}).get(link)
    return found if isinstance(found, Mapping) and not found.get("error") else {}


def _seconds(when: Any) -> float:
    try:
        return datetime.fromisoformat(str(when)).timestamp()
    except ValueError:
        return 0.0
