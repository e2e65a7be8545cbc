# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CONTENTS.md of a built folder: which packages carry NVIDIA's files and which are empty."""

from __future__ import annotations

from . import catalogue, wheels
from .layout import REPOSITORIES, dotted
from .repack import RECIPES

_HEAD = """\
# A stand-in for NVIDIA's CUDA repository host

Built by `python3 -m testbed.cuda_repository build` for tests; it is not NVIDIA's repository and must not be published:
the compiler, headers and libraries inside are NVIDIA's and stay under NVIDIA's licence
(`/usr/share/doc/<package>/copyright`). The signing key is the stand-in's own. `signing/` holds its private half and is
not served.

## NVIDIA's own files, repackaged from PyPI wheels (x86_64 only)

| package | version | wheel |
|---|---|---|
"""
_TAIL = """
Written by the stand-in after NVIDIA's: `cuda-keyring` (NVIDIA's true URL, the stand-in's key), the `config-common`
packages, the link stub `libcuda.so` of `cuda-driver-dev` (symbols of NVIDIA's cuda.h, each answers
CUDA_ERROR_STUB_LIBRARY), and `nvcc.profile` of 13.2, whose paths are turned from the wheel's tree to `targets/`.

## Empty packages (name, version and dependencies only)

On sbsa all packages but the keyring and the config-common ones are empty; on x86_64:

"""


def contents_text() -> str:
    """The report for the catalogue as it stands."""
    listed = wheels.table()
    rows: dict[str, str] = {}
    empty: dict[str, set[str]] = {}
    for repository in REPOSITORIES:
        for package in catalogue.packages(repository):
            if package.contents == "wheel":
                wheel = listed[RECIPES[package.stem].wheel, package.series]
                rows[package.file_name] = f"| {package.name} | {package.version} | {wheel.name} {wheel.version} |"
            elif not package.contents and repository.arch == "x86_64":
                empty.setdefault(package.name, set()).add(package.version)
    real = "\n".join(rows[name] for name in sorted(rows)) + "\n"
    hollow = "\n".join(f"- {name}: {', '.join(sorted(versions))}" for name, versions in sorted(empty.items())) + "\n"
    offered = "\n".join(
        f"- {entry.name}: {', '.join(dotted(series) for series in entry.series)}" for entry in REPOSITORIES
    )
    return f"{_HEAD}{real}{_TAIL}{hollow}\n## Series by repository\n\n{offered}\n"
