# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute capability -> the first CUDA that compiles for it, and the one that dropped it."""

from __future__ import annotations

from dataclasses import dataclass

from ..versions import at_least, numbers
from .lookup import NotInTable, Source

SOURCE = Source("nvcc --list-gpu-code and ptxas --help of nvcc 11.8.89 to 13.5.37", "2026-11-30")


@dataclass(frozen=True)
class Capability:
    """first: the oldest CUDA read that has the target (11.8 means 11.8 or older). dropped: the first one without it."""

    first: str
    dropped: str | None = None


CAPABILITIES = {
    "3.5": Capability("11.8", "12.0"),
    "3.7": Capability("11.8", "12.0"),
    "5.0": Capability("11.8", "13.0"),
    "5.2": Capability("11.8", "13.0"),
    "5.3": Capability("11.8", "13.0"),
    "6.0": Capability("11.8", "13.0"),
    "6.1": Capability("11.8", "13.0"),
    "6.2": Capability("11.8", "13.0"),
    "7.0": Capability("11.8", "13.0"),
    "7.2": Capability("11.8", "13.0"),
    "7.5": Capability("11.8"),
    "8.0": Capability("11.8"),
    "8.6": Capability("11.8"),
    "8.7": Capability("11.8"),
    "8.8": Capability("13.0"),
    "8.9": Capability("11.8"),
    "9.0": Capability("11.8"),
    "10.0": Capability("12.8"),
    "10.1": Capability("12.8", "13.0"),
    "10.3": Capability("12.9"),
    "10.7": Capability("13.5"),
    "11.0": Capability("13.0"),
    "12.0": Capability("12.8"),
    "12.1": Capability("12.9"),
}


def capability(number: object) -> Capability | NotInTable:
    """The row of a compute capability, "9.0", "90" or "sm_90"."""
    row = CAPABILITIES.get(dotted(number))
    return row if row else NotInTable(f"a GPU of compute capability {number}", SOURCE)


def compiles(cuda: object, number: object) -> bool | NotInTable:
    """Whether this CUDA's nvcc has a target for the GPU. NotInTable is false too: ask "is False" for a plain no."""
    row = capability(number)
    # A false row is a NotInTable, which mypy does not see.
    if not row:
        return row  # type: ignore[return-value]
    dropped = row.dropped is not None and at_least(cuda, row.dropped)
    return at_least(cuda, row.first) and not dropped


def dotted(number: object) -> str:
    r""" "9.0" for "9.0", "90", "sm_90" and "sm_90a"; "" for what is none of these."""
    text = str(number or "").strip().lower().replace("sm_", "").replace("compute_", "").rstrip("af")
    if "." in text:
        parts = numbers(text)
        return f"{parts[0]}.{parts[1]}" if len(parts) > 1 else ""
    return f"{text[:-1]}.{text[-1]}" if len(text) > 1 and text.isdigit() else ""


def cubin_runs(target: object, number: object) -> bool:
    """Whether machine code for one target runs on a GPU: same major, minor not above the GPU's."""
    code, gpu = numbers(dotted(target)), numbers(dotted(number))
    return len(code) > 1 and len(gpu) > 1 and code[0] == gpu[0] and code[1] <= gpu[1]
