# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule sees: the wishes and the facts of one host, read through a few questions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .versions import numbers


@dataclass(frozen=True)
class Look:
    """desired: {role: {variable without the role's prefix: value}}, and "explicit": the names that somebody set.

    facts: {link: {...}} as the module observed them; a section that could not be observed is {"error": sentence}.
    """

    desired: dict[str, Any]
    facts: dict[str, Any]

    def wish(self, role: str, name: str, default: Any = None) -> Any:
        """The value of a role variable; the default also where the variable is null."""
        value = (self.desired.get(role) or {}).get(name)
        return default if value is None else value

    def explicit(self, role: str, name: str) -> bool:
        """Whether somebody set this variable; the roles' own defaults are a wish of ours, not theirs."""
        return f"{role}_{name}" in (self.desired.get("explicit") or ())

    def section(self, link: str) -> dict[str, Any]:
        """The facts of a link; {} when they were not observed."""
        found = self.facts.get(link)
        return found if isinstance(found, dict) and not found.get("error") else {}

    def error(self, link: str) -> str | None:
        """Why a link's facts could not be observed."""
        found = self.facts.get(link)
        return str(found["error"]) if isinstance(found, dict) and found.get("error") else None

    @property
    def cpu_only(self) -> bool:
        return bool(self.wish("torch_environment", "cpu_only", False))

    @property
    def wanted_extensions(self) -> list[dict[str, Any]]:
        """[{name, version}] with version None where any will do."""
        wanted = []
        for item in self.wish("cuda_extensions", "wanted", []) or []:
            if isinstance(item, dict) and item.get("name"):
                wanted.append({"name": str(item["name"]), "version": item.get("version")})
            elif isinstance(item, str):
                wanted.append({"name": item, "version": None})
        return wanted

    @property
    def torch_cuda(self) -> str | None:
        """The CUDA of the installed torch, "13.0"; None when there is none, or a CPU build."""
        return self.section("torch").get("cuda")

    @property
    def nothing_to_compile(self) -> str | None:
        """Why no compiler for CUDA is needed, as a half sentence; None when one is."""
        if self.cpu_only:
            return "torch_environment_cpu_only is set"
        if not self.wanted_extensions:
            return "no extension is wanted (cuda_extensions_wanted is empty)"
        return None

    @property
    def usable_nvccs(self) -> list[dict[str, Any]]:
        """The compilers that answered with a version and have torch's CUDA major; all of them when torch has none."""
        wanted = numbers(self.torch_cuda)[:1]
        found = [nvcc for nvcc in self.section("toolkit").get("nvccs") or [] if nvcc.get("version")]
        return [nvcc for nvcc in found if not wanted or numbers(nvcc["version"])[:1] == wanted]

    @property
    def capabilities(self) -> list[str]:
        """Compute capabilities of the GPUs that the container sees, "9.0"."""
        gpus = self.section("gpu").get("gpus") or []
        return sorted({str(gpu["capability"]) for gpu in gpus if gpu.get("capability")})

    @property
    def driver(self) -> str | None:
        """The version of the kernel module on the node, as the container sees it; None when none is loaded."""
        return self.section("gpu").get("module_version")
