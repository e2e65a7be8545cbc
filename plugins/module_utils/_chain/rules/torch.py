# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 4: the training environment has a CUDA build of torch whose CUDA the node's driver supports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..catalogue import entry, provision
from ..finding import Finding
from ..links import ABSENT, BROKEN, DRIFTED, OK
from ..look import Look
from ..tables import drivers, torch_builds
from ..versions import minor, plain, public, satisfies

ROLE = "torch_environment"
#: A torch that is there is moved only when somebody says so: what was built against it would no longer load.
REPLACE = provision(ROLE) + " -e torch_environment_replace_torch=true"

FITS = entry("torch.ok", OK, "torch {version} for CUDA {cuda} in {path}{also}.", cause="")
CPU_WANTED = entry("torch.cpu_only", OK, "torch {version} in {path}; a host without CUDA is wanted.", cause="")
OTHER_VERSION = entry(
    "torch.other_version",
    OK,
    "torch {version} for CUDA {cuda} in {path}; the roles would install {wanted}, and nobody asked for that "
    "here{also}.",
    cause="The environment was made by hand, and torch_environment_torch is not set for this host.",
)
NO_ENVIRONMENT = entry(
    "torch.no_environment",
    ABSENT,
    "There is no Python environment at {path} (torch_environment_path){hint}.",
    cause="The environment was never made, was removed, or the variable names another place.",
    remedy=provision(ROLE),
)
BROKEN_INTERPRETER = entry(
    "torch.broken_interpreter",
    BROKEN,
    "The environment at {path} has no working Python: {python} {problem}.",
    cause="The Python that the environment was made with was upgraded or removed, as a distribution upgrade does.",
    remedy="Move {path} away, then: " + provision(ROLE),
)
ABSENT_TORCH = entry(
    "torch.absent",
    ABSENT,
    "torch is not installed in {path}{hint}.",
    cause="torch was never installed in this environment, or another package's installation removed it.",
    remedy=provision(ROLE),
)
FILES_DAMAGED = entry(
    "torch.files_damaged",
    BROKEN,
    "{file} of {name} {version} {problem}, so importing torch fails; pip and the metadata still say that all is well.",
    cause="The disk was full while pip unpacked, or somebody deleted big files to make room.",
    remedy=provision(ROLE),
)
HALF_INSTALLED = entry(
    "torch.half_installed",
    BROKEN,
    "torch in {path} is half installed: {problem}.",
    cause="pip was interrupted, or two programs installed into the environment at the same time.",
    remedy=provision(ROLE),
)
NOT_FINISHED = entry(
    "torch.not_finished",
    BROKEN,
    "An installation into {path} began and did not come to its end, so what it was to pin (constraints.txt, pip.conf) "
    "may be missing or old, and the next pip install may move torch.",
    cause="The installation was killed, the container was stopped, or it failed half-way; or it still runs.",
    remedy=provision(ROLE),
)
CPU_BUILD = entry(
    "torch.cpu_build",
    BROKEN,
    "torch {version} in {path} is a CPU build: no GPU is used, whatever else is installed, and no CUDA extension can "
    "be compiled against it.",
    cause="pip took torch from the CPU index, or another package's dependency replaced the CUDA build.",
    remedy=REPLACE,
)
ROCM_BUILD = entry(
    "torch.rocm_build",
    BROKEN,
    "torch {version} in {path} is a build for AMD's ROCm and cannot use an NVIDIA GPU.",
    cause="torch was installed from the ROCm index.",
    remedy=REPLACE,
)
VERSION_DIFFERS = entry(
    "torch.version_differs",
    DRIFTED,
    "torch {version} is installed in {path}, and {wanted} is wanted (torch_environment_torch).",
    cause="Another package's installation moved torch, or the wish was changed since.",
    remedy="Set torch_environment_torch to {keep} to keep what is there, or replace it: " + REPLACE,
)
DRIVER_TOO_OLD = entry(
    "torch.driver_too_old",
    BROKEN,
    "torch {version} needs CUDA {cuda}, which needs NVIDIA driver {needed} or newer; the node has {driver}, so torch "
    "sees no GPU.",
    cause="torch 2.11 and newer come with CUDA 13 by default; the node's driver was not upgraded with it.",
    remedy="Upgrade the driver on the node to {needed} or newer, or choose a torch for CUDA {newest}.x "
    "(torch_environment_torch and torch_environment_index_url).",
)
GPU_NOT_IN_BUILD = entry(
    "torch.gpu_not_in_build",
    BROKEN,
    "torch {version} for CUDA {cuda} has no code for this GPU (compute capability {capability}): the first operation "
    "ends in 'no kernel image is available'.",
    cause="Builds of torch hold code for a fixed list of GPUs; very new and very old ones are missing in some.",
    remedy="Choose a torch whose build has compute capability {capability} (torch_environment_torch, _index_url).",
)
DEPENDENCY_MOVED = entry(
    "torch.dependency_moved",
    BROKEN,
    "torch {version} was released with {wanted}, and the environment has {have}: torch may not import, or "
    "fail at the first kernel.",
    cause="A later pip install moved or removed a library that torch is pinned to.",
    remedy=provision(ROLE),
)
LED_ASTRAY = entry(
    "torch.led_astray",
    DRIFTED,
    "{file} sets {name} to {value}, so whatever a login shell starts takes {holds} from there and not from {path}: it "
    "may fail, or be slow, although everything in {path} is right.",
    cause="The variable was set for another program or an older installation, and each login inherits it.",
    remedy="Take the line out of {file}. If training jobs are to run with it, name the file in "
    "fast_path_environment_files: then they are judged with it.",
)
NEEDED_MISSING = entry(
    "torch.needed_missing",
    ABSENT,
    "{packages} {verb} not installed in {path}, and {by} cannot be imported without; a program may take that for 'not "
    "installed' and go on slowly.",
    cause="A package was removed that another one needs, or one was installed with --no-deps.",
    remedy=provision(ROLE),
)
PACKAGES_MISSING = entry(
    "torch.packages_missing",
    ABSENT,
    "{packages} {verb} not installed in {path}, and without them training does not begin or runs on PyTorch's own code "
    "(torch_environment_packages).",
    cause="The environment was made by hand or by another tool, or an installation removed them.",
    remedy=provision(ROLE),
)
PACKAGE_DIFFERS = entry(
    "torch.package_differs",
    DRIFTED,
    "{name} {version} is installed in {path}, and {wanted} is wanted (torch_environment_packages).",
    cause="Another package's installation moved it, or the wish was changed since.",
    remedy=provision(ROLE),
)


def judge(look: Look) -> Iterable[Finding]:
    facts = look.section("torch")
    path = facts.get("path")
    if not facts.get("python"):
        yield _no_interpreter(facts, path)
        return
    if not facts.get("version"):
        if facts.get("problem"):
            yield HALF_INSTALLED.finding(path=path, problem=facts["problem"], evidence=facts.get("site_packages"))
        else:
            yield ABSENT_TORCH.finding(path=path, hint=_hint(facts), evidence=facts.get("site_packages"))
        return
    findings = [
        *_build(look, facts, path),
        *_damaged(facts),
        *_dependencies(facts),
        *_packages(look, facts, path),
        *_shells(look, facts, path),
    ]
    if facts.get("making"):
        findings.append(NOT_FINISHED.finding(path=path, evidence=f"{path}/proxmox_gpu.json"))
    yield from findings or [_fits(look, facts, path)]


def _no_interpreter(facts: dict[str, Any], path: Any) -> Finding:
    if facts.get("broken_python"):
        broken = facts["broken_python"]
        return BROKEN_INTERPRETER.finding(path=path, python=broken["path"], problem=broken["problem"])
    return NO_ENVIRONMENT.finding(path=path, hint=_hint(facts), evidence=f"{path}/bin/python")


def _hint(facts: dict[str, Any]) -> str:
    """Where else torch was found: the most common reason for "absent" is a variable that names the wrong place."""
    others = facts.get("elsewhere") or []
    return f"; torch was found in {', '.join(others)}" if others else ""


def _also(facts: dict[str, Any]) -> str:
    """Somebody who trains from another environment wonders why nothing that is said here is true of their job."""
    others = facts.get("elsewhere") or []
    return f"; there is torch in {', '.join(others)} too, which was not judged" if others else ""


def _build(look: Look, facts: dict[str, Any], path: Any) -> Iterable[Finding]:
    version, cuda = facts["version"], facts.get("cuda")
    source = f"{facts.get('site_packages')}/torch/version.py"
    if facts.get("problem"):
        yield HALF_INSTALLED.finding(path=path, problem=facts["problem"], evidence=facts.get("site_packages"))
    if look.cpu_only:
        return
    if facts.get("hip"):
        yield ROCM_BUILD.finding(version=version, path=path, observed=facts["hip"], evidence=source)
        return
    if not cuda:
        yield CPU_BUILD.finding(version=version, path=path, expected="a CUDA build", evidence=source)
        return
    wanted = look.wish(ROLE, "torch", "")
    if look.explicit(ROLE, "torch") and not satisfies(version, wanted):
        words = {"version": version, "path": path, "wanted": wanted, "keep": public(version)}
        yield VERSION_DIFFERS.finding(expected=wanted, observed=version, **words)
    yield from _hardware(look, version, cuda)


def _hardware(look: Look, version: str, cuda: str) -> Iterable[Finding]:
    driver = look.driver
    if driver and drivers.runs(driver, cuda) is False:
        yield DRIVER_TOO_OLD.finding(
            version=version,
            cuda=cuda,
            needed=drivers.floor(cuda),
            driver=driver,
            newest=drivers.newest_cuda(driver) or "11",
            expected=f">={drivers.floor(cuda)}",
            observed=driver,
            evidence="/proc/driver/nvidia/version",
        )
    for capability in look.capabilities:
        if torch_builds.runs_on(minor(cuda), capability) is False and look.section("base").get("machine") == "x86_64":
            yield GPU_NOT_IN_BUILD.finding(version=version, cuda=cuda, capability=capability)


def _damaged(facts: dict[str, Any]) -> Iterable[Finding]:
    installed = facts.get("distributions") or {}
    for one in (facts.get("damaged") or [])[:1]:
        words = {"file": one["file"].rpartition("/")[2], "name": one["name"], "version": installed.get(one["name"])}
        yield FILES_DAMAGED.finding(problem=one["problem"], evidence=one["file"], **words)


def _dependencies(facts: dict[str, Any]) -> Iterable[Finding]:
    installed = facts.get("distributions") or {}
    for requirement in facts.get("requirements") or []:
        name, wanted = requirement["name"], requirement["spec"]
        have = installed.get(name)
        if have is None or not satisfies(have, wanted):
            yield DEPENDENCY_MOVED.finding(
                version=public(facts["version"]),
                wanted=f"{name}{wanted}",
                have=f"{name} {have}" if have else "none",
                expected=f"{name}{wanted}",
                observed=have,
                evidence="torch's METADATA",
            )
            return


def _packages(look: Look, facts: dict[str, Any], path: Any) -> Iterable[Finding]:
    """The packages beside torch. In an environment that nobody asked the roles for, those alone count that the binding
    lacks; versions count where somebody set them."""
    wanted = {**look.wish(ROLE, "packages", {}), **look.wish(ROLE, "extra_packages", {})}
    asked = look.explicit(ROLE, "packages") or look.explicit(ROLE, "extra_packages")
    installed = facts.get("distributions") or {}
    needed = map(plain, wanted) if asked or facts.get("managed") else _lacking(look.section("binding"))
    absent = set(needed) - set(installed)
    missing = [name for name in wanted if plain(name) in absent]
    if missing:
        words = {"packages": ", ".join(missing), "verb": "is" if len(missing) == 1 else "are", "path": path}
        yield PACKAGES_MISSING.finding(evidence=facts.get("site_packages"), **words)
        return
    needs = [need for need in facts.get("lacking") or [] if need["by"] != "torch"]
    if needs:
        words = {"packages": ", ".join(need["name"] for need in needs), "verb": "is" if len(needs) == 1 else "are"}
        by = ", ".join(sorted({need["by"] for need in needs}))
        yield NEEDED_MISSING.finding(by=by, path=path, evidence=f"{path}/bin/python -m pip check", **words)
        return
    for name, version in wanted.items() if asked else ():
        have = installed[plain(name)]
        if not satisfies(have, version):
            words = {"name": name, "version": have, "wanted": version, "path": path}
            yield PACKAGE_DIFFERS.finding(expected=version, observed=have, **words)
            return


def _shells(look: Look, facts: dict[str, Any], path: Any) -> Iterable[Finding]:
    known = look.wish("fast_path", "environment_files", [])
    for item in facts.get("astray") or []:
        if item["file"] not in known:
            yield LED_ASTRAY.finding(path=path, evidence=item["file"], **item)
            return


def _lacking(binding: dict[str, Any]) -> set[str]:
    """The distributions without which the model's functions are not bound; empty where that was not looked at."""
    functions = binding.get("functions") or []
    lacking = {plain(function.get("distribution")) for function in functions if function.get("state") == "absent"}
    if binding and not binding.get("transformers") and not binding.get("not_applicable"):
        lacking.add("transformers")
    return lacking


def _fits(look: Look, facts: dict[str, Any], path: Any) -> Finding:
    version, cuda = facts["version"], facts.get("cuda")
    if look.cpu_only:
        return CPU_WANTED.finding(version=version, path=path)
    wanted = look.wish(ROLE, "torch", "")
    words = {"version": public(version), "cuda": cuda, "path": path, "also": _also(facts)}
    if not satisfies(version, wanted):
        return OTHER_VERSION.finding(wanted=wanted, **words)
    return FITS.finding(**words)
