# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""transformers -> how its fast path binds, which range of the kernels package it takes, and what it gets wrong."""

from __future__ import annotations

from dataclasses import dataclass

from ..versions import at_least, numbers, satisfies
from .lookup import NotInTable, Source

SOURCE = Source("the modelling files and import_utils.py of the wheels 4.57.6 to 5.24.0, read and run", "2026-11-30")

#: The first and last release that were read: outside of them the table says nothing.
FIRST, LAST = "4.57", "5.24"

#: A module global is computed once, at import (or by the first layer): "is_fast_path_available".
MODULE_FLAG = "module_flag"
#: Each function carries a decorator that picks its implementation at import.
DECORATED = "decorated"

#: (first release, design); the last row that is not above the version counts.
DESIGNS = (("4.57", MODULE_FLAG), ("5.15", DECORATED))

#: (first release, range of the kernels package that it takes); None: any version is taken.
KERNELS = (
    ("4.57", None),
    ("5.0", ">=0.9.0"),
    ("5.2", ">=0.10.2"),
    ("5.14", ">=0.15.2,<0.16.0"),
    ("5.15", ">=0.16.0,<0.17.0"),
    ("5.23", ">=0.18.2,<0.19.0"),
)


@dataclass(frozen=True)
class Fault:
    """A release that is slow or wrong on its own account. needs: text of the package and range that avoids it."""

    releases: str
    text: str
    avoid: str


#: What a release does wrong whatever is installed.
FAULTS = (
    Fault(
        ">=5.15,<5.17",
        "transformers 5.15 and 5.16 fall back to PyTorch without a word, and do not find fla when fla-core stands "
        "alone or flash-linear-attention is 0.4 or older",
        "transformers 5.17 or newer",
    ),
    Fault(
        ">=5.15,<5.16",
        "transformers 5.15 asks fla for recurrent_gated_delta_rule, a name that fla has never had, so decoding is "
        "always slow",
        "transformers 5.17 or newer",
    ),
    Fault(
        ">=5.15,<5.20.2",
        "on the fallback, packed sequences influence each other without an error",
        "the fast path, or transformers 5.20.2 or newer, which refuses",
    ),
)


def known(version: object) -> bool:
    parts = numbers(version)[:2]
    return len(parts) == 2 and numbers(FIRST) <= parts <= numbers(LAST)


def design(version: object) -> str | NotInTable:
    """How a release binds its fast path: MODULE_FLAG or DECORATED."""
    if not known(version):
        return NotInTable(f"transformers {version}", SOURCE)
    return [name for first, name in DESIGNS if at_least(version, first)][-1]


def kernels_range(version: object) -> str | None | NotInTable:
    """The range of the kernels package that a release takes; None: any."""
    if not known(version):
        return NotInTable(f"transformers {version}", SOURCE)
    rows: list[str | None] = [window for first, window in KERNELS if at_least(version, first)]
    return rows[-1]


def faults(version: object) -> list[Fault]:
    """What this release gets wrong by itself; [] also for releases that nobody read."""
    return [fault for fault in FAULTS if known(version) and satisfies(version, fault.releases)]
