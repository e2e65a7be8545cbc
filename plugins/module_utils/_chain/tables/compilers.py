# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA -> the newest gcc whose headers it accepts, and the glibc that its headers clash with."""

from __future__ import annotations

from ..versions import at_least, minor
from .lookup import NotInTable, Source

SOURCE = Source(
    "crt/host_config.h and crt/math_functions.h of the toolkits; torch's own table of gcc bounds", "2026-11-30"
)

#: CUDA -> newest major of gcc.
NEWEST_GCC = {
    "11.8": 11,
    "12.0": 12,
    "12.1": 12,
    "12.2": 12,
    "12.3": 13,
    "12.4": 13,
    "12.5": 13,
    "12.6": 13,
    "12.8": 14,
    "12.9": 14,
    "13.0": 15,
    "13.1": 15,
    "13.2": 15,
    "13.5": 16,
}

#: CUDA -> the first glibc whose <math.h> clashes with its headers (cospi, sinpi from 2.41; rsqrt from 2.42); None: no
#: clash known.
CLASHING_GLIBC = {
    "11.8": "2.41",
    "12.0": "2.41",
    "12.1": "2.41",
    "12.2": "2.41",
    "12.3": "2.41",
    "12.4": "2.41",
    "12.5": "2.41",
    "12.6": "2.41",
    "12.8": "2.41",
    "12.9": "2.41",
    "13.0": "2.42",
    "13.1": "2.42",
    "13.2": None,
    "13.5": None,
}


def newest_gcc(cuda: object) -> int | NotInTable:
    """The newest gcc major for a CUDA: 15 for "13.0.88"."""
    row = NEWEST_GCC.get(minor(cuda) or "")
    return row if row else NotInTable(f"the newest gcc for CUDA {cuda}", SOURCE)


def glibc_clashes(cuda: object, glibc: object) -> bool | NotInTable:
    """Whether this CUDA's headers clash with this glibc. NotInTable is false as well."""
    key = minor(cuda) or ""
    if key not in CLASHING_GLIBC:
        return NotInTable(f"glibc and CUDA {cuda}", SOURCE)
    first = CLASHING_GLIBC[key]
    return first is not None and at_least(glibc, first)


def first_cuda_for_glibc(glibc: object) -> str | NotInTable:
    """The oldest CUDA in the table whose headers compile with this glibc: "13.0" for "2.41"."""
    for cuda, first in CLASHING_GLIBC.items():
        if first is None or not at_least(glibc, first):
            return cuda
    return NotInTable(f"a CUDA for glibc {glibc}", SOURCE)
