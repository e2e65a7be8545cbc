# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 8: each wanted extension is installed from a wheel whose key equals today's, and its compiled part is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..catalogue import entry, provision
from ..finding import Finding
from ..links import ABSENT, BROKEN, DRIFTED, NOT_APPLICABLE, OK, UNKNOWN
from ..look import Look
from ..tables import gpus
from ..versions import plain, satisfies

ROLE = "cuda_extensions"
REPAIR = provision(ROLE)

FITS = entry("extensions.ok", OK, "{name} {version}, built for this torch, CUDA and Python.", cause="")
BY_HAND = entry(
    "extensions.by_hand",
    OK,
    "{name} {version} was not installed by these roles, and loads in the training environment.",
    cause="The extension was installed by hand; there is no record of what it was built against, but it works.",
)
NONE_WANTED = entry("extensions.none_wanted", NOT_APPLICABLE, "No compiled extension is wanted: {reason}.", cause="")
ABSENT_EXTENSION = entry(
    "extensions.absent",
    ABSENT,
    "{name} is not installed in the training environment, so the layers that need it run on PyTorch's own code.",
    cause="It was never built (its build needs nvcc and runs for minutes), or an installation removed it.",
    remedy=REPAIR,
)
VERSION_DIFFERS = entry(
    "extensions.version_differs",
    DRIFTED,
    "{name} {version} is installed, and {wanted} is wanted (cuda_extensions_wanted).",
    cause="The wish was changed, or another installation moved the package.",
    remedy=REPAIR,
)
UNRECORDED = entry(
    "extensions.unrecorded",
    UNKNOWN,
    "{name} {version} is installed, but nobody recorded which torch, CUDA and Python it was built for.",
    cause="It was installed by hand or by another tool, or its record was deleted.",
    remedy=REPAIR,
)
STALE = entry(
    "extensions.stale",
    DRIFTED,
    "{name} {version} was built for another set ({changes}), so it may not load, or crash.",
    cause="torch, CUDA, Python or the wanted GPU targets changed after the build.",
    remedy=REPAIR,
)
MODULE_MISSING = entry(
    "extensions.module_missing",
    BROKEN,
    "{name} {version} is installed without its compiled part ({modules}), so importing it fails or runs slow code.",
    cause="The file was deleted, or the package was built with its CUDA part switched off.",
    remedy=REPAIR,
)
MODULE_EXCHANGED = entry(
    "extensions.module_damaged",
    BROKEN,
    "{file}, the compiled part of {name} {version}, is not the file that was built here any more, so importing it may "
    "fail ('undefined symbol') or crash.",
    cause="The disk was full, somebody copied a file over it, or another installation wrote there without a record.",
    remedy=REPAIR,
)
TARGET_MISSING = entry(
    "extensions.gpu_target_missing",
    BROKEN,
    "{name} {version} holds machine code for {targets} only, and this GPU is of compute capability {capability}: the "
    "first call ends in 'no kernel image is available'.",
    cause="The wheel was built for other GPUs.",
    remedy=REPAIR,
)

TARGETS_DIFFER = entry(
    "extensions.gpu_targets_differ",
    DRIFTED,
    "{name} {version} holds machine code for {targets}, and {wanted} is wanted as well (cuda_extensions_gpu_targets).",
    cause="The wish was changed after the build.",
    remedy=REPAIR,
)


def judge(look: Look) -> Iterable[Finding]:
    reason = look.nothing_to_compile
    if reason:
        yield NONE_WANTED.finding(reason=reason)
        return
    for wanted in look.wanted_extensions:
        yield _judge_one(look, wanted)


def installed(look: Look, name: str) -> dict[str, Any]:
    """The facts of one extension, however its name is written; {} when it is not installed."""
    for key, value in look.section("extensions").items():
        if isinstance(value, dict) and plain(key) == plain(name) and value.get("version"):
            return value
    return {}


def works_by_itself(look: Look) -> bool:
    """Whether every wanted extension is installed with its compiled part and loads, recorded or not."""
    findings = [_judge_one(look, wanted) for wanted in look.wanted_extensions]
    return bool(findings) and all(finding.holds for finding in findings)


def _judge_one(look: Look, wanted: dict[str, Any]) -> Finding:
    name = wanted["name"]
    facts = installed(look, name)
    if not facts:
        return ABSENT_EXTENSION.finding(
            name=name,
            expected=wanted["version"] or "any version",
            observed="none",
            evidence=look.section("torch").get("site_packages"),
        )
    version = facts["version"]
    words = {"name": name, "version": version}
    gone = [module["name"] for module in facts.get("modules") or [] if not module.get("exists")]
    if gone:
        return MODULE_MISSING.finding(modules=", ".join(gone), evidence=facts.get("location"), **words)
    damaged = [one for one in facts.get("modules") or [] if one.get("exchanged") or one.get("problem")]
    if damaged and facts.get("record"):
        file = damaged[0]["file"]
        return MODULE_EXCHANGED.finding(file=file.rpartition("/")[2], evidence=file, **words)
    if wanted["version"] and not satisfies(version, wanted["version"]) and _must_match(look, facts):
        return VERSION_DIFFERS.finding(wanted=wanted["version"], expected=wanted["version"], observed=version, **words)
    missing = _missing_target(look, facts)
    if missing:
        return TARGET_MISSING.finding(targets=", ".join(missing[1]), capability=missing[0], **words)
    unwanted = _lacking_wanted(look, facts)
    if unwanted:
        return TARGETS_DIFFER.finding(targets=", ".join(unwanted[1]), wanted=unwanted[0], **words)
    return _recorded(look, facts, words)


def _must_match(look: Look, facts: dict[str, Any]) -> bool:
    """A default of the roles is no wish of the person's: what was installed by hand is left alone then."""
    return look.explicit(ROLE, "wanted") or bool(facts.get("record"))


def _missing_target(look: Look, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    for module in facts.get("modules") or []:
        targets = [str(target) for target in module.get("gpu_targets") or []]
        for capability in look.capabilities:
            if targets and not any(gpus.cubin_runs(target, capability) for target in targets):
                return capability, targets
    return None


def _lacking_wanted(look: Look, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    """(a wanted GPU target, the targets there are) when somebody asked for a target that a module lacks."""
    wanted = look.wish(ROLE, "gpu_targets", []) if look.explicit(ROLE, "gpu_targets") else []
    for module in facts.get("modules") or []:
        targets = [str(target) for target in module.get("gpu_targets") or []]
        for target in wanted:
            if targets and gpus.dotted(target) not in [gpus.dotted(have) for have in targets]:
                return str(target), targets
    return None


def _recorded(look: Look, facts: dict[str, Any], words: dict[str, Any]) -> Finding:
    record = facts.get("record")
    if not record:
        return BY_HAND.finding(**words) if _loads(look, words["name"]) else UNRECORDED.finding(**words)
    then, now = record.get("key") or {}, facts.get("key") or {}
    parts = sorted(part for part in {**then, **now} if then.get(part) != now.get(part))
    if parts:
        changes = ", ".join(f"{part} was {_short(then.get(part))}, is {_short(now.get(part))}" for part in parts)
        return STALE.finding(changes=changes, expected=then, observed=now, evidence=facts.get("location"), **words)
    return FITS.finding(evidence=facts.get("location"), **words)


def _loads(look: Look, name: str) -> bool:
    """Whether the training interpreter imported this package: one of its functions is bound to it."""
    functions = look.section("binding").get("functions") or []
    return any(plain(item.get("package")) == plain(name) and item.get("bound") for item in functions)


def _short(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "+".join(str(item) for item in value) or "none"
    return str(value) if value not in (None, "") else "none"
