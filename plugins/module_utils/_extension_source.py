# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Get an extension's source archive or prebuilt wheel, check it, unpack it, and repair what its description says."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import time
import typing as t
import zipfile

from ansible.module_utils.urls import open_url

from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_errors import Build, classify
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import read_log, run_logged
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import Description
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pip_sources import Sources
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import plain_name, sha256
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import normalise_name

ARCHIVES = (".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz")


class SourceError(Exception):
    """``id`` is a stable word, the message one sentence."""

    def __init__(self, id: str, sentence: str) -> None:  # noqa: A002 - the name of the attribute
        super().__init__(sentence)
        self.id = id


def fetch(
    build: Build,
    description: Description,
    version: str,
    sources: Sources,
    environment: t.Mapping[str, str],
    folder: str,
    log: str,
    timeout: float,
) -> str:
    """Download the source archive by pip into ``folder``; its path.

    pip runs the setup to learn the metadata, even to download. So the build tools come from the training environment
    (no isolation: an isolated one would fetch a torch of its own), and the setup is told to compile nothing.
    """
    command = [build.python, "-m", "pip", "download", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-binary", description.name, "--dest", folder]
    command += sources.arguments()
    finished = run_logged(
        [*command, f"{description.name}=={version}"],
        {**environment, **sources.pip_variables(), **description.variables, **description.skip_variables},
        folder,
        log,
        timeout,
    )
    archives = [name for name in sorted(os.listdir(folder)) if name.endswith(ARCHIVES)]
    if finished.timed_out:
        raise SourceError("timeout", f"{build.what}: its sources were not there after {timeout:.0f} seconds")
    if finished.status != 0 or not archives:
        cause = classify(read_log(log), build, finished.starved)
        raise SourceError(cause.id, cause.sentence)
    # 1.7 asks pip for 1.7.0; the key and the installed version would differ ever after.
    found = version_in(archives[0])
    if found != version:
        raise SourceError("version", f"{build.what}: the index has version {found} for it; write version: {found}")
    return os.path.join(folder, archives[0])


def prebuilt(
    what: str, place: str, expected: str | None, folder: str, timeout: float = 900.0, ca_bundle: str | None = None
) -> str:
    """Somebody else's wheel, from a path or an address, into ``folder``; its path. The checksum is not optional."""
    if not expected:
        raise SourceError("checksum", f"{what}: a prebuilt wheel needs its sha256 beside it in cuda_extensions_wanted")
    raw = os.path.join(folder, "prebuilt.whl")
    try:
        if "://" in place:
            with open_url(place, timeout=30, ca_path=ca_bundle) as answer, open(raw, "wb") as stream:
                deadline = time.monotonic() + timeout
                for block in iter(lambda: answer.read(1 << 20), b""):
                    stream.write(block)
                    if time.monotonic() > deadline:
                        raise OSError(f"it was not there after {timeout:.0f} seconds")
        else:
            shutil.copyfile(place, raw)
    except OSError as error:  # an HTTP error is one
        raise SourceError("prebuilt", f"{what}: the prebuilt wheel {place} cannot be had: {error}") from error
    check(what, raw, expected, "cuda_extensions_wanted")
    # Upstream's files carry torch and CUDA as a local version in their names alone, which pip refuses to install.
    name = plain_name(raw, os.path.basename(place.split("?")[0].split("#")[0]))
    os.rename(raw, os.path.join(folder, name))
    return os.path.join(folder, name)


def local_archive(places: t.Iterable[str], name: str, version: str) -> str | None:
    """The source archive of this version in one of the folders of this machine; None if it is in none.

    It needs neither pip nor an index, which without a network is asked for minutes before pip looks at its folders.
    """
    for place in places:
        for file in sorted(os.listdir(place)) if os.path.isdir(place) else []:
            stem = next((file[: -len(ending)] for ending in ARCHIVES if file.endswith(ending)), "")
            if stem and normalise_name(stem.rpartition("-")[0]) == name and version_in(file) == version:
                return os.path.join(place, file)
    return None


def version_in(archive: str) -> str:
    """The version in a source archive's name: ``causal_conv1d-1.7.0.tar.gz`` -> ``1.7.0``."""
    stem = next((archive[: -len(ending)] for ending in ARCHIVES if archive.endswith(ending)), archive)
    return stem.rpartition("-")[2]


def check(what: str, archive: str, expected: str | None, origin: str) -> str:
    """The archive's SHA-256; SourceError if another one is expected. ``origin``: where the expectation comes from."""
    found = sha256(archive)
    if expected and found != expected.strip().lower():
        raise SourceError(
            "checksum",
            f"{what}: the source archive {os.path.basename(archive)} has the SHA-256 {found}, but {origin} expects"
            f" {expected}; nothing was built: find out which of the two is right",
        )
    return found


def unpack(what: str, archive: str, folder: str) -> str:
    """Unpack into ``folder``; the path of the one folder with the setup in it."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                _check_names(what, packed.namelist())
                packed.extractall(folder)
        else:
            with tarfile.open(archive) as packed_tar:
                members = [member for member in packed_tar.getmembers() if member.isfile() or member.isdir()]
                _check_names(what, [member.name for member in members])
                # The filter came with 3.12 and went into older releases; those without it have the check above.
                safe: dict[str, t.Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                packed_tar.extractall(folder, members=members, **safe)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise SourceError("archive", f"{what}: {archive} cannot be unpacked: {error}") from error
    for name in sorted(os.listdir(folder)):
        if any(os.path.isfile(os.path.join(folder, name, setup)) for setup in ("setup.py", "pyproject.toml")):
            return os.path.join(folder, name)
    raise SourceError("archive", f"{what}: {archive} holds neither a setup.py nor a pyproject.toml")


def _check_names(what: str, names: t.Iterable[str]) -> None:
    for name in names:
        if os.path.isabs(name) or ".." in name.split("/"):
            raise SourceError("archive", f"{what}: its source archive holds the path {name}, which leads out of it")


def repair(what: str, description: Description, torch: str, folder: str) -> list[str]:
    """Make the description's edits that this torch needs; the files that were changed.

    A source that has the new text already is left alone; one that has neither is not the one that was described.
    """
    changed = []
    for edit in description.edits:
        path = os.path.join(folder, edit.file)
        if not edit.applies(torch):
            continue
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                text = stream.read()
        except OSError as error:
            raise SourceError("edit", f"{what}: the file {edit.file} that has to be edited is not there") from error
        if edit.old in text:
            shutil.copyfile(path, f"{path}.orig")
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(text.replace(edit.old, edit.new))
            changed.append(edit.file)
        elif edit.new not in text:
            raise SourceError(
                "edit",
                f"{what}: {edit.file} holds neither {edit.old!r} nor {edit.new!r}; the edit is not for this version",
            )
    return changed


INSTANTIATION = re.compile(r"^template [^<\n][^;{]*;[^\S\n]*$", re.MULTILINE)
"""``template void f<float>(int);``, but no template's own declaration, which has its parameters at once."""


def split(what: str, description: Description, folder: str) -> list[str]:
    """Make the description's splits; the new files. A source that is not there or has too little to share stays whole:
    splitting saves time and changes nothing else."""
    made: list[str] = []
    for wish in description.splits:
        path, setup = os.path.join(folder, wish.file), os.path.join(folder, wish.setup)
        stem, ending = os.path.splitext(wish.file)
        quoted = f'"{wish.file}"'
        try:
            text, names = _text(path), _text(setup)
        except OSError:
            continue
        found = list(INSTANTIATION.finditer(text))
        if len(found) < wish.parts or quoted not in names:
            continue
        new = [f"{stem}_part{number + 1}{ending}" for number in range(wish.parts)]
        for number, name in enumerate(new):
            others = [match for index, match in enumerate(found) if index % wish.parts != number]
            with open(os.path.join(folder, name), "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(_without(text, others))
        with open(setup, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(names.replace(quoted, ", ".join(f'"{name}"' for name in new)))
        made += new
    return made


def _without(text: str, matches: t.Sequence[re.Match[str]]) -> str:
    """The text with these matches blank; lines keep their numbers, which messages of the compiler name."""
    for match in reversed(matches):
        text = text[: match.start()] + text[match.end() :]
    return text


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        return stream.read()
