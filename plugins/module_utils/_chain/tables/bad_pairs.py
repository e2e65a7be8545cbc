# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of versions that install, import, and then fail or compute nonsense."""

from __future__ import annotations

from dataclasses import dataclass

from ..versions import satisfies
from .lookup import Source

SOURCE = Source("one H200 measured by us in November 2026, and the issue trackers named in each row", "2026-11-30")


@dataclass(frozen=True)
class BadPair:
    """packages: name -> range, all of which must be met. capabilities: the GPUs concerned, () for all of them.

    sign: what a user sees. cure: what to change. seen: where it was reported.
    """

    name: str
    packages: dict[str, str]
    capabilities: tuple[str, ...]
    sign: str
    cure: str
    seen: str


PAIRS = (
    BadPair(
        "triton-fla-hopper",
        {"triton": ">=3.4.0,<3.7.1", "fla-core": ">=0.6.0,<0.7"},
        ("9.0",),
        "the forward pass is right, and the first backward pass raises",
        "use torch 2.12 or newer (it brings triton 3.7.1), or fla-core 0.5, or install tilelang",
        "measured: torch 2.11 with triton 3.6 and fla-core 0.6.0 on an H200",
    ),
    BadPair(
        "tvm-ffi-blackwell",
        {"apache-tvm-ffi": ">=0.1.10,<0.1.12"},
        ("10.0",),
        "kernels die of a misaligned address",
        "pin apache-tvm-ffi to 0.1.9",
        "unslothai/unsloth PR#5434",
    ),
)


def bad_pairs(distributions: dict[str, str], capabilities: list[str]) -> list[BadPair]:
    """The rows that an environment meets. A row for certain GPUs counts only when one of them is known to be there."""
    return [
        pair
        for pair in PAIRS
        if all(name in distributions and satisfies(distributions[name], span) for name, span in pair.packages.items())
        and (not pair.capabilities or any(gpu in pair.capabilities for gpu in capabilities))
    ]
