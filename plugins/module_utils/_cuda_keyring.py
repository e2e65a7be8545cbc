# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Take the signing key out of NVIDIA's keyring package, after checking that it is the one that was meant.

Only the key is taken: the package's list file would be a second entry for the repository, its pin file would let
NVIDIA's drivers outrank the distribution's, and no script of a downloaded package is run as root.
"""

from __future__ import annotations

import hashlib
import io
import socket
import ssl
import subprocess
import tarfile
from collections.abc import Iterable
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from . import _openpgp as openpgp

# Where the package has the key, see NVIDIA's cuda-keyring 1.1-1.
_MEMBER = "usr/share/keyrings/cuda-archive-keyring.gpg"
_DPKG_DEB_SECONDS = 60


class Refused(Exception):
    """One sentence: what is wrong with the package, and what to do. ``transient``: trying again may help."""

    def __init__(self, sentence: str, transient: bool = False) -> None:
        super().__init__(sentence)
        self.transient = transient


def check_sum(deb: bytes, sha256: str, source: str) -> None:
    """Refused unless the package has the wanted checksum."""
    found = hashlib.sha256(deb).hexdigest()
    if found != sha256.lower():
        raise Refused(
            f"the keyring package {source} has the SHA-256 {found} instead of {sha256.lower()}: it is another file "
            "than the one that was meant; compare it with NVIDIA's own, and correct "
            "cuda_repository_keyring_sha256 only if that is the wrong one"
        )


def key_of_deb(deb: bytes, source: str) -> bytes:
    """The keyring file inside of the package; Refused if there is none. Nothing is unpacked to disk."""
    try:
        # AnsibleModule.run_command knows no time limit.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            ["dpkg-deb", "--fsys-tarfile", "/dev/stdin"],
            input=deb,
            capture_output=True,
            timeout=_DPKG_DEB_SECONDS,
            check=True,
        )
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            for member in archive:
                if member.isfile() and member.name.lstrip("./") == _MEMBER:
                    content = archive.extractfile(member)
                    return content.read() if content else b""
    except (subprocess.SubprocessError, tarfile.TarError):
        raise Refused(f"{source} is no Debian package; check cuda_repository_keyring_deb or the mirror") from None
    raise Refused(f"the package {source} holds no /{_MEMBER}; it is not NVIDIA's cuda-keyring")


def check_fingerprints(keyring: bytes, wanted: Iterable[str], source: str) -> list[str]:
    """The fingerprints in the keyring; Refused unless one of the wanted keys is among them."""
    expected = [normalised(one) for one in wanted]
    try:
        held = openpgp.fingerprints(keyring)
    except openpgp.NoKeyring as problem:
        raise Refused(f"the keyring in {source} {problem}") from None
    if not set(held) & set(expected):
        raise Refused(
            f"the keyring package {source} holds the key {', '.join(held)} instead of {' or '.join(expected)}; "
            "it is for another repository or not from NVIDIA (cuda_repository_key_fingerprints)"
        )
    return held


def held(keyring: bytes | None) -> list[str]:
    """The fingerprints in a keyring file that is already there; [] if it is missing or apt could not use it."""
    try:
        return openpgp.fingerprints(keyring) if keyring else []
    except openpgp.NoKeyring:
        return []


def normalised(fingerprint: str) -> str:
    """``EB69 3B30 ...`` or ``0xeb693b30...`` as gpg --with-colons writes it."""
    text = "".join(fingerprint.split()).upper()
    return text[2:] if text.startswith("0X") else text


def explain_download(error: Exception, url: str, proxy: str = "") -> Refused:
    """Why a download failed, in one sentence. ``proxy``: the one that was used, if any."""
    through = f" through the proxy {_host(proxy)}" if proxy else ""
    reason = error.reason if isinstance(error, URLError) and isinstance(error.reason, Exception) else error
    if isinstance(error, HTTPError) and error.code == 404:
        return Refused(
            f"there is no keyring package at {url} (404); check cuda_repository_mirror, cuda_repository_distribution "
            "and cuda_repository_keyring_version"
        )
    if isinstance(error, HTTPError):
        hint = "retry later" if error.code >= 500 else "check cuda_repository_mirror and cuda_repository_proxy"
        return Refused(f"{url} was refused{through} ({error.code} {error.msg}); {hint}", error.code >= 500)
    if isinstance(reason, ssl.SSLError):
        why = getattr(reason, "verify_message", "") or reason.reason or str(reason)
        return Refused(
            f"TLS to {_host(url)} failed ({why}): add the authority that signed the certificate of the server, or of "
            "an intercepting proxy, to bootstrap_ca_certificates"
        )
    if isinstance(reason, OSError) and "Tunnel connection failed" in str(reason):
        return Refused(f"{url} was refused{through} ({reason}); check cuda_repository_proxy")
    why = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    if isinstance(reason, (TimeoutError, socket.timeout)):
        why = "no answer in time"
    return Refused(
        f"{url} cannot be reached{through} ({why}); check the container's network, cuda_repository_mirror and "
        "cuda_repository_proxy, or give cuda_repository_keyring_deb from the controller's disk",
        True,
    )


def _host(url: str) -> str:
    """Host and port, never the login."""
    return urlsplit(url if "//" in url else "//" + url).netloc.rsplit("@", 1)[-1]
