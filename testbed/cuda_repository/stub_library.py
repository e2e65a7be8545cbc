# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A linker stub for libcuda.so.1, made from the function names in NVIDIA's cuda.h.

cuda-driver-dev holds such a stub so that ``-lcuda`` links on a machine without a driver. NVIDIA's own is in no wheel,
so this one is written here: an ELF shared object (x86-64, System V ABI) with the soname and every symbol. As in
NVIDIA's stub, each function answers CUDA_ERROR_STUB_LIBRARY.
"""

from __future__ import annotations

import re
import struct

_SONAME = "libcuda.so.1"
# A function's name, or the versioned one that a macro of the same header maps it to ("cuMemAlloc" -> "cuMemAlloc_v2").
_FUNCTION = re.compile(r"\b(cu[A-Z]\w*)\s*\(|^#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*)\s*$", re.MULTILINE)

_CODE = b"\xb8" + struct.pack("<I", 34) + b"\xc3"  # mov eax, CUDA_ERROR_STUB_LIBRARY; ret
_HEADER, _SEGMENT, _SECTION = (
    struct.Struct("<16sHHIQQQIHHHHHH"),
    struct.Struct("<IIQQQQQQ"),
    struct.Struct("<IIQQQQIIQQ"),
)
_GLOBAL_FUNCTION = 0x12
_SYMBOL, _DYNAMIC = struct.Struct("<IBBHQQ"), struct.Struct("<QQ")
_CODE_AT = _HEADER.size + 2 * _SEGMENT.size


def function_names(header: str) -> list[str]:
    """The driver API's function names in ``cuda.h``, sorted."""
    return sorted({first or second for first, second in _FUNCTION.findall(header)})


def driver_stub(header: str) -> bytes:
    """The stub library for the functions that ``header`` (the text of cuda.h) declares."""
    return shared_object(_SONAME, function_names(header))


def shared_object(soname: str, functions: list[str]) -> bytes:
    """An ELF64 x86-64 shared object called ``soname`` in which each of ``functions`` is the same six bytes of code.

    The whole file is one loadable segment, so a section's address equals its offset.
    """
    strings, offset = b"\0", {}
    for name in [soname, *functions]:
        offset[name] = len(strings)
        strings += name.encode() + b"\0"
    symbols = bytes(_SYMBOL.size) + b"".join(
        _SYMBOL.pack(offset[name], _GLOBAL_FUNCTION, 0, 1, _CODE_AT, len(_CODE)) for name in functions
    )
    # A hash table of one bucket: the first symbol, then each one's successor. Slow to look up in, and right.
    count = len(functions) + 1
    chain = [(index + 1) % count if index else 0 for index in range(count)]
    hashes = struct.pack(f"<{3 + count}I", 1, count, min(1, count - 1), *chain)

    # Name, type, flags, section it refers to, extra, size of one record, content; in the order of the file.
    sections = [
        (".text", 1, 6, 0, 0, 0, _CODE),
        (".hash", 5, 2, 3, 0, 4, hashes),
        (".dynsym", 11, 2, 4, 1, _SYMBOL.size, symbols),
        (".dynstr", 3, 2, 0, 0, 0, strings),
        (".dynamic", 6, 3, 4, 0, _DYNAMIC.size, bytes(7 * _DYNAMIC.size)),
    ]
    names = b"\0" + b"".join(f"{section[0]}\0".encode() for section in sections) + b".shstrtab\0"
    sections.append((".shstrtab", 3, 0, 0, 0, 0, names))
    at: dict[str, int] = {}
    end = _CODE_AT
    for name, *_, content in sections:
        at[name] = end = _aligned(end)
        end += len(content)
    dynamic = b"".join(
        _DYNAMIC.pack(tag, value)
        for tag, value in (
            (14, offset[soname]),  # DT_SONAME
            (4, at[".hash"]),  # DT_HASH
            (5, at[".dynstr"]),  # DT_STRTAB
            (6, at[".dynsym"]),  # DT_SYMTAB
            (10, len(strings)),  # DT_STRSZ
            (11, _SYMBOL.size),  # DT_SYMENT
            (0, 0),
        )
    )

    table = _aligned(end)
    out = bytearray(table)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    count = len(sections) + 1
    _HEADER.pack_into(out, 0, ident, 3, 62, 1, 0, _HEADER.size, table, 0, _HEADER.size, 56, 2, 64, count, count - 1)
    # The loader writes into .dynamic, hence one segment that may be read, written and executed.
    _SEGMENT.pack_into(out, _HEADER.size, 1, 7, 0, 0, 0, table, table, 0x1000)
    _SEGMENT.pack_into(
        out, _HEADER.size + 56, 2, 6, at[".dynamic"], at[".dynamic"], at[".dynamic"], len(dynamic), len(dynamic), 8
    )
    headers = [bytes(_SECTION.size)]
    for name, kind, flags, link, extra, record, content in sections:
        where = at[name]
        out[where : where + len(content)] = dynamic if name == ".dynamic" else content
        called = names.index(f"\0{name}\0".encode()) + 1
        address = where if flags else 0
        headers.append(_SECTION.pack(called, kind, flags, address, where, len(content), link, extra, 8, record))
    return bytes(out) + b"".join(headers)


def _aligned(offset: int) -> int:
    return -(-offset // 8) * 8
