# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Fingerprints of the keys in a keyring file, without gpg, which minimal containers and apt with sqv do not have.

Pure: bytes in, values out. It only identifies keys; whether a signature is right is apt's business.
Source of the format: RFC 4880 (sections 4.2, 6.2, 12.2) and RFC 9580 (section 5.5.4).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

_PUBLIC_KEY = 6
_ARMOUR = re.compile(
    rb"-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t\r]*\n(?:[^\n:]+: [^\n]*\n)*\s*\n"
    rb"(.*?)-----END PGP PUBLIC KEY BLOCK-----",
    re.DOTALL,
)


class NoKeyring(ValueError):
    """The bytes are no keyring that apt could use; the text says why, to follow "the keyring FILE"."""


def fingerprints(data: bytes) -> list[str]:
    """Fingerprints of the primary keys of a binary or armoured keyring, in its order, in upper case without blanks."""
    if data[8:12] == b"KBXf":
        raise NoKeyring("is a GnuPG keybox, which apt cannot read; export the key with 'gpg --export'")
    blocks = [_dearmoured(block) for block in _ARMOUR.findall(data)] if b"-----BEGIN PGP" in data else [data]
    found = [_fingerprint(body) for block in blocks for tag, body in _packets(block) if tag == _PUBLIC_KEY]
    if not found:
        raise NoKeyring("holds no OpenPGP public key")
    return found


def _dearmoured(block: bytes) -> bytes:
    lines = [line.strip() for line in block.splitlines()]
    try:
        return base64.b64decode(b"".join(line for line in lines if not line.startswith(b"=")), validate=True)
    except binascii.Error:
        raise NoKeyring("holds a damaged armoured key") from None


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(tag, body) of each packet; NoKeyring at the first byte that starts none or a body that is cut off."""
    position = 0
    while position < len(data):
        tag, start, length = _header(data, position)
        position = start + length
        if position > len(data):
            raise NoKeyring("is cut off in the middle of a key")
        yield tag, data[start:position]


def _header(data: bytes, position: int) -> tuple[int, int, int]:
    """(tag, where the body starts, its length) of the packet at a position."""
    first = data[position]
    if not first & 0x80:
        raise NoKeyring("is no OpenPGP keyring")
    if first & 0x40:
        tag, size = first & 0x3F, _new_length_size(data[position + 1 : position + 2])
        raw = data[position + 1 : position + 1 + size]
        if size == 2 and len(raw) == 2:
            return tag, position + 3, ((raw[0] - 192) << 8) + raw[1] + 192
        raw = raw[1:] if size == 5 else raw
    else:
        tag, kind = (first >> 2) & 0x0F, first & 0x03
        if kind == 3:
            raise NoKeyring("holds a packet without a length")
        size = 1 << kind
        raw = data[position + 1 : position + 1 + size]
    return tag, position + 1 + size, int.from_bytes(raw, "big")


def _new_length_size(octet: bytes) -> int:
    """How many octets give the length, by the first of them."""
    value = octet[0] if octet else 0
    if value < 192:
        return 1
    if value < 224:
        return 2
    if value == 255:
        return 5
    raise NoKeyring("holds a packet of partial length, which a key never is")


def _fingerprint(body: bytes) -> str:
    version = body[:1]
    if version == b"\x04":
        digest = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False)
        return digest.hexdigest().upper()
    if version == b"\x06":
        return hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    raise NoKeyring(f"holds a key of version {version[0] if version else 'none'}, which this apt cannot use")
