# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie in the stand-in for NVIDIA's CUDA repository host: pure data and path arithmetic.

NVIDIA keeps one flat repository (``deb ... /``) a distribution and architecture below ``compute/cuda/repos``. Which
series a repository offers follows what users report of the real ones: debian13 never got 12.x or 13.0, ubuntu2204 no
13.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

BASE = PurePosixPath("compute/cuda/repos")
NVIDIA_URL = "https://developer.download.nvidia.com/compute/cuda/repos"
KEYRING_VERSION = "1.1-1"
KEYRING_DEB = f"cuda-keyring_{KEYRING_VERSION}_all.deb"

# NVIDIA's path name -> (dpkg's name, name below /usr/local/cuda-X.Y/targets).
_ARCHITECTURES = {"x86_64": ("amd64", "x86_64-linux"), "sbsa": ("arm64", "sbsa-linux")}


@dataclass(frozen=True, order=True)
class Repository:
    """One flat repository: ``distro`` and ``arch`` as NVIDIA's path spells them, ``series`` oldest first ("13-0")."""

    distro: str
    arch: str
    series: tuple[str, ...]

    @property
    def name(self) -> str:
        """Key used by the manifest and by the fault helpers: "debian12/x86_64"."""
        return f"{self.distro}/{self.arch}"

    @property
    def path(self) -> PurePosixPath:
        """Place below the built folder, which is also the path in the URL."""
        return BASE / self.distro / self.arch

    @property
    def deb_arch(self) -> str:
        return _ARCHITECTURES[self.arch][0]

    @property
    def target(self) -> str:
        return _ARCHITECTURES[self.arch][1]

    @property
    def family(self) -> str:
        """Either "debian" or "ubuntu": NVIDIA names its driver packages differently for the two."""
        return self.distro.rstrip("0123456789")

    @property
    def true_url(self) -> str:
        """What NVIDIA's own keyring package writes for this repository (no trailing slash)."""
        return f"{NVIDIA_URL}/{self.distro}/{self.arch}"


_SERIES = {
    "debian12": ("12-8", "13-0", "13-2"),
    "debian13": ("13-2",),
    "ubuntu2204": ("12-8", "13-0"),
    "ubuntu2404": ("12-8", "13-0", "13-2"),
}
REPOSITORIES = tuple(
    Repository(distro, arch, series)
    for distro, series in _SERIES.items()
    for arch in sorted(_ARCHITECTURES, reverse=True)
)


def repository(name: str) -> Repository:
    """The repository called ``name`` ("debian12/x86_64"); KeyError lists the names when there is none."""
    for entry in REPOSITORIES:
        if entry.name == name:
            return entry
    raise KeyError(f"{name}: the stand-in has {', '.join(entry.name for entry in REPOSITORIES)}")


def dotted(series: str) -> str:
    """13.0 for "13-0"."""
    return series.replace("-", ".")


def major(series: str) -> str:
    """13 for "13-0"."""
    return series.partition("-")[0]


def toolkit_root(series: str) -> str:
    """Where a series installs, without a leading slash: "usr/local/cuda-13.0"."""
    return f"usr/local/cuda-{dotted(series)}"
