# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""GPU targets as nvcc names them: ``sm_90`` is machine code for one GPU, ``compute_90`` is PTX that a driver compiles
later.

People write targets in torch's way (``9.0``, ``9.0+PTX``), as a compute capability (``90``) or in nvcc's way; all of
them become nvcc's names here, so that two spellings of one target never make two wheels.
"""

from __future__ import annotations

import re
import typing as t

_SPELLING = re.compile(
    r"^(?:(?P<kind>sm|compute)_)?(?P<major>\d{1,2}?)\.?(?P<minor>\d)(?P<suffix>[af]?)(?P<ptx>\+PTX)?$", re.IGNORECASE
)
_CANONICAL = re.compile(r"^(sm|compute)_(\d+)(\d)([af]?)$")


def parse_target(text: str) -> tuple[str, ...]:
    """One target as a person writes it -> nvcc's names: ``"9.0+PTX"`` -> ``("sm_90", "compute_90")``.

    Raises ValueError, with a sentence, for anything that is not a target.
    """
    match = _SPELLING.match(str(text).strip())
    if not match or (match["kind"] and match["ptx"]):
        raise ValueError(
            f"{text!r} is not a GPU target: write the compute capability (9.0), with +PTX if wanted (9.0+PTX),"
            " or nvcc's name (sm_90, compute_90)"
        )
    number = f"{int(match['major'])}{match['minor']}{match['suffix'].lower()}"
    if match["kind"]:
        return (f"{match['kind'].lower()}_{number}",)
    return (f"sm_{number}", f"compute_{number}") if match["ptx"] else (f"sm_{number}",)


def normalise_targets(texts: t.Iterable[str]) -> tuple[str, ...]:
    """Targets in any spelling and order, with repeats -> nvcc's names, each once, in order of GPU generation."""
    return tuple(sorted({name for text in texts for name in parse_target(text)}, key=_order))


def _order(name: str) -> tuple[int, int, str, str]:
    kind, major, minor, suffix = split_target(name)
    return int(major), int(minor), suffix, "0" if kind == "sm" else "1"


def split_target(name: str) -> tuple[str, int, int, str]:
    """``"sm_100a"`` -> ``("sm", 10, 0, "a")``. Raises ValueError for a name that nvcc would not know the form of."""
    match = _CANONICAL.match(name)
    if not match:
        raise ValueError(f"{name!r} is not the name of a GPU target (sm_90, compute_90)")
    return match[1], int(match[2]), int(match[3]), match[4]


def runs_on(targets: t.Iterable[str], capability: tuple[int, int]) -> bool:
    """Whether code of these targets runs on a GPU of this compute capability, as (major, minor).

    Machine code runs on the same major at an equal or higher minor; PTX on everything equal or newer. The suffix
    ``a`` binds code to its one GPU, ``f`` to the GPUs of its family (here: the same major, equal or higher minor).
    """
    for name in targets:
        kind, major, minor, suffix = split_target(name)
        if suffix == "a":
            fits = capability == (major, minor)
        elif kind == "sm" or suffix == "f":
            fits = capability[0] == major and capability[1] >= minor
        else:
            fits = capability >= (major, minor)
        if fits:
            return True
    return False
