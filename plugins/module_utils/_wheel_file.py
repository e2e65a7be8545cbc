# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Wheel files: put the key into a built one, and read it, its checksum and its modules back out.

The key stands in the file's name (build tag), in its WHEEL metadata and, whole, in ``proxmox_gpu.json`` of its metadata
folder. pip installs that file with the rest and removes it with the rest, so the record speaks of what is really
installed.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import typing as t
import zipfile
import zlib

from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import WheelKey, key_from_dict

RECORD_NAME = "proxmox_gpu.json"
_NAME = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)(?:-(?P<build>\d[^-]*))?-(?P<tags>[^-]+-[^-]+-[^-]+)\.whl$")


class WheelError(Exception):
    """The file is no wheel, is damaged, or is not what its record says. The message is a sentence."""


def sha256(path: str) -> str:
    """The file's SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def stamp(path: str, key: WheelKey, built: t.Mapping[str, t.Any], folder: str) -> str:
    """A copy of the wheel in ``folder`` that carries its key; the path of it. ``built``: provenance, any JSON."""
    match = _name(path)
    target = os.path.join(folder, f"{match['name']}-{match['version']}-{key.build_tag()}-{match['tags']}.whl")
    record = json.dumps({"schema": 1, "key": key.as_dict(), "built": dict(built)}, indent=2, sort_keys=True) + "\n"
    with _open(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as copy:
        metadata = _metadata_folder(source, path)
        lines: list[list[str]] = []
        for item in source.infolist():
            if item.filename in (f"{metadata}/RECORD", f"{metadata}/{RECORD_NAME}"):
                continue
            data = source.read(item)
            if item.filename == f"{metadata}/WHEEL":
                data = _with_build_tag(data.decode(), key.build_tag()).encode()
            copy.writestr(item, data, zipfile.ZIP_DEFLATED)
            lines.append(_line(item.filename, data))
        copy.writestr(f"{metadata}/{RECORD_NAME}", record)
        lines += [_line(f"{metadata}/{RECORD_NAME}", record.encode()), [f"{metadata}/RECORD", "", ""]]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        copy.writestr(f"{metadata}/RECORD", text.getvalue())
    return target


def read_record(path: str) -> dict[str, t.Any]:
    """What `stamp` put in. Raises WheelError for a wheel without it."""
    with _open(path) as wheel:
        name = f"{_metadata_folder(wheel, path)}/{RECORD_NAME}"
        if name not in wheel.namelist():
            raise WheelError(f"{path} carries no key; it was not built by this collection")
        record: dict[str, t.Any] = json.loads(wheel.read(name))
        return record


def verify(path: str, key: WheelKey) -> dict[str, t.Any]:
    """The record of a whole wheel of this key. Raises WheelError for damage and for another key, whatever the name
    says."""
    try:
        with _open(path) as wheel:
            damaged = wheel.testzip()
        record = {} if damaged else read_record(path)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise WheelError(f"{path} is damaged: {error}") from error
    if damaged:
        raise WheelError(f"{path} is damaged: the checksum of {damaged} inside it does not fit")
    try:
        found = key_from_dict(record.get("key") or {})
    except ValueError as error:
        raise WheelError(f"{path} carries a key that cannot be read: {error}") from error
    if found != key:
        raise WheelError(f"{path} was built for another key ({found.digest()}, wanted {key.digest()})")
    return record


def unpack(path: str, folder: str) -> None:
    """The wheel's files below ``folder``, as they would lie in site-packages."""
    with _open(path) as wheel:
        for name in wheel.namelist():
            if os.path.isabs(name) or ".." in name.split("/"):
                raise WheelError(f"{path} holds the path {name}, which leads out of its folder")
        wheel.extractall(folder)


def plain_name(path: str, given: str) -> str:
    """The file name that a wheel has by its own metadata: with their version and the given name's tags."""
    with _open(path) as wheel:
        stem = _metadata_folder(wheel, path)[: -len(".dist-info")]
    return f"{stem}-{_name(given.replace('%2B', '+'))['tags']}.whl"


def version_of(path: str) -> str:
    """The version in a wheel's file name."""
    return _name(path)["version"]


def _name(path: str) -> re.Match[str]:
    match = _NAME.match(os.path.basename(path))
    if not match:
        raise WheelError(f"{os.path.basename(path)} is not the name of a wheel")
    return match


def _open(path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise WheelError(f"{path} cannot be read as a wheel: {error}") from error


def _metadata_folder(wheel: zipfile.ZipFile, path: str) -> str:
    for name in wheel.namelist():
        folder, _slash, file = name.partition("/")
        if file == "WHEEL" and folder.endswith(".dist-info"):
            return folder
    raise WheelError(f"{path} has no WHEEL metadata")


def _with_build_tag(text: str, tag: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("Build:")]
    return "\n".join([*lines, f"Build: {tag}"]) + "\n"


def _line(name: str, data: bytes) -> list[str]:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [name, f"sha256={digest}", str(len(data))]
