#!/usr/bin/python
# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_toolkit_plan_info
short_description: Plan which CUDA toolkit packages a container gets, without installing anything
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Chooses the series of the toolkit by torch's own CUDA among the series that the apt lists on disk offer, resolves
    the exact version of each package, lets apt simulate the installation, and searches the simulated plan for GPU
    drivers.
  - Nothing is installed, fetched or written, and the module answers in check mode as well. What speaks against a plan
    is returned as RV(problem) and does not fail the task, so that a caller can decide.
options:
  torch_cuda:
    description: The CUDA that torch was built for, such as V(13.0).
    type: str
    required: true
  policy:
    description:
      - Which series fits when the apt sources lack torch's own.
      - V(exact) takes torch's own series or none.
      - V(same_major) takes torch's own where it can, else the nearest minor above it, else the nearest below it. It
        passes over a series whose headers do not compile with the container's C library or compiler.
    type: str
    choices: [same_major, exact]
    default: same_major
  math_libraries:
    description:
      - Whether the headers of cuBLAS, cuSPARSE and cuSOLVER belong to the plan.
      - V(auto) takes them if a description in O(extensions) asks for them.
    type: str
    choices: [auto, 'true', 'false']
    default: auto
  extensions:
    description: The wanted extensions, as in C(cuda_extensions_wanted).
    type: list
    elements: dict
    default: []
  extra_packages:
    description: More packages of the toolkit. A name without a series gets the one of the plan.
    type: list
    elements: str
    default: []
  versions:
    description: Exact versions of packages, by name. Without one the installed version stays, else the newest is taken.
    type: dict
    default: {}
  build_packages:
    description: Packages of the distribution that builds need, at whatever version it offers.
    type: list
    elements: str
    default: [g++, python3-dev, ninja-build]
  gcc:
    description: Version of the container's gcc. Not compared if it is not given.
    type: str
  glibc:
    description: Version of the container's C library. Not compared if it is not given.
    type: str
attributes:
  check_mode:
    support: full
    description: Can run in check mode, since it changes nothing.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to show.
  idempotent:
    support: full
    description: Changes nothing.
  platform:
    support: full
    platforms: debian
    description: Systems that use apt.
seealso:
  - module: proxmox_gpu.training.chain_info
"""

EXAMPLES = r"""
- name: Plan the toolkit for a torch of CUDA 13.0
  proxmox_gpu.training.cuda_toolkit_plan_info:
    torch_cuda: "13.0"
  register: plan

- name: Show what would be installed
  ansible.builtin.debug:
    var: plan.install
"""

RETURN = r"""
problem:
  description: Why there is no plan, or null.
  returned: always
  type: dict
  sample: {id: toolkit.series_absent, sentence: "torch is built for CUDA 13.0, but ..."}
series:
  description: The chosen series, or null.
  returned: always
  type: str
  sample: 13-0
cuda_home:
  description: Folder of the chosen series.
  returned: when a series was chosen
  type: str
  sample: /usr/local/cuda-13.0
note:
  description: Why the series is not torch's own. Empty when it is.
  returned: when a series was chosen
  type: str
offered_series:
  description: The series that the apt lists offer whole.
  returned: always
  type: list
  elements: str
  sample: [12-8, 13-0, 13-2]
requests:
  description: What apt is asked for, with exact versions.
  returned: when there is a plan
  type: list
  elements: str
  sample: [cuda-nvcc-13-0=13.0.88-1, cuda-cudart-dev-13-0=13.0.96-1, g++, ninja-build]
install:
  description: What the simulation would install. C(installed) is the version now, or null.
  returned: when there is a plan
  type: list
  elements: dict
  sample: [{name: cuda-nvcc-13-0, version: 13.0.88-1, installed: null}]
members:
  description:
    - The packages of the series after the installation, with exact versions. They are what gets pinned and held.
    - Those that somebody else installed of it are among them, packages of other series are not.
  returned: when there is a plan
  type: dict
  sample: {cuda-nvcc-13-0: 13.0.88-1}
to_hold:
  description: Members that are not held yet.
  returned: when there is a plan
  type: list
  elements: str
moves_held:
  description: Whether the plan changes the version of a package that is held.
  returned: when there is a plan
  type: bool
other_toolkits:
  description: Toolkits of other series that are installed. They are left alone.
  returned: always
  type: list
  elements: dict
  sample: [{series: 12-8, path: /usr/local/cuda-12.8, packages: 9}]
"""

import re
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _apt_errors, _toolkit_plan
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.tables import compilers
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.versions import major
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import math_headers_wanted
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host, Output
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.toolkit import TOOLKIT_NAME
from ansible_collections.proxmox_gpu.training.plugins.module_utils._toolkit_plan import PlanError

DEPENDENCIES_ONLY = [
    f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
]
TIMEOUT = 120.0  # seconds; apt builds its cache anew after an update


class Apt:
    """apt's answers about one machine, from its lists on disk."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def offered(self, *names: str) -> dict[str, list[str]]:
        """Package -> versions, newest first, of the given names."""
        return _toolkit_plan.parse_versions(self._ask("apt-cache", "madison", *names)) if names else {}

    def offered_roots(self) -> dict[str, list[str]]:
        """The same for the root packages of every series that any list names."""
        names = [self._ask("apt-cache", "pkgnames", f"{root}-").split() for root in _toolkit_plan.ROOTS]
        return self.offered(*[name for group in names for name in group])

    def closure(self, names: t.Iterable[str]) -> list[str]:
        """The names of these packages and of everything that they depend on."""
        return _toolkit_plan.parse_closure(self._ask("apt-cache", "depends", "--recurse", *DEPENDENCIES_ONLY, *names))

    def simulate(self, requests: t.Sequence[str]) -> _toolkit_plan.Simulation:
        """What an installation would do. Raises PlanError with apt's reason if it cannot be done."""
        if not requests:
            return _toolkit_plan.Simulation([], [])
        options = ["--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages"]
        output = self._run("apt-get", "--simulate", "install", *options, *requests)
        if output.status != 0:
            raise self._failure(output)
        return _toolkit_plan.parse_simulation(output.stdout)

    def _ask(self, *command: str) -> str:
        output = self._run(*command)
        if output.status != 0:
            raise self._failure(output)
        return output.stdout

    def _run(self, program: str, *arguments: str) -> Output:
        return self.host.run(f"/usr/bin/{program}", *arguments, timeout=TIMEOUT)

    @staticmethod
    def _failure(output: Output) -> PlanError:
        text = output.stdout + output.stderr
        if "unmet dependencies" not in text and "Unable to satisfy dependencies" not in text:
            known = _apt_errors.explain(text, _apt_errors.Context())
            if known and known.kind != "other":
                return PlanError(f"apt.{known.kind}", known.sentence)
        return _toolkit_plan.explain_failure(output.problem or text)


def cannot_compile(glibc: str | None, gcc: str | None) -> t.Callable[[str], str | None]:
    """A function that says why a series cannot compile in this container, by the tables of glibc and gcc, or None."""

    def reason(series: str) -> str | None:
        cuda = series.replace("-", ".")
        if glibc and compilers.glibc_clashes(cuda, glibc):
            first = compilers.first_cuda_for_glibc(glibc)
            return (
                f"the headers of CUDA {cuda} do not compile with this container's glibc {glibc} (CUDA {first} or"
                " newer does):"
                f" install a torch that is built for CUDA {first} or newer, or use an older distribution"
            )
        newest = compilers.newest_gcc(cuda)
        if gcc and newest and (major(gcc) or 0) > newest:
            return (
                f"CUDA {cuda} takes gcc up to {newest}, and this container has gcc {gcc}: install g++-{newest}"
                " and make it"
                " the default, or install a torch that is built for a newer CUDA"
            )
        return None

    return reason


def plan(wish: dict[str, t.Any], host: Host, apt: Apt, result: dict[str, t.Any]) -> None:
    """Fill the result step by step, so that a PlanError leaves in it what was found out before."""
    offered = apt.offered_roots()
    result["offered_series"] = _toolkit_plan.complete_series(offered)
    choice = _toolkit_plan.choose_series(
        wish["torch_cuda"], result["offered_series"], wish["policy"], cannot_compile(wish["glibc"], wish["gcc"])
    )
    series = choice.series
    result.update(series=series, note=choice.note, cuda_home=_toolkit_plan.cuda_home(series))
    result["other_toolkits"] = other_toolkits(host, series)
    math = wish["math_libraries"] == "true" or (
        wish["math_libraries"] == "auto" and math_headers_wanted(wish["extensions"])
    )
    roots = _toolkit_plan.root_packages(series, math, wish["extra_packages"])
    names = [*roots, *wish["versions"], *(f"{part}-{series}" for part in _toolkit_plan.COMPILER_PARTS)]
    installed = {name: package.version for name, package in host.packages.items() if package.installed}
    exact = _toolkit_plan.requests(series, roots, wish["versions"], installed, apt.offered(*dict.fromkeys(names)))
    # What is there already is not asked for: apt would "upgrade" a package to the version that it has, if the
    # repository's copy of it differs in a single field.
    missing = [f"{name}={version}" for name, version in exact.items() if installed.get(name) != version]
    result["requests"] = missing + [name for name in wish["build_packages"] if name not in installed]
    simulation = apt.simulate(result["requests"])
    _toolkit_plan.check_simulation(simulation)
    result["install"] = [{"name": n, "version": new, "installed": old} for n, new, old in simulation.installs]
    versions = {**installed, **{name: new for name, new, _old in simulation.installs}}
    # What somebody installed of the same series belongs to the set: moving it alone would take the set apart.
    of_toolkits = [name for name in installed if TOOLKIT_NAME.match(name)]
    members = _toolkit_plan.toolkit_members([*apt.closure(roots), *exact, *of_toolkits], series)
    result["members"] = {name: versions[name] for name in members if name in versions}
    held = {name for name, package in host.packages.items() if package.held}
    result["to_hold"] = [name for name in result["members"] if name not in held]
    result["moves_held"] = any(name in held for name, _new, _old in simulation.installs)


def other_toolkits(host: Host, series: str | None) -> list[dict[str, t.Any]]:
    """The toolkits that are installed in packages of other series, oldest first."""
    counts: dict[str, int] = {}
    for name, package in host.packages.items():
        match = re.search(r"^(?:cuda|lib(?:nv|cu))\S*-(\d+-\d+)$", name)
        if match and package.installed and match[1] != series:
            counts[match[1]] = counts.get(match[1], 0) + 1
    homes = {other: _toolkit_plan.cuda_home(other) for other in counts}
    ordered = sorted(counts, key=lambda text: tuple(int(part) for part in text.split("-")))
    return [{"series": other, "path": homes[other], "packages": counts[other]} for other in ordered]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "torch_cuda": {"type": "str", "required": True},
            "policy": {"type": "str", "choices": list(_toolkit_plan.POLICIES), "default": "same_major"},
            "math_libraries": {"type": "str", "choices": ["auto", "true", "false"], "default": "auto"},
            "extensions": {"type": "list", "elements": "dict", "default": []},
            "extra_packages": {"type": "list", "elements": "str", "default": []},
            "versions": {"type": "dict", "default": {}},
            "build_packages": {"type": "list", "elements": "str", "default": ["g++", "python3-dev", "ninja-build"]},
            "gcc": {"type": "str"},
            "glibc": {"type": "str"},
        },
        supports_check_mode=True,
    )
    host = Host()
    result: dict[str, t.Any] = {"changed": False, "problem": None, "series": None, "offered_series": []}
    result["other_toolkits"] = []
    try:
        plan(module.params, host, Apt(host), result)
    except PlanError as error:
        result["problem"] = {"id": error.id, "sentence": str(error)}
    except ValueError as error:
        result["problem"] = {"id": "extensions.description", "sentence": str(error)}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
