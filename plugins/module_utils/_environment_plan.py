# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What has to be installed into a Python environment, and what must not move while it is. Pure.

Adding one package never moves another: everything that is installed is pinned by a constraint file while pip resolves,
except what was named with a wish that the installed version does not meet, or with the empty wish ("any version").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ._chain.versions import public, satisfies
from ._observe.distributions import normalise


@dataclass(frozen=True)
class Torch:
    """The torch that is installed. ``version`` None: none. ``cuda`` None: a CPU build. ``problem``: half installed.

    ``companions``: what torch pins (CUDA libraries, triton) with its wish for each; they move with it.
    """

    version: str | None = None
    cuda: str | None = None
    problem: str | None = None
    companions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wish:
    """``torch``: a version ("2.14.1") or clauses (">=2.13,<2.15"). ``packages``: the same by name, "" for any.

    ``keep_installed``: a package that is there is a good one, whatever its version.
    """

    torch: str
    packages: Mapping[str, str] = field(default_factory=dict)
    cpu_only: bool = False
    replace_torch: bool = False
    keep_installed: bool = False


@dataclass(frozen=True)
class Plan:
    """``requirements``: for the installer; none: nothing is to be done. ``constraints``: what stays as it is.

    ``uninstall``: what has to go first. ``refused``: why nothing may be done, with ``{path}`` for the environment.
    """

    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    uninstall: tuple[str, ...] = ()
    refused: str | None = None

    @property
    def installs_torch(self) -> bool:
        return any(
            one.startswith("torch=") or one.startswith(("torch>", "torch<", "torch~")) for one in self.requirements
        )


_REPLACE = "set torch_environment_replace_torch to true to replace it, or torch_environment_path to another environment"


def requirement(name: str, wish: str) -> str:
    """``einops==0.8.0`` of "0.8.0", ``einops>=0.8`` of ">=0.8", ``einops`` of ""."""
    wish = wish.strip()
    if not wish or wish == "*":
        return name
    return f"{name}{wish}" if wish[0] in "=<>!~" else f"{name}=={wish}"


def plan(installed: Mapping[str, str], torch: Torch, wish: Wish, lacking: Mapping[str, str] | None = None) -> Plan:
    """``installed`` maps normalised names to versions, ``lacking`` what the installed ones need and is not there to the
    versions that they need."""
    refused = _refusal(torch, wish)
    if refused:
        return Plan(refused=refused)
    packages = {normalise(name): str(version) for name, version in wish.packages.items()}
    moves_torch = _moves_torch(torch, wish)
    astray = {} if moves_torch else _astray(installed, torch)
    wanted = {
        **(lacking or {}),
        **astray,
        **{
            name: version
            for name, version in packages.items()
            if name not in installed or not (wish.keep_installed or satisfies(installed[name], version))
        },
    }
    if not wanted and not moves_torch:
        return Plan()
    movable = {name for name in wanted if name in installed}
    movable |= {name for name, version in packages.items() if not version.strip("* ")}
    if moves_torch:
        movable |= {"torch", *torch.companions}
    requirements = [requirement(name, version) for name, version in sorted(wanted.items())]
    if moves_torch:
        requirements.insert(0, _torch_requirement(wish))
    return Plan(
        requirements=tuple(requirements),
        constraints=tuple(f"{name}=={version}" for name, version in sorted(installed.items()) if name not in movable),
        # pip takes "2.14.1+cpu" for a good "2.14.1" and would leave it.
        uninstall=("torch",) if moves_torch and torch.version and not torch.problem else (),
    )


def _refusal(torch: Torch, wish: Wish) -> str | None:
    if torch.version is None or torch.problem or wish.replace_torch:
        return None
    if not torch.cuda and not wish.cpu_only:
        return (
            f"torch {torch.version} in {{path}} is not a CUDA build, and one is wanted; {_REPLACE} "
            "(a host without a GPU sets torch_environment_cpu_only)"
        )
    if not satisfies(torch.version, wish.torch):
        return (
            f"torch {torch.version} is installed in {{path}}, and {wish.torch} is wanted (torch_environment_torch); "
            f"what was built against it would no longer load: {_REPLACE}, or torch_environment_torch to "
            f"{public(torch.version)}"
        )
    return None


def _moves_torch(torch: Torch, wish: Wish) -> bool:
    if torch.version is None or torch.problem:
        return True
    return not satisfies(torch.version, wish.torch) or (not torch.cuda and not wish.cpu_only)


def _astray(installed: Mapping[str, str], torch: Torch) -> dict[str, str]:
    """What torch pins and another installation moved or removed."""
    return {name: spec for name, spec in torch.companions.items() if not satisfies(installed.get(name), spec)}


def _torch_requirement(wish: Wish) -> str:
    """An exact wish for a CUDA build bars that version's CPU build, which pip would prefer ("+cpu" sorts up)."""
    text = requirement("torch", wish.torch)
    exact = text.partition("==")[2]
    return f"{text},!={exact}+cpu" if not wish.cpu_only and exact.replace(".", "").isalnum() else text


def moved(before: Mapping[str, str], after: Mapping[str, str], done: Plan) -> list[str]:
    """What changed although it was to stay: ["numpy 2.2.6 -> 2.4.0", "einops 0.8.0 -> gone"]."""
    pinned = {one.partition("==")[0] for one in done.constraints}
    return [
        f"{name} {before[name]} -> {after.get(name, 'gone')}"
        for name in sorted(pinned & set(before))
        if after.get(name) != before[name]
    ]
