# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a table answers for a row that it does not have: no guess, but an object that is false and reads as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Source:
    """Where a table's rows come from, and the day on which they were read."""

    text: str
    date: str


@dataclass(frozen=True)
class NotInTable:
    """False in a condition; as text "CUDA 14.0 is not in my table (of 2026-11-30)"."""

    what: str
    source: Source

    def __bool__(self) -> Literal[False]:
        return False

    def __str__(self) -> str:
        return f"{self.what} is not in my table (of {self.source.date})"
