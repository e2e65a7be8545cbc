# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA -> the oldest driver that runs it, and the driver that the toolkit itself was released with."""

from __future__ import annotations

from ..versions import at_least, major, minor
from .lookup import NotInTable, Source

SOURCE = Source(
    "NVIDIA's CUDA compatibility guide (minor version compatibility) and the toolkits' release notes", "2026-11-30"
)

#: CUDA major -> the first driver branch that runs every minor version of it.
FLOORS = {11: "450", 12: "525", 13: "580"}

#: CUDA -> driver of its first release; from there on PTX is compiled by the driver as well.
OWN = {
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
}


def floor(cuda: object) -> str | NotInTable:
    """The oldest driver that runs programs of this CUDA: "580" for "13.2"."""
    row = FLOORS.get(major(cuda) or 0)
    return row if row else NotInTable(f"the oldest driver for CUDA {cuda}", SOURCE)


def own(cuda: object) -> str | NotInTable:
    """The driver that came with this CUDA, which PTX needs: "595.45.04" for "13.2"."""
    row = OWN.get(minor(cuda) or "")
    return row if row else NotInTable(f"the driver that came with CUDA {cuda}", SOURCE)


def runs(driver: object, cuda: object) -> bool | NotInTable:
    """Whether a driver runs programs of this CUDA. NotInTable is false too: ask "is False" for a plain no."""
    needed = floor(cuda)
    # A false one is a NotInTable, which mypy does not see.
    return at_least(driver, needed) if needed else needed  # type: ignore[return-value]


def newest_cuda(driver: object) -> int | NotInTable:
    """The newest CUDA major that this driver runs: 12 for "570.86"."""
    fits = [cuda for cuda, needed in FLOORS.items() if at_least(driver, needed)]
    return max(fits) if fits else NotInTable(f"the CUDA of driver {driver}", SOURCE)
