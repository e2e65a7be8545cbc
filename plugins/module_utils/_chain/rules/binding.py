# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 9: each function that the model's layers call is bound to its fast implementation, in the very interpreter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
    rests_on=("reach", "base", "torch"),
)
SLOW = entry(
    "binding.slow",
    BROKEN,
    "{layers} run on the PyTorch fallback: {functions} {verb} not bound to the fast implementation ({why}).{also}",
    cause="A package that the functions come from is missing, too old, broken, or not in this environment; "
    "transformers falls back without failing.",
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
    cause="The path is not a config.json or a folder that holds one, or its architecture is unknown to this "
    "transformers.",
    remedy="Correct fast_path_model, then: " + REPAIR,
    rests_on=("reach", "base", "torch"),
)
CRASHED = entry(
    "binding.failed",
    UNKNOWN,
    "The training interpreter could not be asked: {problem}.",
    cause="Importing torch or transformers failed, was killed, or took too long.",
    remedy=ENVIRONMENT,
)
IMPORT_FAILS = entry(
    "binding.import_fails",
    BROKEN,
    "The model cannot be loaded by the training interpreter: {problem}.",
    cause="torch, transformers or a package that the model's code imports is broken: built for another torch, a "
    "missing library. Up to transformers 5.14 such a package takes the whole model down.",
    remedy="ansible-playbook proxmox_gpu.training.provision -l HOST",
)
ARGUMENTS = entry(
    "binding.arguments_dropped",
    BROKEN,
    "{function} is bound to an implementation that {note}, so it may compute something else without an error.",
    cause="The package that provides the function is older than the transformers that calls it.",
    remedy=ENVIRONMENT,
)
UNDECIDED = entry(
    "binding.undecided",
    UNKNOWN,
    "Whether the functions of {model} are bound cannot be told here: transformers {version} decides it only where it "
    "sees a GPU ({why}).",
    cause="Releases before 5.15 bind their fast path when the model's code is imported, if torch sees a GPU at that "
    "moment.",
    remedy="Pass a GPU through to the container, or use transformers 5.17 or newer.",
)
NO_GPU_SEEN = entry(
    "binding.no_gpu_seen",
    BROKEN,
    "A GPU is passed through to the container, and the training interpreter sees none ({reason}), so training runs on "
    "the processor.",
    cause="CUDA_VISIBLE_DEVICES is empty in the job's environment, nvidia-uvm was missing when the job began, or "
    "torch and the driver do not fit.",
    remedy="Take CUDA_VISIBLE_DEVICES out of the job's environment (fast_path_environment), or repair link gpu first.",
    rests_on=("reach", "base", "gpu", "torch"),
)
KERNELS_RANGE = entry(
    "binding.kernels_out_of_range",
    DRIFTED,
    "kernels {have} is installed, and transformers {version} takes {range} only, so loading a model that uses hub "
    "kernels fails or falls back.",
    cause="Each transformers release accepts one narrow range of the kernels package.",
    remedy="Pin kernels{range} in torch_environment_packages, then: " + ENVIRONMENT,
    rests_on=("reach", "base", "torch"),
)
KNOWN_BAD = entry(
    "binding.known_bad_pair",
    BROKEN,
    "{packages} do not work together on this GPU: {sign}.",
    cause="A bug in one of the packages, known for these versions ({seen}).",
    remedy="{cure}; then: " + ENVIRONMENT,
    rests_on=("reach", "base", "torch"),
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
    """From the answer of _fast_path.binding.observe, and from why there is none."""
    model = str(facts.get("model") or "the model")
    version = facts.get("transformers")
    if facts.get("not_applicable"):
        return NOT_USED.finding(reason=facts["not_applicable"])
    if facts.get("model_problem"):
        return MODEL_UNREADABLE.finding(model=model, problem=_clause(facts["model_problem"]))
    state, functions = facts.get("state"), facts.get("functions") or []
    if state is None and facts.get("problem"):
        return CRASHED.finding(problem=_clause(facts["problem"]), evidence=facts.get("command"))
    if not version:
        return NO_TRANSFORMERS.finding(path=look.section("torch").get("path") or "the environment", model=model)
    if state == "not_applicable":
        return NOT_USED.finding(reason=f"the layers of {model} call no function that has a fast implementation")
    if facts.get("design") == "unknown":
        return UNKNOWN_DESIGN.finding(version=version)
    slow = [function for function in functions if function.get("bound") is False]
    if facts.get("problem") and state == "broken":
        return IMPORT_FAILS.finding(problem=_clause(facts["problem"]), evidence=facts.get("command"))
    if slow:
        return _slow(facts, version, slow)
    return _all_bound(facts, model, version)


def _all_bound(facts: dict[str, Any], model: str, version: str) -> Finding:
    functions = facts.get("functions") or []
    dropped = [function for function in functions if function.get("note")]
    if dropped:
        return ARGUMENTS.finding(function=dropped[0]["name"], note=dropped[0]["note"], evidence=dropped[0].get("file"))
    undecided = [function for function in functions if function.get("bound") is None]
    if undecided or not functions:
        why = (facts.get("gpu") or {}).get("reason") or facts.get("sentence") or "the interpreter does not say"
        return UNDECIDED.finding(model=model, version=version, why=_clause(why))
    return FITS.finding(count=len(functions), model=model)


def _slow(facts: dict[str, Any], version: str, slow: list[dict[str, Any]]) -> Finding:
    names = [str(function.get("name")) for function in slow]
    return SLOW.finding(
        layers=cost(facts),
        functions=", ".join(names),
        verb="is" if len(names) == 1 else "are",
        why=_why(version, slow),
        also="".join(f" {_clause(warning)}." for warning in facts.get("warnings") or []),
        expected="the fast implementation",
        observed=[f"{function.get('name')}: {function.get('state')}" for function in slow],
        evidence=facts.get("command"),
    )


def cost(facts: dict[str, Any]) -> str:
    """What the fallback costs: "48 of 64 layers", or "6 of every 8 layers of a qwen3_5 model" where none was named."""
    total, fast = facts.get("total"), facts.get("fast_layers")
    if not total or not fast:
        return "The model's special layers"
    if facts.get("example"):
        return f"{fast} of every {total} layers of a {facts.get('model')} model"
    return f"{fast} of {total} layers"


def _why(version: str, slow: list[dict[str, Any]]) -> str:
    """The package's own exception where there is one: transformers says "not installed" even of a broken package."""
    reasons: dict[str, str] = {}
    for function in slow:
        name = str(function.get("distribution") or function.get("package") or "a package")
        text = "not installed" if function.get("state") == "absent" else _clause(function.get("error") or "not used")
        reasons.setdefault(name, text)
    told = [f"{name}: {text}" for name, text in reasons.items()]
    if not any(function.get("error") for function in slow):
        told += [fault.text for fault in transformers_releases.faults(version)[:1]]
    return "; ".join(told)


def _clause(text: object) -> str:
    return str(text).strip().rstrip(".")


def _known_troubles(look: Look) -> Iterable[Finding]:
    seen = look.section("binding").get("gpu") or {}
    nodes = look.section("gpu").get("nodes") or []
    if look.driver and any(node["kind"] == "char" for node in nodes) and seen.get("count") == 0:
        yield NO_GPU_SEEN.finding(reason=seen.get("reason") or "no reason is known", observed=seen.get("visible"))
    installed = look.section("torch").get("distributions") or {}
    for pair in bad_pairs.bad_pairs(installed, look.capabilities):
        if pair.capabilities:
            packages = " and ".join(f"{name} {installed[name]}" for name in pair.packages)
            yield KNOWN_BAD.finding(packages=packages, sign=pair.sign, seen=pair.seen, cure=pair.cure)
    version, have = installed.get("transformers"), installed.get("kernels")
    window = transformers_releases.kernels_range(version) if version else None
    if have and isinstance(window, str) and not satisfies(have, window):
        yield KERNELS_RANGE.finding(have=have, version=version, range=window, expected=window, observed=have)


def finding_cost(look: Look) -> str | None:
    """The cost in layers, for the report's line; None when nothing is slow or nothing is known."""
    facts = look.section("binding")
    slow = [function for function in facts.get("functions") or [] if function.get("bound") is False]
    return f"{cost(facts)} run on the PyTorch fallback" if slow else None
