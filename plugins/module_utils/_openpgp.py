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

_SIGNATURE, _PUBLIC_KEY, _PUBLIC_SUBKEY = 2, 6, 14
#: Signatures by which a key speaks of itself: the four certifications of a name, and the direct one.
_SELF = (0x10, 0x11, 0x12, 0x13, 0x1F)
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


def expiries(data: bytes) -> dict[str, int | None]:
    """{fingerprint: when the key expires, in seconds since 1970}; None for a key that does not. In the keyring's order.

    The newest self-signature of a primary key counts (RFC 4880 section 5.2.3.6); keys of version 4 alone say it there.
    """
    blocks = [_dearmoured(block) for block in _ARMOUR.findall(data)] if b"-----BEGIN PGP" in data else [data]
    found: dict[str, int | None] = {}
    for block in blocks:
        current, created, newest = "", 0, -1
        for tag, body in _packets(block):
            if tag == _PUBLIC_KEY:
                current, created, newest = _fingerprint(body), int.from_bytes(body[1:5], "big"), -1
                found[current] = None
            elif tag == _PUBLIC_SUBKEY:
                newest = 1 << 32  # what follows signs the subkey
            elif tag == _SIGNATURE and current and body[:1] == b"\x04" and body[1] in _SELF:
                parts = _hashed_subpackets(body)
                made = int.from_bytes(parts.get(2, b""), "big")
                if parts.get(33, b"")[1:].hex().upper() in ("", current) and made > newest:
                    newest = made
                    span = int.from_bytes(parts.get(9, b""), "big")
                    found[current] = created + span if span else None
    return found


def _hashed_subpackets(body: bytes) -> dict[int, bytes]:
    """{type: content} of the part of a signature that it signs itself; empty for what is cut off."""
    end, position, parts = 6 + int.from_bytes(body[4:6], "big"), 6, {}
    while position < min(end, len(body)):
        first = body[position]
        size = 1 if first < 192 else 2 if first < 255 else 5
        raw = body[position : position + size]
        length = first if size == 1 else ((first - 192) << 8) + raw[-1] + 192
        length = int.from_bytes(raw[1:], "big") if size == 5 else length
        content = body[position + size : position + size + length]
        if not content:
            break
        parts[content[0] & 0x7F] = content[1:]
        position += size + length
    return parts


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
