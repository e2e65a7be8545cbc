# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the compilers on a machine the roles build with. Pure; for whoever observes and for whoever judges."""

from __future__ import annotations

from typing import Any

from .versions import minor, numbers


def chosen(nvccs: list[dict[str, Any]], cuda: object) -> dict[str, Any] | None:
    """The compiler for a torch of this CUDA; None when none has its major version.

    A whole toolkit comes before a part of one, torch's own minor version before another, a package's before one
    installed by hand, and a newer one before an older one.
    """
    wanted = numbers(cuda)[:2]

    def rank(nvcc: dict[str, Any]) -> tuple[bool, bool, bool, tuple[int, ...]]:
        version = numbers(nvcc["version"])
        return (not nvcc.get("missing"), version[:2] == wanted, bool(nvcc.get("package")), version)

    fitting = [nvcc for nvcc in nvccs if nvcc.get("version") and numbers(nvcc["version"])[:1] == wanted[:1]]
    return max(fitting, key=rank, default=None)


def home_of(nvcc: dict[str, Any]) -> str:
    """The toolkit's folder, which builds are given as CUDA_HOME: "/usr/local/cuda-13.0" for ".../bin/nvcc"."""
    return str(nvcc.get("home") or minor(nvcc.get("version")) and f"/usr/local/cuda-{minor(nvcc['version'])}")
