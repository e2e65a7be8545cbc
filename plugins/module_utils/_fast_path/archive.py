# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: this package as one zip archive that Python runs: the one-file command line, and what a child is given."""

from __future__ import annotations

import importlib.util
import io
import zipfile

# Imported by name so that Ansible's module builder, which follows imports only, ships every part to the target.
from . import (
    binding,
    cache,
    cases,
    cli,
    config,
    decoding,
    design,
    explain,
    families,
    fast,
    hints,
    hub,
    layer,
    marks,
    packages,
    progress,
    references,
    report,
    right,
    sizes,
    trial,
    tuning,
    verdict,
)

NAME = "_fast_path"
_PARTS = (
    binding,
    cache,
    cases,
    cli,
    config,
    decoding,
    design,
    explain,
    families,
    fast,
    hints,
    hub,
    layer,
    marks,
    packages,
    progress,
    references,
    report,
    right,
    sizes,
    trial,
    tuning,
    verdict,
)
_MAIN = b"import sys\nfrom _fast_path.cli import main\nsys.exit(main())\n"
_HEADER = b"#!/usr/bin/env python3\n"


def sources() -> dict[str, bytes]:
    """File name in the package -> text, read through the loader: works from a folder and from inside a zip."""
    names = {"__init__.py": __package__ or NAME, **{p.__name__.rpartition(".")[2] + ".py": p.__name__ for p in _PARTS}}
    files = {}
    for file, name in names.items():
        spec = importlib.util.find_spec(name)
        # get_source is of loaders for source files, which all of these are.
        text = spec.loader.get_source(name) if spec and spec.loader else ""  # type: ignore[attr-defined]
        # Ansible's own loader of collections gives bytes where Python's give a string.
        files[file] = text if isinstance(text, bytes) else text.encode()
    return files


def build(header: bool = False) -> bytes:
    """The archive. ``header`` puts a shebang line in front, which Python and unzip both accept.

    The same sources give the same bytes: entries are sorted and carry one fixed time.
    """
    buffer = io.BytesIO()
    if header:
        buffer.write(_HEADER)
    with zipfile.ZipFile(buffer, "a" if header else "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in [("__main__.py", _MAIN), *((f"{NAME}/{k}", v) for k, v in sorted(sources().items()))]:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
