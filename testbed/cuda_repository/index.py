# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index files of a flat apt repository, in the form that NVIDIA's publishing script gives them.

That form differs from Debian's: ``Origin: NVIDIA``, ``Label: NVIDIA CUDA``, a single ``Architecture`` that is NVIDIA's
path name, no Suite, no Valid-Until, ``Acquire-By-Hash: no``, and file names that start with "./".
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from .deb import control_text

if TYPE_CHECKING:
    from datetime import datetime

_ALGORITHMS = {"MD5sum": "md5", "SHA1": "sha1", "SHA256": "sha256", "SHA512": "sha512"}


@dataclass(frozen=True)
class Digest:
    """Size in bytes and hexadecimal digests of one file; the keys are those of a Packages stanza."""

    size: int
    sums: Mapping[str, str]


def digest(content: bytes) -> Digest:
    return Digest(len(content), {field: hashlib.new(name, content).hexdigest() for field, name in _ALGORITHMS.items()})


def digest_file(path: Path) -> Digest:
    """The digest of a file of any size, read once."""
    hashers = {field: hashlib.new(name) for field, name in _ALGORITHMS.items()}
    size = 0
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            size += len(block)
            for hasher in hashers.values():
                hasher.update(block)
    return Digest(size, {field: hasher.hexdigest() for field, hasher in hashers.items()})


def stanza(fields: Mapping[str, str], file_name: str, of: Digest) -> str:
    """One paragraph of Packages: the package's control fields, then where it lies and what it must hash to."""
    return control_text({**fields, "Filename": f"./{file_name}", "Size": str(of.size), **of.sums})


def packages_text(stanzas: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in stanzas)


def packages_files(stanzas: Iterable[str]) -> dict[str, bytes]:
    """The two spellings of the index that a repository carries, by file name."""
    text = packages_text(stanzas).encode()
    return {"Packages": text, "Packages.gz": gzip.compress(text, 6, mtime=0)}


def release_text(arch: str, date: datetime, files: Mapping[str, bytes]) -> str:
    """The Release file over ``files`` (name -> content); ``date`` must carry UTC, apt refuses a date in the future."""
    lines = [
        "Origin: NVIDIA",
        "Label: NVIDIA CUDA",
        f"Architecture: {arch}",
        f"Date: {format_datetime(date, usegmt=True)}",
    ]
    for heading, field in (("MD5Sum", "MD5sum"), ("SHA1", "SHA1"), ("SHA256", "SHA256")):
        lines.append(f"{heading}:")
        for name, content in sorted(files.items()):
            of = digest(content)
            lines.append(f" {of.sums[field]} {of.size:16d} {name}")
    lines.append("Acquire-By-Hash: no")
    return "\n".join(lines) + "\n"
