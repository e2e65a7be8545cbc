# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source archives of the stand-ins beside this file: packages with a real one's names that compile in seconds.

With them the roles go their whole way, by the real nvcc, in tests that cannot wait six minutes for the real package.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

FOLDER = Path(__file__).parent
#: Where the tests put an archive in a container.
PLACE = "/opt/standins"


def archive(name: str, version: str = "1.7.0") -> bytes:
    """The source archive of a stand-in; the same sources give the same bytes."""
    root = f"{name}-{version}"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
        _add(tar, f"{root}/PKG-INFO", metadata)
        for path in sorted((FOLDER / name).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                _add(tar, f"{root}/{path.relative_to(FOLDER / name)}", path.read_bytes())
    return gzip.compress(packed.getvalue(), mtime=0)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def wish(name: str = "causal_conv1d", version: str = "1.7.0") -> dict[str, str]:
    """The entry of cuda_extensions_wanted that builds the stand-in in the real package's place."""
    return {
        "name": name.replace("_", "-"),
        "version": version,
        "source": f"{PLACE}/{name}-{version}.tar.gz",
        "sha256": hashlib.sha256(archive(name, version)).hexdigest(),
    }
