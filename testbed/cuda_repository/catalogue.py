# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages a repository of the stand-in offers, with their versions and dependencies: data and pure functions.

Versions are those of one CUDA release a series (12.8.1, 13.0.3, 13.2.2), taken from NVIDIA's own ``cuda-toolkit``
wheel of that release; a Debian version is the component's with "-1". Names come from package lists that users
published. NVIDIA's Depends lines could not be read in full: those written here agree with every published closure that
was found, see README.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from .drivers import NEWEST_DRIVER, driver_packages
from .layout import Repository, dotted, major
from .repack import RECIPES

RELEASE = {"12-8": "12.8.1", "13-0": "13.0.3", "13-2": "13.2.2"}

# stem: version in 12-8, 13-0, 13-2. "-": the series has no such package; "=": the release's own number (meta packages).
_VERSIONS = """
cuda-nvcc                12.8.93    13.0.88    13.2.86
cuda-crt                 12.8.93    13.0.88    13.2.86
cuda-nvvm                12.8.93    -          -
libnvvm                  -          13.0.88    13.2.86
libnvptxcompiler         -          13.0.88    13.2.86
cuda-tileiras            -          -          13.2.86
cuda-cuobjdump           12.8.90    13.0.85    13.2.86
cuda-nvdisasm            12.8.90    13.0.85    13.2.86
cuda-cuxxfilt            12.8.90    13.0.85    13.2.86
cuda-nvprune             12.8.90    13.0.85    13.2.86
cuda-cudart              12.8.90    13.0.96    13.2.86
cuda-cudart-dev          12.8.90    13.0.96    13.2.86
cuda-driver-dev          12.8.90    13.0.96    13.2.86
cuda-cccl                12.8.90    13.0.85    13.2.86
cuda-culibos-dev         -          13.0.85    13.2.86
cuda-nvrtc               12.8.93    13.0.88    13.2.86
cuda-nvrtc-dev           12.8.93    13.0.88    13.2.86
cuda-nvtx                12.8.90    13.0.85    13.2.86
cuda-nvml-dev            12.8.90    13.0.87    13.2.86
cuda-profiler-api        12.8.90    13.0.85    13.2.86
cuda-cupti               12.8.90    13.0.85    13.2.86
cuda-cupti-dev           12.8.90    13.0.85    13.2.86
cuda-sanitizer           12.8.93    13.0.85    13.2.87
cuda-gdb                 12.8.90    13.0.85    13.2.86
cuda-opencl              12.8.90    13.0.85    13.2.86
cuda-opencl-dev          12.8.90    13.0.85    13.2.86
cuda-nsight              12.8.90    13.0.85    13.2.86
libcublas                12.8.4.1   13.1.1.3   13.4.1.3
libcublas-dev            12.8.4.1   13.1.1.3   13.4.1.3
libcusparse              12.5.8.93  12.6.3.3   12.7.10.12
libcusparse-dev          12.5.8.93  12.6.3.3   12.7.10.12
libcusolver              11.7.3.90  12.0.4.66  12.2.0.11
libcusolver-dev          11.7.3.90  12.0.4.66  12.2.0.11
libcurand                10.3.9.90  10.4.0.35  10.4.2.66
libcurand-dev            10.3.9.90  10.4.0.35  10.4.2.66
libcufft                 11.3.3.83  12.0.0.61  12.2.0.57
libcufft-dev             11.3.3.83  12.0.0.61  12.2.0.57
libcufile                1.13.1.3   1.15.1.6   1.17.1.22
libcufile-dev            1.13.1.3   1.15.1.6   1.17.1.22
libnpp                   12.3.3.100 13.0.1.2   13.1.0.59
libnpp-dev               12.3.3.100 13.0.1.2   13.1.0.59
libnvjitlink             12.8.93    13.0.88    13.2.86
libnvjitlink-dev         12.8.93    13.0.88    13.2.86
libnvfatbin              12.8.90    13.0.85    13.2.86
libnvfatbin-dev          12.8.90    13.0.85    13.2.86
libnvjpeg                12.3.5.92  13.0.1.86  13.1.0.59
libnvjpeg-dev            12.3.5.92  13.0.1.86  13.1.0.59
cuda-compiler            =          =          =
cuda-minimal-build       =          =          =
cuda-libraries           =          =          =
cuda-libraries-dev       =          =          =
cuda-command-line-tools  =          =          =
cuda-visual-tools        =          =          =
cuda-tools               =          =          =
cuda-toolkit             =          =          =
cuda-runtime             =          =          =
cuda                     =          =          =
"""

# An older release of some components stays in the index, as NVIDIA never prunes; all of these packages are empty.
_OLDER = """
cuda-nvcc                12.8.61    13.0.48    13.2.78
cuda-crt                 12.8.61    13.0.48    13.2.78
cuda-nvvm                12.8.61    -          -
libnvvm                  -          13.0.48    13.2.78
libnvptxcompiler         -          13.0.48    13.2.78
cuda-cudart              12.8.57    13.0.48    13.2.75
cuda-cudart-dev          12.8.57    13.0.48    13.2.75
cuda-driver-dev          12.8.57    13.0.48    13.2.75
cuda-cccl                12.8.55    13.0.50    13.2.75
libcublas                12.8.3.14  13.0.0.19  13.4.0.1
libcublas-dev            12.8.3.14  13.0.0.19  13.4.0.1
libcusparse              12.5.7.53  12.6.2.49  -
libcusparse-dev          12.5.7.53  12.6.2.49  -
libcusolver              11.7.2.55  12.0.3.29  -
libcusolver-dev          11.7.2.55  12.0.3.29  -
"""

_RUNTIME_LIBRARIES = (
    "cuda-cudart cuda-nvrtc cuda-opencl libcublas libcufft libcufile libcurand libcusolver libcusparse libnpp "
    "libnvfatbin libnvjitlink libnvjpeg"
)
# stem -> stems of the same series that it depends on; a stem that the series lacks drops out.
_DEPENDS = {
    "cuda-nvcc": "cuda-crt cuda-nvvm libnvvm libnvptxcompiler",
    "cuda-cudart-dev": "cuda-cudart cuda-driver-dev cuda-cccl cuda-culibos-dev",
    "cuda-nvrtc-dev": "cuda-nvrtc",
    "cuda-cupti-dev": "cuda-cupti",
    "cuda-opencl-dev": "cuda-opencl",
    "libcublas-dev": "libcublas",
    "libcusparse": "libnvjitlink",
    "libcusparse-dev": "libcusparse",
    "libcusolver": "libcublas libcusparse libnvjitlink",
    "libcusolver-dev": "libcusolver",
    "libcurand-dev": "libcurand",
    "libcufft-dev": "libcufft",
    "libcufile-dev": "libcufile",
    "libnpp-dev": "libnpp",
    "libnvjitlink-dev": "libnvjitlink",
    "libnvfatbin-dev": "libnvfatbin",
    "libnvjpeg-dev": "libnvjpeg",
    "cuda-compiler": "cuda-cuobjdump cuda-cuxxfilt cuda-nvcc cuda-nvprune cuda-tileiras",
    "cuda-minimal-build": "cuda-nvcc cuda-cudart-dev",
    "cuda-libraries": _RUNTIME_LIBRARIES,
    "cuda-libraries-dev": "cuda-cccl cuda-cudart-dev cuda-driver-dev cuda-nvrtc-dev cuda-opencl-dev cuda-profiler-api "
    "libcublas-dev libcufft-dev libcufile-dev libcurand-dev libcusolver-dev libcusparse-dev libnpp-dev libnvfatbin-dev "
    "libnvjitlink-dev libnvjpeg-dev",
    "cuda-command-line-tools": "cuda-cupti-dev cuda-gdb cuda-nvdisasm cuda-nvtx cuda-sanitizer",
    "cuda-visual-tools": "cuda-nsight cuda-nvml-dev",
    "cuda-tools": "cuda-command-line-tools cuda-visual-tools",
    "cuda-toolkit": "cuda-compiler cuda-libraries cuda-libraries-dev cuda-nvml-dev cuda-tools",
    "cuda-runtime": "cuda-libraries",
    "cuda": "cuda-runtime cuda-toolkit",
}
# stem -> what comes from the distribution.
_FROM_DISTRIBUTION = {"cuda-nvcc": ("build-essential",), "cuda-nsight": ("default-jre",)}
# First published as wheels with 13.2.
_NO_WHEEL = frozenset({("cuda-cuobjdump", "13-0"), ("cuda-nvdisasm", "13-0")})
# NVIDIA's runtime libraries bring the alternatives and the linker's search path with them.
_NEEDS_CONFIG = frozenset(_RUNTIME_LIBRARIES.split())


@dataclass(frozen=True)
class Package:
    """One package of the index.

    ``contents`` says what it holds: "wheel" (NVIDIA's own files, by the recipe of ``stem``), "config" (files that the
    stand-in writes after NVIDIA's) or "" (nothing).
    """

    name: str
    version: str
    architecture: str
    depends: tuple[str, ...] = ()
    stem: str = ""
    series: str = ""
    contents: str = ""

    @property
    def upstream(self) -> str:
        return self.version.rpartition("-")[0]

    @property
    def file_name(self) -> str:
        return f"{self.name}_{self.version}_{self.architecture}.deb"


def components(series: str, *, older: bool = False) -> dict[str, str]:
    """stem -> upstream version of one series; ``older``: of the release before, where the index still has it."""
    column = list(RELEASE).index(series) + 1
    rows = (line.split() for line in (_OLDER if older else _VERSIONS).strip().splitlines())
    versions = {row[0]: row[column] for row in rows if row[column] != "-"}
    return {stem: RELEASE[series] if version == "=" else version for stem, version in versions.items()}


def packages(repository: Repository) -> list[Package]:
    """Everything that ``repository`` offers except its keyring, ordered by name and version."""
    found = [package for series in repository.series for package in _series_packages(repository, series)]
    found += _umbrellas(repository)
    found += [
        Package(name, version, repository.deb_arch, depends)
        for name, version, depends in driver_packages(repository.family)
    ]
    return sorted(found, key=lambda package: (package.name, package.version))


def _series_packages(repository: Repository, series: str) -> list[Package]:
    current = components(series)
    found = [_component(repository, series, stem, version, current) for stem, version in current.items()]
    older = {**current, **components(series, older=True)}
    found += [
        _component(repository, series, stem, older[stem], older, empty=True) for stem in components(series, older=True)
    ]
    config = current["cuda-cudart"]
    for name in config_names(series)[:2]:
        found.append(Package(name, f"{config}-1", "all", series=series, contents="config"))
    return found


def _component(
    repository: Repository, series: str, stem: str, version: str, versions: dict[str, str], *, empty: bool = False
) -> Package:
    depends = [*_FROM_DISTRIBUTION.get(stem, ())]
    for other in _DEPENDS.get(stem, "").split():
        if other in versions:
            depends.append(f"{other}-{series} (>= {versions[other]})")
    if stem == "cuda-runtime":
        driver = "cuda-drivers" if major(series) == "12" else "nvidia-open"
        depends.append(f"{driver} (>= {NEWEST_DRIVER[series]})")
    if stem in _NEEDS_CONFIG:
        depends += config_names(series)
    packed = not empty and stem in RECIPES and repository.deb_arch == "amd64" and (stem, series) not in _NO_WHEEL
    contents = "wheel" if packed and series != "12-8" else ""
    return Package(f"{stem}-{series}", f"{version}-1", repository.deb_arch, tuple(depends), stem, series, contents)


def config_names(series: str) -> tuple[str, str, str]:
    """The three packages that set the alternatives and the linker's path: of the series, of the major, of all."""
    return (
        f"cuda-toolkit-{series}-config-common",
        f"cuda-toolkit-{major(series)}-config-common",
        "cuda-toolkit-config-common",
    )


def _umbrellas(repository: Repository) -> list[Package]:
    """The packages without a series in their name, which follow the newest: the traps ``cuda`` and ``cuda-toolkit``."""
    found = []
    for series in repository.series:
        version = f"{RELEASE[series]}-1"
        config = components(series)["cuda-cudart"]
        found.append(Package("cuda-toolkit-config-common", f"{config}-1", "all", series=series, contents="config"))
        for stem in ("cuda", "cuda-toolkit"):
            found.append(
                Package(stem, version, repository.deb_arch, (f"{stem}-{series} (>= {RELEASE[series]})",), stem, series)
            )
        name = f"cuda-toolkit-{major(series)}"
        found.append(Package(name, version, repository.deb_arch, (f"cuda-toolkit-{series} (>= {RELEASE[series]})",)))
    return found


def description(package: Package) -> str:
    """The Description field, which says in its first words what the package is."""
    if package.contents == "wheel":
        return (
            f"stand-in for NVIDIA's {package.name}: NVIDIA's own files\n"
            f"Repackaged from the PyPI wheel {RECIPES[package.stem].wheel} of CUDA {dotted(package.series)} for tests."
        )
    if package.contents == "config":
        return f"stand-in for NVIDIA's {package.name}: same links and paths\nWritten by the testbed."
    return f"empty stand-in for NVIDIA's {package.name}\nName, version and dependencies are NVIDIA's; no file is."
