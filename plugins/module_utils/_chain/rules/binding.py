# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 9: every function that the model's layers call is bound to its fast implementation in the training interpreter."""

from __future__ import annotations

from typing import Any, Iterable, Optional

from ..catalogue import entry, provision
from ..finding import Finding
from ..links import ABSENT, BROKEN, DRIFTED, NOT_APPLICABLE, OK, UNKNOWN
from ..look import Look
from ..tables import bad_pairs, transformers_releases
from ..versions import satisfies

REPAIR = provision("fast_path")
ENVIRONMENT = provision("torch_environment")

FITS = entry("binding.ok", OK, "All {count} functions of {model} are bound to their fast implementation.", cause="")
NOT_USED = entry("binding.not_applicable", NOT_APPLICABLE, "No fast path is to be judged: {reason}.", cause="")
NO_TRANSFORMERS = entry(
    "binding.no_transformers",
    ABSENT,
    "transformers is not installed in {path}, so the model {model} cannot be looked at.",
    cause="The environment was made without it, or the variable torch_environment_path names another place.",
    remedy=ENVIRONMENT,
)
SLOW = entry(
    "binding.slow",
    BROKEN,
    "{layers} run on the PyTorch fallback: {functions} {verb} not bound to the fast implementation ({why}).",
    cause="A package that the functions come from is missing, too old, broken, or not in this environment; transformers "
    "falls back without failing.",
    remedy="ansible-playbook proxmox_gpu.training.provision -l HOST",
)
UNKNOWN_DESIGN = entry(
    "binding.unknown_design",
    UNKNOWN,
    "How transformers {version} binds its fast path is not known to this collection, so nothing is said about it.",
    cause="The release is newer than the collection's table, or binds in a way that it has not seen.",
    remedy="Upgrade the collection, or use a transformers release from 4.57 to 5.24.",
)
MODEL_UNREADABLE = entry(
    "binding.model_unreadable",
    UNKNOWN,
    "The model {model} (fast_path_model) could not be read: {problem}.",
    cause="The path is not a config.json or a folder that holds one, or its architecture is unknown to this transformers.",
    remedy="Correct fast_path_model, then: " + REPAIR,
)
CRASHED = entry(
    "binding.failed",
    UNKNOWN,
    "The training interpreter could not be asked: {problem}.",
    cause="Importing torch or transformers failed, was killed, or took too long.",
    remedy=ENVIRONMENT,
)
KERNELS_RANGE = entry(
    "binding.kernels_out_of_range",
    DRIFTED,
    "kernels {have} is installed, and transformers {version} takes {range} only, so loading a model that uses hub kernels "
    "fails or falls back.",
    cause="Each transformers release accepts one narrow range of the kernels package.",
    remedy="Pin kernels{range} in torch_environment_packages, then: " + ENVIRONMENT,
)
KNOWN_BAD = entry(
    "binding.known_bad_pair",
    BROKEN,
    "{packages} do not work together on this GPU: {sign}.",
    cause="A bug in one of the packages, known for these versions ({seen}).",
    remedy="{cure}; then: " + ENVIRONMENT,
)


def judge(look: Look) -> Iterable[Finding]:
    facts = look.section("binding")
    if look.cpu_only:
        yield NOT_USED.finding(reason="torch_environment_cpu_only is set")
        return
    findings = list(_known_troubles(look))
    judged = _judge_functions(look, facts)
    if not judged.holds:
        findings.insert(0, judged)
    yield from findings or [judged]


def _judge_functions(look: Look, facts: dict[str, Any]) -> Finding:
    model = _named(facts.get("model"))
    version = facts.get("transformers")
    if facts.get("not_applicable"):
        return NOT_USED.finding(reason=facts["not_applicable"])
    if not version:
        if facts.get("problem"):
            return CRASHED.finding(problem=facts["problem"], evidence=facts.get("command"))
        return NO_TRANSFORMERS.finding(path=look.section("torch").get("path") or "the environment", model=model)
    if facts.get("model_problem"):
        return MODEL_UNREADABLE.finding(model=model, problem=facts["model_problem"])
    if facts.get("problem"):
        return CRASHED.finding(problem=facts["problem"], evidence=facts.get("command"))
    if not facts.get("design"):
        return UNKNOWN_DESIGN.finding(version=version, observed=transformers_releases.design(version))
    functions = facts.get("functions") or []
    if not functions:
        return NOT_USED.finding(reason=f"the layers of {model} call no function that has a fast implementation")
    slow = [function for function in functions if not function.get("bound")]
    return _slow(facts, version, slow) if slow else FITS.finding(count=len(functions), model=model)


def _slow(facts: dict[str, Any], version: str, slow: list[dict[str, Any]]) -> Finding:
    names = [str(function.get("name")) for function in slow]
    return SLOW.finding(
        layers=cost(facts),
        functions=", ".join(names),
        verb="is" if len(names) == 1 else "are",
        why=_why(version, slow),
        expected="the fast implementation",
        observed=[f"{function.get('name')}: {function.get('implementation')}" for function in slow],
        evidence=facts.get("command"),
    )


def cost(facts: dict[str, Any]) -> str:
    """What the fallback costs: "48 of 64 layers"."""
    layers = {kind: int(count) for kind, count in (facts.get("layers") or {}).items()}
    total = sum(layers.values())
    affected = total - sum(
        count for kind, count in layers.items() if kind in ("full_attention", "attention", "mlp", "moe")
    )
    return f"{affected} of {total} layers" if total else "The model's special layers"


def _why(version: str, slow: list[dict[str, Any]]) -> str:
    """The package's own exception where there is one: transformers says "not installed" even for a broken package."""
    reasons: dict[str, str] = {}
    for function in slow:
        package = str(function.get("package") or "a package")
        reasons.setdefault(package, str(function.get("error") or f"{package} is not used"))
    told = [text if package in text else f"{package}: {text}" for package, text in reasons.items()]
    told += [fault.text for fault in transformers_releases.faults(version)[:1] if not any(f.get("error") for f in slow)]
    return "; ".join(told)


def _known_troubles(look: Look) -> Iterable[Finding]:
    installed = look.section("torch").get("distributions") or {}
    for pair in bad_pairs.bad_pairs(installed, look.capabilities):
        if pair.capabilities:
            packages = " and ".join(f"{name} {installed[name]}" for name in pair.packages)
            yield KNOWN_BAD.finding(packages=packages, sign=pair.sign, seen=pair.seen, cure=pair.cure)
    version, have = installed.get("transformers"), installed.get("kernels")
    window = transformers_releases.kernels_range(version) if version else None
    if have and isinstance(window, str) and not satisfies(have, window):
        yield KERNELS_RANGE.finding(have=have, version=version, range=window, expected=window, observed=have)


def _named(model: Any) -> str:
    """How a model is called in a sentence: its path, or its family."""
    if isinstance(model, dict):
        return str(model.get("name") or model.get("model_type") or "the model")
    return str(model or "the model")


def finding_cost(look: Look) -> Optional[str]:
    """The cost in layers, for the report's line; None when nothing is slow or nothing is known."""
    facts = look.section("binding")
    slow = [function for function in facts.get("functions") or [] if not function.get("bound")]
    return f"{cost(facts)} run on the PyTorch fallback" if slow else None
