# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Broken copies of a built folder, for tests that provoke a fault for real.

Each function takes a built folder, makes ``target`` (which must not exist) as a copy of hard links, breaks one
repository of it, and returns ``target``. The built folder stays as it is. Serve the copy with ``server.serving`` or
the ``serve`` command.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from . import builder, config_packages, deb, index, signing
from .layout import KEYRING_DEB, Repository, repository

Fault = Callable[..., Path]

_DEFAULT = "debian12/x86_64"
_EXPIRED_AT = "20200101T000000"


def wrong_signature(folder: Path, target: Path, name: str = _DEFAULT) -> Path:
    """InRelease and Release.gpg are signed by a key that the keyring does not hold."""
    place = _copy(folder, target, name)
    other = signing.create(target / "other_key", "ed25519")
    with signing.Signer(other) as signer:
        builder.sign(place, repository(name).arch, _index(place), signer)
    return target


def expired_key(folder: Path, target: Path, name: str = _DEFAULT) -> Path:
    """The keyring, ``fingerprint`` and both signatures are of a key that has expired since it signed.

    apt with gpgv refuses it (Debian 12, Ubuntu); apt with sqv (Debian 13) takes what was signed in time.
    """
    _copy(folder, target, name)
    old = signing.create(target / "expired_key", "ed25519", "30d", at=_EXPIRED_AT)
    return _under_key(target, name, old, at=_EXPIRED_AT)


def sha1_key(folder: Path, target: Path, name: str = _DEFAULT) -> Path:
    """The keyring, ``fingerprint`` and both signatures are of a key that is bound by SHA-1, as NVIDIA's 3bf863cc is.

    apt with gpgv takes it; apt with sqv (Debian 13) refuses it since 2026-02-01 ("is not bound").
    """
    _copy(folder, target, name)
    weak = signing.create(target / "sha1_key", "rsa2048", binding="SHA1")
    return _under_key(target, name, weak)


def unsigned(folder: Path, target: Path, name: str = _DEFAULT) -> Path:
    """Release is there, its signatures are not."""
    place = _copy(folder, target, name)
    for file in ("InRelease", "Release.gpg"):
        (place / file).unlink()
    return target


def publishing_index(folder: Path, target: Path, name: str = _DEFAULT) -> Path:
    """NVIDIA is publishing: Packages is newer than the Release that describes it ("File has unexpected size")."""
    place = _copy(folder, target, name)
    newer = (place / "Packages").read_text().replace("Priority: optional", "Priority: extra")
    for file, content in index.packages_files([newer]).items():
        builder.replace(place / file, content)
    return target


def publishing_pool(folder: Path, target: Path, name: str = _DEFAULT, package: str = "cuda-cccl-13-0") -> Path:
    """NVIDIA is publishing: the index is right, but the files of ``package`` are other ones of another size."""
    place = _copy(folder, target, name)
    for path in place.glob(f"{package}_*.deb"):
        builder.replace(path, path.read_bytes()[:-1024])
    return target


def missing_packages(folder: Path, target: Path, name: str = _DEFAULT) -> Path:
    """Release names Packages, and the server does not have it in any form."""
    place = _copy(folder, target, name)
    for file in ("Packages", "Packages.gz"):
        (place / file).unlink()
    return target


def malformed_packages(folder: Path, target: Path, name: str = _DEFAULT) -> Path:
    """A rightly signed Packages with a paragraph that has no Package field, as ubuntu2604's once had."""
    place = _copy(folder, target, name)
    broken = re.sub(r"^Package: cuda-crt-13-0\n", "", (place / "Packages").read_text(), flags=re.MULTILINE)
    _resign(place, target, repository(name), [broken])
    return target


def keyring_checksum(folder: Path, target: Path, name: str = _DEFAULT) -> Path:
    """The keyring package is another file than the manifest's checksum says, and still a good package."""
    place = _copy(folder, target, name)
    # ar members are padded to even lengths, and dpkg ignores a member whose name starts with an underscore.
    extra = f"{'_changed':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{0:<10}`\n".encode()
    builder.replace(place / KEYRING_DEB, (place / KEYRING_DEB).read_bytes() + extra)
    return target


def keyring_foreign_key(folder: Path, target: Path, name: str = _DEFAULT) -> Path:
    """The keyring package holds somebody else's key; its checksum in the manifest is right."""
    place = _copy(folder, target, name)
    other = signing.create(target / "other_key", "ed25519")
    checksum = _replace_keyring(place, repository(name), other.binary)
    manifest = json.loads((target / "manifest.json").read_text())
    manifest["repositories"][name]["keyring_sha256"] = checksum
    builder.replace(target / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())
    return target


def without_series(folder: Path, target: Path, name: str = _DEFAULT, series: str = "13-0") -> Path:
    """A good repository that never got ``series``: neither its packages nor what depends on them."""
    place = _copy(folder, target, name)
    kept = [text for text in _stanzas(place) if f"-{series}" not in text]
    for path in place.glob(f"*-{series}[-_]*.deb"):
        path.unlink()
    _resign(place, target, repository(name), [f"{text}\n" for text in kept])
    return target


FAULTS: dict[str, Fault] = {
    function.__name__: function
    for function in (
        wrong_signature,
        expired_key,
        sha1_key,
        unsigned,
        publishing_index,
        publishing_pool,
        missing_packages,
        malformed_packages,
        keyring_checksum,
        keyring_foreign_key,
        without_series,
    )
}


def _copy(folder: Path, target: Path, name: str) -> Path:
    """``target`` as a copy of hard links; returns the place of repository ``name`` in it."""
    shutil.copytree(folder, target, copy_function=builder.link)
    return target / repository(name).path


def _under_key(target: Path, name: str, key: signing.Key, at: str = "") -> Path:
    """Everything in repository ``name`` that depends on the key, made anew with ``key``."""
    place = target / repository(name).path
    _replace_keyring(place, repository(name), key.binary)
    with signing.Signer(key, at=at) as signer:
        builder.sign(place, repository(name).arch, _index(place), signer)
    builder.replace(target / "fingerprint", f"{key.fingerprint}\n".encode())
    return target


def _index(place: Path) -> dict[str, bytes]:
    return {file: (place / file).read_bytes() for file in ("Packages", "Packages.gz")}


def _stanzas(place: Path) -> list[str]:
    return [f"{text}\n" for text in (place / "Packages").read_text().rstrip("\n").split("\n\n")]


def _resign(place: Path, target: Path, of: Repository, parts: list[str]) -> None:
    files = index.packages_files(["".join(parts).removesuffix("\n")])
    with signing.Signer(signing.Key(target / "signing")) as signer:
        builder.sign(place, of.arch, files, signer)


def _replace_keyring(place: Path, of: Repository, public_key: bytes) -> str:
    """A new keyring package in ``place``, beside the index that knows the old one; returns its SHA-256."""
    contents = config_packages.keyring(of, public_key)
    deb.write(place / KEYRING_DEB, config_packages.keyring_fields(), contents.entries, {}, contents.conffiles)
    return index.digest_file(place / KEYRING_DEB).sums["SHA256"]
