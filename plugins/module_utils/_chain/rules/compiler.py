# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 7: a 20-line CUDA extension compiles, links and imports against this torch.

The proof is a record that role cuda_toolkit wrote; it counts only while its key equals today's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..catalogue import entry, provision
from ..finding import Finding
from ..links import ABSENT, BROKEN, DRIFTED, NOT_APPLICABLE, OK
from ..look import Look
from ..tables import compilers, torch_builds
from ..versions import major, numbers
from . import extensions, toolkit

REPAIR = provision("cuda_toolkit")

#: What a key's part is called in a sentence.
PARTS = {"torch": "torch", "cuda": "torch's CUDA", "nvcc": "nvcc", "gcc": "gcc", "glibc": "glibc", "python": "Python"}
#: C++20 needs gcc 10; what torch before 2.13 needs is older than every supported distribution's.
OLDEST_GCC = {20: 10}

FITS = entry(
    "compiler.ok", OK, "A CUDA extension compiles and imports here (gcc {gcc}, nvcc {nvcc}, torch {torch}).", cause=""
)
NOT_NEEDED = entry("compiler.not_needed", NOT_APPLICABLE, "Nothing is to be compiled: {reason}.", cause="")
NO_GCC = entry(
    "compiler.no_gcc",
    ABSENT,
    "There is no C compiler (gcc) in the container: no extension can be built, and Triton fails at its first kernel.",
    cause="A minimal container template has no compiler, and Triton compiles a small C module when training begins.",
    remedy=REPAIR,
    rests_on=("reach", "base"),
)
NO_GXX = entry(
    "compiler.no_gxx",
    ABSENT,
    "There is no C++ compiler (g++) in the container, so no extension can be built.",
    cause="Only gcc was installed; torch's extensions are C++.",
    remedy=REPAIR,
    rests_on=("reach", "base"),
)
NO_HEADERS = entry(
    "compiler.no_python_headers",
    ABSENT,
    "Python.h of Python {python} is missing, so no extension compiles and Triton fails at its first kernel.",
    cause="The development package of the Python that the environment was made with is not installed.",
    remedy=REPAIR,
    rests_on=("reach", "base", "torch"),
)
GCC_TOO_NEW = entry(
    "compiler.gcc_too_new",
    BROKEN,
    "CUDA {cuda} accepts gcc up to {newest}, and this container has gcc {gcc}; nvcc stops with 'unsupported GNU "
    "version'.",
    cause="The distribution's gcc is newer than this CUDA.",
    remedy="Install g++-{newest} and make it the default, or choose a torch for a newer CUDA "
    "(torch_environment_torch).",
    rests_on=("reach", "base", "torch"),
)
GCC_TOO_OLD = entry(
    "compiler.gcc_too_old",
    BROKEN,
    "torch {torch} needs a compiler for C++{cxx}, and gcc {gcc} is older than that.",
    cause="An old gcc was installed beside or in place of the distribution's.",
    remedy="Install gcc {oldest} or newer and make it the default.",
)
GLIBC_CLASHES = entry(
    "compiler.glibc_too_new",
    BROKEN,
    "The headers of CUDA {cuda} clash with glibc {glibc} ('exception specification is incompatible ... cospi'); no "
    ".cu file compiles here, whatever gcc is used; it takes CUDA {first} or newer.",
    cause="glibc 2.41 and newer declare functions that the headers of older CUDA declare differently.",
    remedy="Choose a torch for CUDA {first} or newer (torch_environment_torch), or a container of an older "
    "distribution.",
    rests_on=("reach", "base", "torch"),
)
NO_NINJA = entry(
    "compiler.no_ninja",
    ABSENT,
    "ninja is not installed, so extensions compile one file at a time, which takes hours in place of minutes.",
    cause="The environment was made without build tools.",
    remedy=REPAIR,
    rests_on=("reach", "base"),
)
NOT_PROBED = entry(
    "compiler.not_probed",
    ABSENT,
    "Nobody has compiled the probe extension on this host yet, so it is not known whether a build works.",
    cause="The host was not set up by role cuda_toolkit, or the role was interrupted before its last step.",
    remedy=REPAIR,
)
PROBE_FAILED = entry(
    "compiler.probe_failed",
    BROKEN,
    "The probe extension did not compile on this host: {problem}",
    cause="A header, a compiler or a library that builds need does not fit the others; the log has the compiler's "
    "words.",
    remedy=REPAIR,
)
CHANGED = entry(
    "compiler.changed",
    DRIFTED,
    "The probe extension compiled here, but since then {changes}.",
    cause="Something that builds depend on was upgraded after the proof.",
    remedy=REPAIR,
)


def judge(look: Look) -> Iterable[Finding]:
    reason = look.nothing_to_compile
    if reason:
        yield NOT_NEEDED.finding(reason=reason)
        return
    facts = look.section("compiler")
    if not facts.get("record") and extensions.works_by_itself(look):
        reason = "the wanted extensions were installed by hand, and they load"
        yield from [*_needed_at_run_time(look, facts)] or [NOT_NEEDED.finding(reason=reason)]
        return
    findings = [*_needed_at_run_time(look, facts), *_needed_to_build(facts), *_tables(look, facts)]
    yield from findings or [_record(facts) or FITS.finding(**_words(facts))]


def _needed_at_run_time(look: Look, facts: dict[str, Any]) -> Iterable[Finding]:
    """Triton compiles a small C module at its first kernel: without these nothing trains, whatever is installed."""
    if not facts.get("gcc"):
        yield NO_GCC.finding(evidence="command -v gcc")
    headers = facts.get("python_headers") or {}
    if headers and not headers.get("exists"):
        python = look.section("torch").get("python_version") or "the environment"
        yield NO_HEADERS.finding(python=python, evidence=headers.get("path"))


def _needed_to_build(facts: dict[str, Any]) -> Iterable[Finding]:
    if facts.get("gcc") and not facts.get("gxx"):
        yield NO_GXX.finding(evidence="command -v g++")
    if "ninja" in facts and not facts["ninja"]:
        yield NO_NINJA.finding(evidence="ninja --version")


def _tables(look: Look, facts: dict[str, Any]) -> Iterable[Finding]:
    gcc, glibc = facts.get("gcc"), look.section("base").get("glibc")
    nvcc = toolkit.chosen(look)
    cuda = nvcc["version"] if nvcc else look.torch_cuda
    if cuda and compilers.glibc_clashes(cuda, glibc):
        yield GLIBC_CLASHES.finding(
            cuda=_minor(cuda),
            glibc=glibc,
            first=compilers.first_cuda_for_glibc(glibc) or "(none in my table)",
            observed=glibc,
            evidence="ldd --version",
        )
    newest = compilers.newest_gcc(cuda)
    if gcc and newest and (major(gcc) or 0) > newest:
        yield GCC_TOO_NEW.finding(cuda=_minor(cuda), newest=newest, gcc=gcc, expected=f"<={newest}", observed=gcc)
    version = look.section("torch").get("version")
    build = torch_builds.build(version)
    if build and gcc and (major(gcc) or 0) < OLDEST_GCC.get(build.cxx, 0):
        oldest = OLDEST_GCC[build.cxx]
        words = {"torch": version, "cxx": build.cxx, "gcc": gcc, "oldest": oldest}
        yield GCC_TOO_OLD.finding(expected=f">={oldest}", observed=gcc, **words)


def _record(facts: dict[str, Any]) -> Finding | None:
    """None when the record proves today's set; else the finding that says why it does not."""
    record = facts.get("record")
    if not record:
        return NOT_PROBED.finding(evidence=facts.get("record_file"))
    changes = _changes(record.get("key") or {}, facts.get("key") or {})
    if changes:
        return CHANGED.finding(changes=", ".join(changes), expected=record.get("key"), observed=facts.get("key"))
    if not record.get("ok"):
        problem = str(record.get("error") or record.get("sentence") or "no reason was recorded.")
        return PROBE_FAILED.finding(problem=problem, evidence=record.get("log") or facts.get("record_file"))
    return None


def _changes(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """["nvcc went from 13.0.88 to 13.2.86"]."""
    parts = [part for part in {**then, **now} if then.get(part) != now.get(part)]
    return [
        f"{PARTS.get(part, part)} went from {then.get(part) or 'none'} to {now.get(part) or 'none'}" for part in parts
    ]


def _minor(version: object) -> str:
    return ".".join(str(part) for part in numbers(version)[:2])


def _words(facts: dict[str, Any]) -> dict[str, Any]:
    key = facts.get("key") or {}
    return {
        "gcc": key.get("gcc"),
        "nvcc": key.get("nvcc"),
        "torch": key.get("torch"),
        "evidence": facts.get("record_file"),
    }
