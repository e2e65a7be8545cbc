# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the stand-in: packages from wheels, signed flat repositories from packages, in one folder that appears whole.

The cache holds what is expensive (wheels, the packages made from them, the signing key) and may be shared by several
folders.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from . import catalogue, config_packages, deb, index, repack, signing, wheels
from .catalogue import Package
from .layout import KEYRING_DEB, REPOSITORIES, Repository
from .report import contents_text

Log = Callable[[str], None]
_MANIFEST = "manifest.json"
# A change in one of these changes the packages that are made from wheels.
_WHEEL_SOURCES = ("deb.py", "repack.py", "stub_library.py")


def build(folder: Path, cache: Path, log: Log) -> Path:
    """Build the stand-in for NVIDIA's CUDA repository host in ``folder`` and return it.

    ``folder`` afterwards holds ``compute/cuda/repos/<distro>/<arch>/``, ``fingerprint``, ``manifest.json``
    (machine-readable) and ``CONTENTS.md`` (what is NVIDIA's and what is empty), and ``signing/`` with the private key,
    which the server does not serve. A folder that was built from the same sources and the same key is left as it is.
    Raises BuildError.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        key = _signing_key(cache / "signing", log)
        content_key = _content_key(key)
        if built_key(folder) == content_key:
            return folder
        log(f"building the CUDA repository stand-in in {folder}")
        draft = folder.with_name(f".{folder.name}.{os.getpid()}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            _fill(draft, cache, key, content_key, log)
            _swap(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        log("the CUDA repository stand-in is built")
    return folder


def built_key(folder: Path) -> str:
    """The content key of a built folder; "" where nothing (or something else) lies."""
    try:
        return str(json.loads((folder / _MANIFEST).read_text())["content_key"])
    except (OSError, ValueError, KeyError):
        return ""


def sign(folder: Path, arch: str, files: Mapping[str, bytes], signer: signing.Signer) -> None:
    """Write ``files`` (Packages in its two forms) into a repository's ``folder``, and Release with both signatures."""
    # apt refuses an index that is dated in the future by a container's clock.
    release = index.release_text(arch, datetime.now(UTC) - timedelta(minutes=1), files).encode()
    signed = {"Release": release, "InRelease": signer.clear(release), "Release.gpg": signer.detached(release)}
    for name, content in {**files, **signed}.items():
        replace(folder / name, content)


def replace(path: Path, content: bytes) -> None:
    """Write a file anew: a hard link to an older version keeps the older content."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(path)


def _fill(draft: Path, cache: Path, key: signing.Key, content_key: str, log: Log) -> None:
    made = {package.file_name: _from_wheel(package, cache, log) for package in _packed_packages()}
    _prune(cache / "packages", {path.parent.name for path in made.values()})
    digests: dict[Path, index.Digest] = {path: index.digest_file(path) for path in made.values()}
    repositories: dict[str, dict[str, object]] = {}
    with signing.Signer(key) as signer:
        for repository in REPOSITORIES:
            place = draft / repository.path
            place.mkdir(parents=True)
            stanzas = []
            for package in catalogue.packages(repository):
                target = place / package.file_name
                if package.contents == "wheel":
                    link(made[package.file_name], target)
                    of = digests[made[package.file_name]]
                else:
                    _write_small(target, package, repository)
                    of = index.digest_file(target)
                stanzas.append(index.stanza(_fields(package), package.file_name, of))
            contents = config_packages.keyring(repository, key.binary)
            deb.write(place / KEYRING_DEB, config_packages.keyring_fields(), contents.entries, {}, contents.conffiles)
            of = index.digest_file(place / KEYRING_DEB)
            stanzas.append(index.stanza(config_packages.keyring_fields(), KEYRING_DEB, of))
            sign(place, repository.arch, index.packages_files(stanzas), signer)
            (place / f"{key.short}.pub").write_bytes(key.armored)
            repositories[repository.name] = {
                "path": str(repository.path),
                "series": list(repository.series),
                "keyring_sha256": of.sums["SHA256"],
            }
            log(f"{repository.name}: {len(stanzas)} packages")
    shutil.copytree(key.folder, draft / "signing")
    (draft / "fingerprint").write_text(f"{key.fingerprint}\n")
    (draft / "CONTENTS.md").write_text(contents_text())
    manifest = {"content_key": content_key, "fingerprint": key.fingerprint, "repositories": repositories}
    (draft / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def _packed_packages() -> list[Package]:
    """The packages that carry NVIDIA's files, each once."""
    found = {
        package.file_name: package
        for repository in REPOSITORIES
        for package in catalogue.packages(repository)
        if package.contents == "wheel"
    }
    return list(found.values())


def _from_wheel(package: Package, cache: Path, log: Log) -> Path:
    """The package as a file in the cache, made from its wheel unless it lies there."""
    wheel = wheels.table()[repack.RECIPES[package.stem].wheel, package.series]
    fields = _fields(package)
    made = cache / "packages" / _source_key(wheel.sha256, json.dumps(fields)) / package.file_name
    if not made.exists():
        archive = wheels.fetch(wheel, cache, log)
        made.parent.mkdir(parents=True, exist_ok=True)
        log(f"packing {package.file_name}")
        entries = repack.entries(package.stem, package.name, package.series, package.upstream, archive)
        deb.write(made, fields, entries, triggers=repack.RECIPES[package.stem].triggers)
    return made


def _prune(folder: Path, used: set[str]) -> None:
    """Drop what older sources made; folders that were built from it keep their hard links."""
    for path in folder.iterdir():
        if path.name not in used:
            shutil.rmtree(path)


def _write_small(path: Path, package: Package, repository: Repository) -> None:
    if package.contents == "config":
        contents = config_packages.config(package, repository)
        deb.write(path, _fields(package), contents.entries, contents.scripts, contents.conffiles)
        return
    note = f"{catalogue.description(package)}\n".encode()
    deb.write(path, _fields(package), [deb.Entry(f"usr/share/doc/{package.name}/STAND-IN", note)])


def _fields(package: Package) -> dict[str, str]:
    return {
        **config_packages.COMMON_FIELDS,
        "Package": package.name,
        "Version": package.version,
        "Architecture": package.architecture,
        "Depends": ", ".join(package.depends),
        "Description": catalogue.description(package),
    }


def _source_key(*more: str) -> str:
    """A short hash of the sources that shape a packed package, and of ``more``."""
    here = Path(__file__).parent
    parts = [(here / name).read_bytes() for name in _WHEEL_SOURCES] + [text.encode() for text in more]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _content_key(key: signing.Key) -> str:
    """What a folder was built from: every source of this package, the list of wheels and the signing key."""
    here = Path(__file__).parent
    sources = sorted(path for path in here.iterdir() if path.suffix in {".py", ".txt"})
    parts = [path.name.encode() + b"\0" + path.read_bytes() for path in sources]
    return hashlib.sha256(b"\0".join([*parts, key.fingerprint.encode()])).hexdigest()


def _signing_key(folder: Path, log: Log) -> signing.Key:
    if not folder.exists():
        log("making the stand-in's signing key")
        return signing.create(folder)
    return signing.Key(folder)


def link(source: str | Path, target: str | Path) -> None:
    """``target`` as a hard link to ``source``, or a copy where the two lie on different file systems."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _swap(draft: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        folder.rename(old)
    draft.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One build at a time for each cache; the lock goes with the process."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
