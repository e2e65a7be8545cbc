# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Which toolkit packages a container gets, decided without touching it.

NVIDIA names a series ``13-0`` in its packages for the CUDA that torch calls ``13.0``. Extension builds need the
compiler and the runtime's headers of one series (established by listing the headers that causal-conv1d, mamba-ssm and
flash-attn open) and for some extensions the headers of three math libraries. Everything else follows by dependency,
under names that differ between CUDA 12 (``cuda-nvvm-12-8``) and CUDA 13 (``libnvvm-13-0``,
``libnvptxcompiler-13-0``); no name of a dependency is needed to install, only to hold and pin it.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

POLICIES = ("same_major", "exact")

ROOTS = ("cuda-nvcc", "cuda-cudart-dev")
MATH_ROOTS = ("libcublas-dev", "libcusparse-dev", "libcusolver-dev")
COMPILER_PARTS = ("cuda-crt", "cuda-nvvm", "libnvvm", "libnvptxcompiler")
"""Released with nvcc under nvcc's version (12 and 13 name them differently): a mixed set compiles, but not reliably."""

_SERIES = re.compile(r"-(\d+)-(\d+)$")
_DRIVER = re.compile(
    r"^(?:cuda-drivers(?:-.*)?|nvidia-(?:driver|open|dkms|kernel|utils|headless|firmware|modprobe|persistenced"
    r"|smi|settings)"
    r"(?:-.*)?|libnvidia-(?!container|ml-dev).*|libcuda1.*|linux-(?:modules|objects)-nvidia-.*"
    r"|xserver-xorg-video-nvidia.*)$"
)
_INST = re.compile(r"^Inst (?P<name>[^ :]+)(?::\w+)? (?:\[(?P<old>[^]]+)\] )?\((?P<new>\S+)")
_REMV = re.compile(r"^(?:Remv|Purg) (?P<name>[^ :]+)")


class PlanError(Exception):
    """There is no plan. ``id`` is a stable word for programs, the message one sentence for people."""

    def __init__(self, id: str, sentence: str) -> None:  # noqa: A002
        super().__init__(sentence)
        self.id = id


@dataclasses.dataclass(frozen=True)
class Choice:
    """The series to install. ``note`` says why it is not torch's own, and is empty when it is."""

    series: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Simulation:
    """What apt would do. ``installs`` is a list of (package, new version, version now or None)."""

    installs: list[tuple[str, str, str | None]]
    removes: list[str]


def series_of(cuda: str) -> str:
    """``"13.0"`` -> ``"13-0"``. Raises PlanError for what is not a CUDA version."""
    if not re.fullmatch(r"\d+\.\d+", str(cuda)):
        raise PlanError("toolkit.torch_cuda", f"torch's CUDA is {cuda!r}, expected a version such as 13.0")
    return str(cuda).replace(".", "-")


def cuda_home(series: str) -> str:
    """Where NVIDIA's packages of a series lie. Never /usr/local/cuda: that link follows whichever was installed
    last."""
    return "/usr/local/cuda-" + series.replace("-", ".")


def is_driver(package: str) -> bool:
    """Whether a package is part of a GPU driver, which in a container belongs to the node and never to apt's
    resolver."""
    return bool(_DRIVER.match(package))


def complete_series(offered: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """The series, oldest first, for which every root package is offered (``offered``: package -> versions)."""
    found: dict[str, set[str]] = {}
    for package, versions in offered.items():
        match = _SERIES.search(package)
        if match and versions:
            found.setdefault(f"{match[1]}-{match[2]}", set()).add(package[: match.start()])
    return sorted((series for series, roots in found.items() if set(ROOTS) <= roots), key=_numbers)


def choose_series(
    torch_cuda: str,
    offered: t.Sequence[str],
    policy: str,
    refusal: t.Callable[[str], str | None] = lambda series: None,
) -> Choice:
    """The series for a torch of ``torch_cuda`` among the ``offered`` ones.

    ``exact`` takes torch's own or nothing. ``same_major`` takes torch's own when it can, else the nearest minor above
    it, else the nearest below: nvcc of another minor builds for this torch (torch only warns), and a newer one knows
    every GPU that an older one knows. ``refusal(series)`` answers why a series cannot compile in this container (its
    glibc or gcc), or None; same_major passes over such a series.
    """
    if policy not in POLICIES:
        raise PlanError("toolkit.policy", f"cuda_toolkit_policy is {policy!r}, expected one of {', '.join(POLICIES)}")
    own = series_of(torch_cuda)
    major, minor = _numbers(own)
    same_major = [series for series in offered if _numbers(series)[0] == major]
    above = sorted((series for series in same_major if _numbers(series)[1] >= minor), key=_numbers)
    below = sorted((series for series in same_major if _numbers(series)[1] < minor), key=_numbers, reverse=True)
    candidates = [series for series in above + below if policy == "same_major" or series == own]
    if not candidates:
        raise PlanError("toolkit.series_absent", _absent(torch_cuda, own, offered, policy))
    reasons: list[str] = []
    for series in candidates:
        reason = refusal(series)
        if reason is None:
            return Choice(series, _note(torch_cuda, own, series, offered, reasons))
        reasons.append(reason)
    raise PlanError("toolkit.cannot_compile", reasons[0])


def _absent(torch_cuda: str, own: str, offered: t.Sequence[str], policy: str) -> str:
    listed = ", ".join(offered) if offered else "none at all"
    major, _minor = _numbers(own)
    if policy == "exact" and any(_numbers(series)[0] == major for series in offered):
        hint = "set cuda_toolkit_policy: same_major to build with another minor version, or install another torch"
    elif offered:
        hint = f"install a torch that is built for one of these (nvcc of another major cannot build for CUDA {major})"
    else:
        hint = "register NVIDIA's CUDA repository and run apt update (role cuda_repository)"
    return (
        f"torch is built for CUDA {torch_cuda}, but the apt sources of this container do not offer cuda-nvcc-{own}"
        f" (offered series: {listed}); {hint}"
    )


def _note(torch_cuda: str, own: str, series: str, offered: t.Sequence[str], reasons: t.Sequence[str]) -> str:
    if series == own:
        return ""
    why = reasons[0] if own in offered and reasons else f"the repository does not offer cuda-nvcc-{own}"
    return f"torch is built for CUDA {torch_cuda}, series {series} is taken instead because {why}"


def root_packages(series: str, math_libraries: bool, extra: t.Iterable[str] = ()) -> list[str]:
    """The packages to ask for, each once. A name in ``extra`` without a series gets this one (libcurand-dev)."""
    names = [*ROOTS, *(MATH_ROOTS if math_libraries else ()), *extra]
    return list(dict.fromkeys(name if _SERIES.search(name) else f"{name}-{series}" for name in names))


def requests(
    series: str,
    roots: t.Sequence[str],
    wanted: t.Mapping[str, str],
    installed: t.Mapping[str, str],
    offered: t.Mapping[str, t.Sequence[str]],
) -> dict[str, str]:
    """Package -> exact version to ask apt for: the roots, what ``wanted`` names, and nvcc's parts at nvcc's own
    version.

    The version of a package is the one in ``wanted``, else the installed one (a toolkit that works is not moved
    because the repository moved on), else the newest offered; nvcc's parts follow nvcc. ``offered``: package ->
    versions, newest first. A wanted version of another series waits until that series is chosen. Raises PlanError for
    a package or version that nobody offers, with what is offered instead.
    """
    chosen: dict[str, str] = {}
    for name in dict.fromkeys([*roots, *(name for name in wanted if _of_series(name, series))]):
        available = list(dict.fromkeys([*offered.get(name, ()), *([installed[name]] if name in installed else [])]))
        if not available:
            raise PlanError(
                "toolkit.package_absent",
                f"the apt sources of this container do not offer the package {name}; check cuda_toolkit_extra_packages"
                f" and cuda_toolkit_versions for a name that the series {series} does not have",
            )
        version = wanted.get(name) or installed.get(name) or available[0]
        if version not in available:
            raise PlanError(
                "toolkit.version_absent",
                f"{name} has no version {version} (set in cuda_toolkit_versions); the apt sources offer"
                f" {', '.join(available)}",
            )
        chosen[name] = version
    compiler = chosen.get(f"cuda-nvcc-{series}")
    for part in (f"{stem}-{series}" for stem in COMPILER_PARTS):
        if part not in chosen and (compiler in offered.get(part, ()) or installed.get(part) == compiler):
            chosen[part] = t.cast(str, compiler)
    return chosen


def _of_series(name: str, series: str) -> bool:
    match = _SERIES.search(name)
    return not match or f"{match[1]}-{match[2]}" == series


def toolkit_members(closure: t.Iterable[str], series: str) -> list[str]:
    """The packages of this series among a dependency closure, sorted: what is pinned and held.

    The two config packages that all series share are left out, or a second series could never be installed.
    """
    endings = (f"-{series}", f"-{series}-config-common")
    return sorted({name for name in closure if name.endswith(endings) and name.startswith(("cuda-", "lib"))})


def parse_versions(madison: str) -> dict[str, list[str]]:
    """Output of ``apt-cache madison`` -> package -> versions, newest first, each once."""
    versions: dict[str, list[str]] = {}
    for line in madison.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 3 and fields[2].endswith("Packages") and fields[1] not in versions.setdefault(fields[0], []):
            versions[fields[0]].append(fields[1])
    return versions


def parse_closure(depends: str) -> list[str]:
    """Output of ``apt-cache depends --recurse`` -> names of real packages, the roots included."""
    return [line.strip() for line in depends.splitlines() if line and not line[0].isspace() and line[0] != "<"]


def parse_simulation(output: str) -> Simulation:
    """Output of ``apt-get -s install`` -> what it would install and remove."""
    installs, removes = [], []
    for line in output.splitlines():
        install, remove = _INST.match(line), _REMV.match(line)
        if install:
            installs.append((install["name"], install["new"], install["old"]))
        elif remove:
            removes.append(remove["name"])
    return Simulation(installs, removes)


def check_simulation(simulation: Simulation) -> None:
    """Raises PlanError when the plan would bring a driver, or take away what is installed."""
    drivers = [name for name, _new, _old in simulation.installs if is_driver(name)]
    if drivers:
        raise PlanError(
            "toolkit.driver_in_plan",
            f"installing the toolkit would also install a GPU driver ({', '.join(drivers)}), which belongs to the"
            " Proxmox node and not into a container; nothing was installed (take meta packages such as cuda or cuda-X-Y"
            " out of cuda_toolkit_extra_packages)",
        )
    if simulation.removes:
        raise PlanError(
            "toolkit.removes",
            f"installing the toolkit would remove {', '.join(simulation.removes)}; nothing was installed: remove or"
            " unpin the conflicting package first, if it is not needed",
        )


def explain_failure(output: str) -> PlanError:
    """Why ``apt-get -s install`` said no, as one sentence that names the pair of packages that cannot be satisfied."""
    lines = [line.strip() for line in output.splitlines()]
    unmet = [
        line for line in lines if re.match(r"^(?:\d+\. )?\S+ ?:? (?:Pre)?Depends: ", line) or "but it is not" in line
    ]
    errors = [line[3:] for line in lines if line.startswith("E: ")]
    if unmet:
        pair = re.sub(r"\s+", " ", unmet[0].replace(" : ", " "))
        return PlanError(
            "toolkit.unsatisfiable",
            f"apt cannot install the toolkit: {pair}; a held or pinned package is in the way, or the repository is"
            " incomplete: see apt-mark showhold, /etc/apt/preferences.d and apt-cache policy for the two packages",
        )
    reason = errors[0].rstrip(".") if errors else (lines[-1] if lines else "apt-get printed nothing")
    return PlanError("toolkit.apt", f"apt cannot plan the toolkit: {reason}")


def _numbers(series: str) -> tuple[int, int]:
    major, minor = series.split("-")
    return int(major), int(minor)
