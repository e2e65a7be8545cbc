# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 10: forward and backward on the GPU agree with the PyTorch reference, and are faster by the wanted ratio."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..catalogue import entry, provision
from ..finding import Finding
from ..links import BROKEN, DRIFTED, NOT_APPLICABLE, OK, UNKNOWN
from ..look import Look

REPAIR = provision("fast_path")

FITS = entry("proof.ok", OK, "Forward and backward agree with the reference on {gpu}, {ratio} times as fast.", cause="")
NOT_WANTED = entry(
    "proof.not_applicable", NOT_APPLICABLE, "A host without CUDA is wanted; there is nothing to prove.", cause=""
)
NO_GPU = entry(
    "proof.no_gpu",
    UNKNOWN,
    "No GPU here, so nothing was proven.",
    cause="Only a run on a GPU proves the fast path: packages that import rightly have been seen to fail in the first "
    "training step.",
    remedy="Pass a GPU through to the container and run provision again, or set torch_environment_cpu_only if none is "
    "meant.",
    rests_on=(),
)
NEVER = entry(
    "proof.never",
    UNKNOWN,
    "Nobody has proven the fast path on this host's GPU yet.",
    cause="Provision has not run since the GPU is there. The proof runs forward and backward on it, which takes "
    "minutes the first time.",
    remedy=REPAIR,
)
CHANGED = entry(
    "proof.changed",
    DRIFTED,
    "The fast path was proven here, but since then {changes}.",
    cause="Something that the proof depends on was changed after it: a package, the driver, the GPU, the model, the "
    "lengths that are timed, or the conditions of the training job (user, environment, environment files).",
    remedy=REPAIR,
)
SLOWER = entry(
    "proof.slower",
    DRIFTED,
    "The fast path is right, and slower than when it was locked: {figure}",
    cause="The same layer took over 15 % longer in the last proof than in the one that the lock holds: another job "
    "used the GPU, its clock or power is limited, or something that no version shows was changed.",
    remedy="See with nvidia-smi what else runs and at which clock, then: " + REPAIR,
)
FAILED = entry(
    "proof.failed",
    BROKEN,
    "The fast path failed its proof on this GPU: {problem}",
    cause="A kernel computes wrong numbers, raises, or is not faster than the reference with these versions.",
    remedy="Read the sentence, change the versions it names (torch_environment_packages), then: " + REPAIR,
)


def judge(look: Look) -> Iterable[Finding]:
    if look.cpu_only:
        yield NOT_WANTED.finding()
        return
    gpu = look.section("gpu")
    record = look.section("proof").get("record")
    if not gpu.get("module_version") or not any(node["kind"] == "char" for node in gpu.get("nodes") or []):
        yield NO_GPU.finding(evidence="/dev/nvidia*")
    elif not record:
        yield NEVER.finding(evidence=look.section("proof").get("record_file"))
    else:
        yield _recorded(look, record)


def _recorded(look: Look, record: dict[str, Any]) -> Finding:
    then, now = record.get("key") or {}, look.section("proof").get("key") or {}
    # A proof without a key was kept by an older release: nobody can say that it still holds.
    parts = [part for part in {**then, **now} if then.get(part) != now.get(part)]
    if parts:
        moves = [f"{part} went from {then.get(part) or 'none'} to {now.get(part) or 'none'}" for part in parts]
        changes = ", ".join(moves)
        return CHANGED.finding(changes=changes)
    if not record.get("ok"):
        return FAILED.finding(problem=record.get("error") or "no reason was recorded.", evidence=record.get("log"))
    slower = record.get("slower") or []
    if slower:
        return SLOWER.finding(figure=slower[0], observed=slower, evidence=record.get("log"))
    ratio = record.get("ratio")
    return FITS.finding(
        gpu=record.get("gpu") or "the GPU", ratio=f"{float(ratio):.1f}" if ratio else "an unknown number of"
    )
