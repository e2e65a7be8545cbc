# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Which GPU targets a compiled extension holds, read from the file itself: no CUDA tool, no import, no GPU.

nvcc puts device code into the ELF section ``.nv_fatbin`` (``__nv_relfatbin`` for relocatable device code): a row of
"fat binaries", each a header and a row of entries, each entry a header and machine code or PTX. Only the headers are
read, so the time follows the number of entries and not the size of the file (a 260 MB module takes milliseconds).

The layout was established by compiling for known targets with nvcc 13.0.88 and comparing with ``cuobjdump --list-elf
--list-ptx`` 13.5.37. One difference stays: cuobjdump calls family code ``sm_100``, this calls it ``sm_100f`` as nvcc
does.
"""

from __future__ import annotations

import os
import struct
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils._gpu_targets import normalise_targets

_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
_FATBIN_MAGIC = b"\x50\xed\x55\xba"
_FATBIN_HEADER = struct.Struct("<4sHHQ")  # magic, version, size of this header, size of what follows it
_ENTRY_HEADER = struct.Struct("<HHIQ12xI8xQ")  # kind, version, header size, body size, ..., architecture, ..., flags
_KINDS = {1: "compute", 2: "sm"}
_ARCH_SPECIFIC = 1 << 20  # sm_90a
_FAMILY_SPECIFIC = 1 << 21  # sm_100f
_SCAN_BLOCK = 1 << 16


class ElfError(Exception):
    """The file is not an ELF file that this module can read, or it is damaged. The message is a sentence."""


def gpu_targets(path: str) -> tuple[str, ...]:
    """The GPU targets in the shared object at ``path``, by nvcc's names, in order: ``("sm_80", "sm_90",
    "compute_90")``.

    Empty when the file holds no device code. Raises ElfError for a file that is no 64-bit little-endian ELF or is
    damaged, OSError for one that cannot be read.
    """
    names: set[str] = set()
    with open(path, "rb") as handle:
        for start, size in _device_sections(handle, path):
            names.update(_targets_between(handle, start, start + size, path))
    return normalise_targets(names)


def _device_sections(handle: t.BinaryIO, path: str) -> list[tuple[int, int]]:
    """(offset, size) of each section with device code."""
    header = handle.read(64)
    if header[:4] != b"\x7fELF":
        raise ElfError(f"{path} is not an ELF file")
    if len(header) < 64 or header[4:6] != b"\x02\x01":
        raise ElfError(f"{path} is not a 64-bit little-endian ELF file")
    table_offset = struct.unpack_from("<Q", header, 40)[0]
    entry_size, count, names_index = struct.unpack_from("<HHH", header, 58)
    if not table_offset:
        raise ElfError(f"{path} has no section table (stripped beyond use), its GPU targets cannot be read")
    if entry_size < 64:
        raise ElfError(f"{path} is damaged: its section table has entries of {entry_size} bytes")
    if not count or names_index == 0xFFFF:  # more sections than 16 bits count: the first entry holds the numbers
        first = _read(handle, table_offset, 64, path)
        count = count or struct.unpack_from("<Q", first, 32)[0]
        names_index = struct.unpack_from("<I", first, 40)[0] if names_index == 0xFFFF else names_index
    table = _read(handle, table_offset, entry_size * count, path)
    if names_index >= count:
        raise ElfError(f"{path} is damaged: it points to section {names_index} of {count} for names")
    sections = [_section(table, index * entry_size) for index in range(count)]
    _name, names_offset, names_size = sections[names_index]
    names = _read(handle, names_offset, names_size, path)
    wanted = []
    for name_at, offset, size in sections:
        if names[name_at : names.find(b"\0", name_at)] in _SECTIONS:
            _check_room(handle, offset, size, path)
            wanted.append((offset, size))
    return wanted


def _section(table: bytes, at: int) -> tuple[int, int, int]:
    name = struct.unpack_from("<I", table, at)[0]
    offset, size = struct.unpack_from("<QQ", table, at + 24)
    return name, offset, size


def _targets_between(handle: t.BinaryIO, position: int, end: int, path: str) -> t.Iterator[str]:
    while True:
        position = _next_fatbin(handle, position, end)
        if position < 0:
            return
        header = _read(handle, position, _FATBIN_HEADER.size, path)
        _magic, _version, header_size, size = _FATBIN_HEADER.unpack(header)
        entry, position = position + header_size, position + header_size + size
        if header_size < _FATBIN_HEADER.size or position > end:
            raise ElfError(f"{path} is damaged: a fat binary reaches beyond its section")
        while entry < position:
            kind, _version, entry_header, body, arch, flags = _ENTRY_HEADER.unpack(
                _read(handle, entry, _ENTRY_HEADER.size, path)
            )
            if entry_header < _ENTRY_HEADER.size or entry + entry_header + body > position:
                raise ElfError(f"{path} is damaged: an entry reaches beyond its fat binary")
            if arch > 999:
                raise ElfError(f"{path} is damaged: it names GPU architecture {arch}")
            if kind in _KINDS and arch >= 10:
                suffix = "a" if flags & _ARCH_SPECIFIC else "f" if flags & _FAMILY_SPECIFIC else ""
                yield f"{_KINDS[kind]}_{arch}{suffix}"
            entry += entry_header + body


def _next_fatbin(handle: t.BinaryIO, position: int, end: int) -> int:
    """Offset of the next fat binary at or after ``position``, -1 if none: linkers pad between them."""
    while position < end:
        handle.seek(position)
        block = handle.read(min(_SCAN_BLOCK, end - position))
        found = block.find(_FATBIN_MAGIC)
        if found >= 0:
            return position + found
        if len(block) < len(_FATBIN_MAGIC):
            return -1
        position += len(block) - len(_FATBIN_MAGIC) + 1
    return -1


def _read(handle: t.BinaryIO, offset: int, size: int, path: str) -> bytes:
    _check_room(handle, offset, size, path)
    handle.seek(offset)
    return handle.read(size)


def _check_room(handle: t.BinaryIO, offset: int, size: int, path: str) -> None:
    """Before any read, since a damaged header may name any number."""
    if offset + size > os.fstat(handle.fileno()).st_size:
        raise ElfError(f"{path} is damaged or incomplete: it ends before byte {offset + size}")
