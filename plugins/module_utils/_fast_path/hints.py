# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what to do about an error text that is known, and versions that are known to be bad together."""

from __future__ import annotations

import re

# (pattern in the error text, what to do). The first that matches wins.
_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"Triton >= ?3\.4\.0 and < ?3\.7\.1 on Hopper",
        "upgrade triton to 3.7.1 or later, or install tilelang",
    ),
    (
        r"undefined symbol|symbol not found",
        "build the extension again for the torch that is installed (cuda_extensions)",
    ),
    (r"no kernel image is available|invalid device function", "build the extension for this GPU's compute capability"),
    (r"No module named '(triton|einops|torch)'", "install the missing package into the training environment"),
    (r"half a package", "install the whole package again, at one version"),
    (
        r"Python\.h|[Ff]ailed to find C compiler|gcc: |cc1: ",
        "install gcc and the Python headers (python3-dev): Triton compiles at run time",
    ),
    (r"libcuda\.so", "make the driver's libcuda.so.1 visible (ldconfig, or TRITON_LIBCUDA_PATH)"),
    (r"out of memory", "free GPU memory, or prove with a smaller --lengths"),
    (r"cannot be accessed from Triton|cpu tensor", "put the model on one GPU, and make that GPU the current device"),
    (r"can't keep packed sequences apart", "install the package that it names, or train without packing"),
    (r"no module 'causal_conv1d'", "install causal-conv1d (role cuda_extensions)"),
    (r"no module 'fla'", "install flash-linear-attention (role torch_environment)"),
    (r"no module 'mamba_ssm'", "install mamba-ssm (role cuda_extensions)"),
)


def remedy(text: str | None) -> str | None:
    """What to do about an error text; None when nothing is known about it."""
    for pattern, action in _REMEDIES:
        if text and re.search(pattern, text):
            return action
    return None


def numbers(version: str | None) -> tuple[int, ...]:
    """``3.7.1+cu130`` -> (3, 7, 1); () when there is no version."""
    found = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(word) for word in found.group().split(".")) if found else ()


def known_bad(versions: dict[str, str | None], capabilities: list[str]) -> list[str]:
    """Sentences about combinations that are known to fail; the proof itself decides, these say why early."""
    found = []
    triton, fla, ffi = (numbers(versions.get(n)) for n in ("triton", "fla", "apache_tvm_ffi"))
    if fla >= (0, 5) and (3, 4) <= triton < (3, 7, 1) and "9.0" in capabilities and not versions.get("tilelang"):
        found.append(
            f"fla {versions['fla']} refuses the backward pass of gated delta rules on Hopper with triton "
            f"{versions['triton']}: upgrade triton to 3.7.1 or later, or install tilelang."
        )
    if ffi in ((0, 1, 10), (0, 1, 11)) and any(c.startswith("10.") for c in capabilities):
        found.append(
            f"apache-tvm-ffi {versions['apache_tvm_ffi']} fails with misaligned addresses on Blackwell: "
            "install 0.1.9, or 0.1.12 and later."
        )
    return found
