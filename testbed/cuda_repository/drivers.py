# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver packages of NVIDIA's repositories, all empty here: the traps that a container must never install.

NVIDIA's Debian repositories have one package a component and any number of versions of it; the Ubuntu ones have the
branch in the package's name.
"""

from __future__ import annotations

_VERSIONS = ("580.95.05", "595.71.05")
# series -> the driver that its release brought, which is what cuda-runtime asks for.
NEWEST_DRIVER = {"12-8": "570.124.06", "13-0": "580.95.05", "13-2": "595.71.05"}

_DEBIAN = {
    "cuda-drivers": ("nvidia-driver", "nvidia-driver-cuda", "nvidia-kernel-dkms"),
    "nvidia-open": ("nvidia-driver", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"),
    "nvidia-driver": ("nvidia-driver-bin", "nvidia-driver-libs", "nvidia-modprobe"),
    "nvidia-driver-bin": (),
    "nvidia-driver-libs": ("libnvidia-ml1", "libcuda1"),
    "nvidia-driver-cuda": ("libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "nvidia-persistenced"),
    "nvidia-kernel-dkms": ("nvidia-kernel-support",),
    "nvidia-kernel-open-dkms": ("nvidia-kernel-support",),
    "nvidia-kernel-support": ("nvidia-modprobe",),
    "nvidia-modprobe": (),
    "nvidia-persistenced": (),
    "libcuda1": (),
    "libnvidia-ml1": (),
    "libnvidia-ptxjitcompiler1": (),
}
_UBUNTU = {
    "cuda-drivers-{branch}": ("nvidia-driver-{branch}",),
    "nvidia-driver-{branch}": ("libnvidia-compute-{branch}", "nvidia-dkms-{branch}", "nvidia-utils-{branch}"),
    "nvidia-driver-{branch}-open": ("libnvidia-compute-{branch}", "nvidia-dkms-{branch}-open", "nvidia-utils-{branch}"),
    "nvidia-dkms-{branch}": ("nvidia-kernel-common-{branch}",),
    "nvidia-dkms-{branch}-open": ("nvidia-kernel-common-{branch}",),
    "nvidia-kernel-common-{branch}": (),
    "nvidia-utils-{branch}": ("libnvidia-compute-{branch}",),
    "libnvidia-compute-{branch}": (),
}
_UBUNTU_TOPS = {"cuda-drivers": "cuda-drivers-{branch}", "nvidia-open": "nvidia-driver-{branch}-open"}
# Lies in the same repositories and is no driver: a rule that blocks drivers must let it pass.
_HARMLESS = (("nvidia-container-toolkit", "1.18.0-1", ()),)
_FROM_DISTRIBUTION = {"nvidia-kernel-dkms": ("dkms",), "nvidia-kernel-open-dkms": ("dkms",)}


def driver_packages(family: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """(name, version, depends) for "debian" or "ubuntu"."""
    found: list[tuple[str, str, tuple[str, ...]]] = list(_HARMLESS)
    for version in _VERSIONS:
        if family == "debian":
            exact = f"{version}-1"
            for name, depends in _DEBIAN.items():
                own = tuple(f"{other} (= {exact})" for other in depends)
                found.append((name, exact, _FROM_DISTRIBUTION.get(name, ()) + own))
            continue
        branch = version.partition(".")[0]
        exact = f"{version}-0ubuntu1"
        for pattern, patterns in _UBUNTU.items():
            own = tuple(f"{other.format(branch=branch)} (= {exact})" for other in patterns)
            found.append((pattern.format(branch=branch), exact, ("dkms",) * ("-dkms-" in pattern) + own))
        found += [(name, exact, (f"{top.format(branch=branch)} (= {exact})",)) for name, top in _UBUNTU_TOPS.items()]
    return found
