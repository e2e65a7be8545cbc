# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 6: the packages that extension builds need, of torch's CUDA and held; no drivers; the nvcc that a build uses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .. import nvcc as nvcc_choice
from ..catalogue import entry, provision
from ..finding import Finding
from ..links import ABSENT, BROKEN, DRIFTED, NOT_APPLICABLE, OK, UNKNOWN
from ..look import Look
from ..nvcc import home_of
from ..versions import major, minor

ROLE = "cuda_toolkit"
REPAIR = provision(ROLE)
#: Where the role tells login shells of the compiler.
PROFILE = "/etc/profile.d/proxmox_gpu_cuda.sh"

FITS = entry("toolkit.ok", OK, "nvcc {version} at {home}, of the CUDA that torch was built with.", cause="")
MINOR_DIFFERS = entry(
    "toolkit.minor_differs",
    OK,
    "nvcc {version} at {home}; torch was built with CUDA {cuda}, which works (cuda_toolkit_policy is same_major).",
    cause="The repository has no package of torch's exact CUDA; another minor version of the same major is accepted.",
)
BY_HAND = entry(
    "toolkit.by_hand",
    OK,
    "nvcc {version} at {home}, of torch's CUDA, installed without packages, so nothing here can pin it.",
    cause="The runfile installer, conda or pip installed the compiler.",
)
NOT_NEEDED = entry("toolkit.not_needed", NOT_APPLICABLE, "No compiler for CUDA is needed: {reason}.", cause="")
TORCH_UNKNOWN = entry(
    "toolkit.torch_unknown",
    UNKNOWN,
    "Which CUDA the compiler must have cannot be said, because no CUDA build of torch was found.",
    cause="The toolkit is chosen by torch's own CUDA, and there is no torch to ask.",
    remedy=provision("torch_environment"),
    rests_on=("reach", "base", "torch"),
)
DRIVER_INSTALLED = entry(
    "toolkit.driver_installed",
    BROKEN,
    "Driver packages are installed in the container ({packages}); the kernel module belongs to the node, and a driver "
    "of another version here breaks every GPU program.",
    cause="A meta package such as cuda or cuda-13-0 was installed; they depend on the driver.",
    remedy="ansible-playbook proxmox_gpu.training.provision -l HOST --tags cuda_toolkit -e "
    "cuda_toolkit_purge_drivers=true",
    rests_on=("reach", "base"),
)
NOT_OFFERED = entry(
    "toolkit.not_offered",
    BROKEN,
    "torch was built with CUDA {cuda}, and the registered repository has no compiler for it{policy}; it offers "
    "{series}.",
    cause="NVIDIA fills the repositories of new distributions step by step and does not add older series to them.",
    remedy="Set cuda_toolkit_policy to same_major if a series of the same major is offered, or choose a torch for one "
    "of "
    "{series} (torch_environment_torch), then: " + REPAIR,
)
FORBIDDEN = entry(
    "toolkit.forbidden",
    BROKEN,
    "{file} forbids apt to install CUDA's compiler (Package: {package}, Pin-Priority: {priority}), so "
    "cuda-nvcc-{series} has 'no installation candidate'.",
    cause="Somebody wanted to keep drivers out, and the record means more packages than those.",
    remedy="Take the record out of {file}, or name driver packages alone in it, then: " + REPAIR,
)
ABSENT_NVCC = entry(
    "toolkit.absent",
    ABSENT,
    "No compiler for CUDA {cuda} (nvcc) is installed, so no extension can be built (a build dies of "
    "'bare_metal_version' or 'CUDA_HOME is not set').",
    cause="Only torch was installed: its wheel brings the CUDA libraries, but no compiler and no headers.",
    remedy=REPAIR,
)
WRONG_MAJOR = entry(
    "toolkit.wrong_major",
    BROKEN,
    "torch was built with CUDA {cuda}, and the only compilers here are of another major version ({found}); torch "
    "refuses to build extensions with them.",
    cause="torch was upgraded to another CUDA, or the distribution's own nvidia-cuda-toolkit was installed.",
    remedy=REPAIR,
)
MINOR_REFUSED = entry(
    "toolkit.wrong_minor",
    BROKEN,
    "torch was built with CUDA {cuda}, the compiler is {found}, and cuda_toolkit_policy is exact.",
    cause="The repository moved on, or torch did; the policy asks for the same minor version.",
    remedy=REPAIR,
)
BROKEN_NVCC = entry(
    "toolkit.broken_nvcc",
    BROKEN,
    "{path} is there but does not work: {problem}.",
    cause="The pip package for CUDA 12 holds the assembler only, or parts of the toolkit were removed.",
    remedy=REPAIR,
)
INCOMPLETE = entry(
    "toolkit.incomplete",
    ABSENT,
    "The toolkit at {home} lacks {missing}, so every .cu file stops at a missing header or program.",
    cause="Only nvcc was installed, or a part of the toolkit was removed.",
    remedy=REPAIR,
)
MIXED_SET = entry(
    "toolkit.mixed_set",
    BROKEN,
    "{nvcc} is version {version}, and its part {part} is version {other}: parts of two releases do not make one "
    "compiler.",
    cause="One package was pinned or upgraded without the others of its release.",
    remedy=REPAIR,
)
WRONG_NVCC = entry(
    "toolkit.wrong_nvcc",
    DRIFTED,
    "A build by hand would use {path} (CUDA {found}, {reason}) although the right compiler is at {home}.",
    cause="The last installed toolkit moves /usr/local/cuda, or the distribution's nvcc is first on PATH.",
    remedy=REPAIR,
)
OTHER_CUDA_HOME = entry(
    "toolkit.other_cuda_home",
    DRIFTED,
    "{file} sets CUDA_HOME to {value}, a working toolkit of CUDA {found}, so builds by hand use that one although the "
    "right compiler is at {home}; builds by the roles do not look at it.",
    cause="Somebody set CUDA_HOME for another program, or for a torch that was replaced since.",
    remedy="Decide for whom the line in {file} is: take it out, or set cuda_toolkit_shell_environment to false and "
    "nobody looks at it any more.",
)
BAD_CUDA_HOME = entry(
    "toolkit.bad_cuda_home",
    BROKEN,
    "{file} sets CUDA_HOME to {value}, where no nvcc is, so builds say that CUDA is not installed.",
    cause="The toolkit that it named was removed, or a line such as X=$X:/path left a colon in front.",
    remedy=REPAIR,
)
NOT_HELD = entry(
    "toolkit.not_held",
    DRIFTED,
    "{packages} {verb} not held, so the next upgrade may move the compiler away from torch's CUDA.",
    cause="The packages were installed by hand, or the hold was lifted.",
    remedy=REPAIR,
)
PACKAGES_MISSING = entry(
    "toolkit.packages_missing",
    ABSENT,
    "{packages} {verb} not installed, and {verb} wanted ({variable}).",
    cause="The variable was set after the toolkit was installed, or the packages were removed.",
    remedy=REPAIR,
)
VERSION_DIFFERS = entry(
    "toolkit.version_differs",
    DRIFTED,
    "{package} is version {version}, and {wanted} is wanted (cuda_toolkit_versions).",
    cause="The variable was set after the toolkit was installed, or the package was moved by hand.",
    remedy=REPAIR,
)
DRIVERS_NOT_BLOCKED = entry(
    "toolkit.drivers_not_blocked",
    DRIFTED,
    "Nothing keeps apt from installing a driver from NVIDIA's repository, whose packages outrank the distribution's.",
    cause="The preferences file that blocks driver packages is missing.",
    remedy=REPAIR,
)

#: The file below a toolkit's folder -> what a reader calls it. {target} is the machine's folder.
PARTS = {
    "cudart": "the runtime's headers (cuda-cudart-dev)",
    "cccl": "cub and thrust (cuda-cccl)",
    "crt": "crt headers",
}


def judge(look: Look) -> Iterable[Finding]:
    facts = look.section("toolkit")
    findings: list[Finding] = []
    if facts.get("drivers"):
        findings.append(DRIVER_INSTALLED.finding(packages=", ".join(facts["drivers"]), evidence="/var/lib/dpkg/status"))
    reason = look.nothing_to_compile
    if reason:
        yield from findings or [NOT_NEEDED.finding(reason=reason)]
        return
    cuda = look.torch_cuda
    if not cuda:
        yield from [*findings, TORCH_UNKNOWN.finding()]
        return
    nvcc = chosen(look)
    if nvcc is None:
        yield from [*findings, _missing(look, facts, cuda)]
        return
    findings += [*_compiler(look, cuda, nvcc), *_wished(look, facts, nvcc), *_surroundings(look, facts, nvcc)]
    yield from findings or [_fits(look, cuda, nvcc)]


def chosen(look: Look) -> dict[str, Any] | None:
    """The compiler that the roles use for this torch; None when none fits."""
    return nvcc_choice.chosen(look.section("toolkit").get("nvccs") or [], look.torch_cuda)


def _missing(look: Look, facts: dict[str, Any], cuda: str) -> Finding:
    nvccs = facts.get("nvccs") or []
    working = [nvcc for nvcc in nvccs if nvcc.get("version")]
    if working:
        found = ", ".join(f"{nvcc['path']} {minor(nvcc['version'])}" for nvcc in working)
        return WRONG_MAJOR.finding(cuda=cuda, found=found, expected=f"{major(cuda)}.x", observed=found)
    if nvccs:
        return BROKEN_NVCC.finding(path=nvccs[0]["path"], problem=nvccs[0].get("problem") or "it prints no version")
    refused = _not_offered(look, facts, cuda) or _forbidden(facts, cuda)
    return refused or ABSENT_NVCC.finding(
        cuda=cuda, expected=f"nvcc {cuda}", observed="none", evidence="/usr/local/cuda*"
    )


def _not_offered(look: Look, facts: dict[str, Any], cuda: str) -> Finding | None:
    """Only where apt holds an index: a repository that was never fetched offers nothing that anybody knows of."""
    series = [str(item).replace("-", ".") for item in facts.get("series") or []]
    if not series or not look.section("repository").get("fetched"):
        return None
    exact = look.wish(ROLE, "policy", "same_major") == "exact"
    fitting = [item for item in series if (item == minor(cuda) if exact else major(item) == major(cuda))]
    if fitting:
        return None
    policy = " (cuda_toolkit_policy is exact)" if exact else ", nor for another minor version of it"
    return NOT_OFFERED.finding(
        cuda=cuda,
        policy=policy,
        series=", ".join(series),
        expected=cuda,
        observed=series,
        evidence="/var/lib/apt/lists",
    )


def _forbidden(facts: dict[str, Any], cuda: str) -> Finding | None:
    series = str(minor(cuda)).replace(".", "-")
    record = (facts.get("forbidden") or {}).get(series)
    return FORBIDDEN.finding(series=series, evidence=record["file"], **record) if record else None


def _compiler(look: Look, cuda: str, nvcc: dict[str, Any]) -> Iterable[Finding]:
    version = nvcc["version"]
    if minor(version) != minor(cuda) and look.wish(ROLE, "policy", "same_major") == "exact":
        yield MINOR_REFUSED.finding(cuda=cuda, found=version, expected=cuda, observed=version, evidence=nvcc["path"])
    missing = [text for part, text in PARTS.items() if part in (nvcc.get("missing") or [])]
    if missing:
        yield INCOMPLETE.finding(home=home_of(nvcc), missing=", ".join(missing), evidence=home_of(nvcc))


def _wished(look: Look, facts: dict[str, Any], nvcc: dict[str, Any]) -> Iterable[Finding]:
    """What the variables name beside the compiler. A package of another series waits until that series is chosen."""
    series = str(minor(nvcc["version"])).replace(".", "-")
    there = facts.get("wished") or {}
    # A toolkit that was installed by hand has its headers without packages; what somebody asks for by name counts.
    by_name = nvcc.get("package") or look.explicit(ROLE, "extra_packages") or look.explicit(ROLE, "math_libraries")
    wanted: dict[str, list[str]] = {
        "cuda_toolkit_extra_packages, cuda_toolkit_math_libraries": [
            name if _series_of(name) else f"{name}-{series}" for name in look.wish(ROLE, "beside_compiler", [])
        ]
        if by_name
        else [],
        "cuda_toolkit_build_packages": look.wish(ROLE, "build_packages", [])
        if look.explicit(ROLE, "build_packages")
        else [],
    }
    versions = {
        name: str(version)
        for name, version in look.wish(ROLE, "versions", {}).items()
        if version and _series_of(name) in ("", series)
    }
    for variable, names in {**wanted, "cuda_toolkit_versions": list(versions)}.items():
        absent = [name for name in names if name not in there]
        if absent:
            verb = "is" if len(absent) == 1 else "are"
            words = {"packages": ", ".join(absent), "verb": verb, "variable": variable}
            yield PACKAGES_MISSING.finding(evidence="/var/lib/dpkg/status", **words)
    for name, version in versions.items():
        if there.get(name, version) != version:
            words = {"package": name, "version": there[name], "wanted": version}
            yield VERSION_DIFFERS.finding(
                expected=version, observed=there[name], evidence="/var/lib/dpkg/status", **words
            )


def _series_of(name: str) -> str:
    """ "13-0" of cuda-nvcc-13-0; "" where a name has none."""
    found = re.search(r"-(\d+-\d+)$", name)
    return found.group(1) if found else ""


def _surroundings(look: Look, facts: dict[str, Any], nvcc: dict[str, Any]) -> Iterable[Finding]:
    if look.wish(ROLE, "shell_environment", True):
        yield from _by_hand(facts, nvcc)
    if nvcc.get("package"):
        yield from _mixed(facts, nvcc)
        yield from _packages(look, facts, nvcc["package"])


def _by_hand(facts: dict[str, Any], nvcc: dict[str, Any]) -> Iterable[Finding]:
    """What a build in somebody's shell would find: a start-up file that leads astray, or another nvcc first."""
    for item in facts.get("cuda_homes") or []:
        if not item.get("usable"):
            yield BAD_CUDA_HOME.finding(file=item["file"], value=repr(item["value"]), evidence=item["file"])
    winner = facts.get("default_nvcc") or {}
    if not winner.get("version") or minor(winner["version"]) == minor(nvcc["version"]):
        return
    words = {"found": minor(winner["version"]), "home": home_of(nvcc)}
    compared = {"expected": nvcc["path"], "observed": winner["path"]}
    # The line that a role wrote may be rewritten by it; any other one that works is somebody's decision.
    if winner.get("file") not in (None, PROFILE):
        file, value = winner["file"], winner["home"]
        yield OTHER_CUDA_HOME.finding(file=file, value=value, evidence=file, **words, **compared)
    else:
        reason = winner.get("reason") or "first on PATH"
        yield WRONG_NVCC.finding(path=winner["path"], reason=reason, **words, **compared)


def _mixed(facts: dict[str, Any], nvcc: dict[str, Any]) -> Iterable[Finding]:
    """The parts that NVIDIA releases with nvcc, under nvcc's own version."""
    packages = facts.get("packages") or {}
    owner = packages.get(nvcc["package"])
    series = str(nvcc["package"]).removeprefix("cuda-nvcc")
    for stem in ("cuda-crt", "cuda-nvvm", "libnvvm", "libnvptxcompiler"):
        part = packages.get(f"{stem}{series}")
        if owner and part and part["version"] != owner["version"]:
            yield MIXED_SET.finding(
                nvcc=nvcc["package"],
                version=owner["version"],
                part=f"{stem}{series}",
                other=part["version"],
                evidence="/var/lib/dpkg/status",
            )
            return


def _packages(look: Look, facts: dict[str, Any], owner: str) -> Iterable[Finding]:
    """owner: the chosen compiler's package. The packages of its series make one set; others are somebody's own."""
    if look.wish(ROLE, "hold", True):
        series = _series_of(owner)
        loose = [
            name
            for name, package in sorted((facts.get("packages") or {}).items())
            if not package.get("held") and (name == owner or (series and _series_of(name) == series))
        ]
        if loose:
            verb = "is" if len(loose) == 1 else "are"
            shown = ", ".join(loose[:3]) + (f" and {len(loose) - 3} more" if len(loose) > 3 else "")
            yield NOT_HELD.finding(packages=shown, verb=verb, observed=loose, evidence="apt-mark showhold")
    if look.wish(ROLE, "block_drivers", True) and not facts.get("drivers_blocked"):
        yield DRIVERS_NOT_BLOCKED.finding(evidence="/etc/apt/preferences.d")


def _fits(look: Look, cuda: str, nvcc: dict[str, Any]) -> Finding:
    words = {"version": nvcc["version"], "home": home_of(nvcc), "evidence": f"{nvcc['path']} --version"}
    if not nvcc.get("package"):
        return BY_HAND.finding(**words)
    if minor(nvcc["version"]) != minor(cuda):
        return MINOR_DIFFERS.finding(cuda=cuda, **words)
    return FITS.finding(**words)
