# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch -> the CUDA of its builds, the C++ standard of its headers, its triton, and the GPU targets in its wheels."""

from __future__ import annotations

from dataclasses import dataclass

from ..versions import numbers
from .lookup import NotInTable, Source

SOURCE = Source(
    "metadata of the cp311 x86_64 wheels on PyPI; RELEASE.md of pytorch for the other variants", "2026-11-30"
)


@dataclass(frozen=True)
class TorchBuild:
    """cuda: the CUDA of the build on PyPI. variants: the CUDA of other official builds. cxx: the C++ standard."""

    cuda: str
    variants: tuple[str, ...]
    triton: str
    cxx: int


BUILDS = {
    "2.4": TorchBuild("12.1", ("11.8", "12.4"), "3.0.0", 17),
    "2.5": TorchBuild("12.4", ("11.8", "12.1"), "3.1.0", 17),
    "2.6": TorchBuild("12.4", ("11.8", "12.6"), "3.2.0", 17),
    "2.7": TorchBuild("12.6", ("11.8", "12.8"), "3.3.1", 17),
    "2.8": TorchBuild("12.8", ("12.6", "12.9"), "3.4.0", 17),
    "2.9": TorchBuild("12.8", ("12.6", "13.0"), "3.5.1", 17),
    "2.10": TorchBuild("12.8", ("12.6", "13.0"), "3.6.0", 17),
    "2.11": TorchBuild("13.0", ("12.6", "12.8"), "3.6.0", 17),
    "2.12": TorchBuild("13.0", ("12.6", "13.2"), "3.7.1", 17),
    "2.13": TorchBuild("13.0", ("12.6", "13.2"), "3.7.1", 20),
    "2.14": TorchBuild("13.0", ("12.6", "13.2"), "3.8.0", 20),
    "2.15": TorchBuild("13.2", (), "3.9.0", 20),
}

#: CUDA of the build -> targets compiled into the x86_64 wheels (without the dot). A GPU runs a target of its own
#: major whose minor is not above its own; PTX of the last one runs on what is newer.
TARGETS = {
    "12.6": (50, 60, 70, 75, 80, 86, 90),
    "12.8": (75, 80, 86, 90, 100, 120),
    "13.0": (75, 80, 86, 90, 100, 120),
    "13.2": (75, 80, 86, 90, 100, 120),
}
#: CUDA of the builds whose wheels carry PTX for their last target.
WITH_PTX = frozenset(("13.0", "13.2"))


def build(version: object) -> TorchBuild | NotInTable:
    """The row of a torch version such as "2.14.1+cu130"."""
    parts = numbers(version)
    row = BUILDS.get(".".join(str(part) for part in parts[:2]))
    return row if row else NotInTable(f"torch {version}", SOURCE)


def runs_on(cuda: object, capability: object) -> bool | NotInTable:
    """Whether the official x86_64 wheels of a CUDA hold code for a GPU of compute capability "9.0".

    False as a plain bool means no; NotInTable (also false) means that nobody wrote it down: ask "is False".
    """
    targets = TARGETS.get(str(cuda))
    gpu = numbers(capability)
    if targets is None or len(gpu) < 2:
        return NotInTable(f"the list of GPU targets in torch's builds for CUDA {cuda}", SOURCE)
    wanted = gpu[0] * 10 + gpu[1]
    if any(target // 10 == gpu[0] and target <= wanted for target in targets):
        return True
    return str(cuda) in WITH_PTX and wanted > targets[-1]
