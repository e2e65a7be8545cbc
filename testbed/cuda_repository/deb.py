# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A writer for Debian binary packages, standard library only (format: deb(5), deb-control(5)).

Written by hand rather than through dpkg-deb for one reason: files go from a wheel's zip straight into the package, so
that a compiler of 360 MB is never unpacked to disk. The bytes depend on the arguments alone.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

# Any fixed date does; 2025-09-02 is when the oldest of the real compilers inside was built.
_MTIME = 1756771200
_LEVEL = 1

# deb-control(5) wants these first and in about this order; fields that are not listed follow alphabetically.
_ORDER = (
    "Package",
    "Version",
    "Architecture",
    "Priority",
    "Section",
    "Maintainer",
    "Installed-Size",
    "Depends",
    "Description",
)


@dataclass(frozen=True)
class Entry:
    """One file (``data``) or symbolic link (``target``) of a package; ``path`` has no leading slash."""

    path: str
    data: bytes = b""
    target: str = ""
    mode: int = 0o644


def control_text(fields: Mapping[str, str]) -> str:
    """``fields`` as one control paragraph, ending in a newline.

    A value of several lines is written in the folded form: each further line starts with a space, an empty one becomes
    " .". An empty value leaves its field out.
    """
    known = [name for name in _ORDER if fields.get(name)]
    other = sorted(name for name in fields if name not in _ORDER and fields[name])
    lines: list[str] = []
    for name in known + other:
        first, *more = fields[name].split("\n")
        lines.append(f"{name}: {first}")
        lines.extend(f" {line}" if line else " ." for line in more)
    return "\n".join(lines) + "\n"


def write(
    path: Path,
    fields: Mapping[str, str],
    entries: Iterable[Entry] = (),
    scripts: Mapping[str, str] | None = None,
    conffiles: Sequence[str] = (),
    triggers: str = "",
) -> None:
    """Write the package ``path``; ``entries`` is consumed one file at a time, and Installed-Size is filled in.

    ``scripts`` maps a maintainer script's name (postinst, prerm, ...) to its text; ``conffiles`` are absolute paths;
    ``triggers`` is the text of the control file of that name (deb-triggers(5)). The file appears at ``path`` whole or
    not at all.
    """
    with tempfile.TemporaryFile(dir=path.parent) as data:
        sums, size = _write_data(data, entries)
        members = {"control": control_text({**fields, "Installed-Size": str(max(1, -(-size // 1024)))})}
        if sums:
            members["md5sums"] = "".join(f"{digest}  {name}\n" for name, digest in sums)
        if conffiles:
            members["conffiles"] = "".join(f"{name}\n" for name in conffiles)
        if triggers:
            members["triggers"] = triggers
        control = _control_archive(members, scripts or {})
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with draft.open("wb") as out:
            out.write(b"!<arch>\n")
            _ar_member(out, "debian-binary", io.BytesIO(b"2.0\n"), 4)
            _ar_member(out, "control.tar.gz", io.BytesIO(control), len(control))
            length = data.tell()
            data.seek(0)
            _ar_member(out, "data.tar.gz", data, length)
        draft.replace(path)


def _write_data(out: IO[bytes], entries: Iterable[Entry]) -> tuple[list[tuple[str, str]], int]:
    sums: list[tuple[str, str]] = []
    size = 0
    seen: set[PurePosixPath] = set()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=_LEVEL, mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        archive.addfile(_info("./", tarfile.DIRTYPE, 0o755))
        for entry in entries:
            place = PurePosixPath(entry.path)
            # dpkg refuses a file whose folder is neither there nor in the package.
            for parent in reversed(place.parents[:-1]):
                if parent not in seen:
                    seen.add(parent)
                    archive.addfile(_info(f"./{parent}/", tarfile.DIRTYPE, 0o755))
            if entry.target:
                link = _info(f"./{place}", tarfile.SYMTYPE, 0o777)
                link.linkname = entry.target
                archive.addfile(link)
                continue
            info = _info(f"./{place}", tarfile.REGTYPE, entry.mode)
            info.size = len(entry.data)
            archive.addfile(info, io.BytesIO(entry.data))
            sums.append((str(place), hashlib.md5(entry.data, usedforsecurity=False).hexdigest()))
            size += len(entry.data)
    return sums, size


def _control_archive(members: Mapping[str, str], scripts: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=_LEVEL, mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        archive.addfile(_info("./", tarfile.DIRTYPE, 0o755))
        for name, text in [*members.items(), *scripts.items()]:
            content = text.encode()
            info = _info(f"./{name}", tarfile.REGTYPE, 0o755 if name in scripts else 0o644)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _info(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = kind, mode, _MTIME
    info.uname = info.gname = "root"
    return info


def _ar_member(out: IO[bytes], name: str, content: IO[bytes], length: int) -> None:
    out.write(f"{name:<16}{_MTIME:<12}{0:<6}{0:<6}{'100644':<8}{length:<10}`\n".encode("ascii"))
    shutil.copyfileobj(content, out, 1 << 20)
    if length % 2:
        out.write(b"\n")
