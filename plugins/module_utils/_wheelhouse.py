# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""A folder of built wheels by key, in a container, on the control node, or served by any web server.

    <house>/<set>/<wheel, with the key's digest in its name>
    <house>/<set>/<digest>.json          its manifest: the wheel's name, SHA-256, whole key, and how it was built
    <house>/sources/<name>-<version>.json  the checksum of the sources that were first built

A set is one environment (torch, Python, C library, machine, GPU targets), so `pip install --find-links <house>/<set>`
finds what fits and nothing else. A wheel is there when its manifest is, which is written last and in one piece. What
is taken out is verified each time: the checksum against the manifest, and the key inside the wheel against the wanted
one, so a damaged or renamed wheel is never installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import tempfile
import time
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _lock
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import write_json
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import WheelError, sha256, verify
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import WheelKey

SOURCES = "sources"
NEW = ".new-"
LOCK = ".lock"


class Busy(Exception):
    """Somebody else was building this key for longer than we wait. The message names them."""


def set_of(key: WheelKey) -> str:
    """The name of the folder that a key's wheel lies in: one for each environment."""
    abi = "" if key.cxx11_abi else "_precxx11"
    targets = "-".join(key.gpu_targets) or "no-gpu-code"
    return f"torch-{key.torch}_{key.python_tag}_{key.libc}_{key.machine}{abi}_{targets}"


def manifest_path(key: WheelKey) -> str:
    """Where a key's manifest lies, below a house's folder or address."""
    return f"{set_of(key)}/{key.digest()}.json"


def source_path(package: str, version: str) -> str:
    """Where the checksum of a package's sources lies, below a house's folder or address."""
    return f"{SOURCES}/{package}-{version}.json"


def wheel_of(manifest: t.Mapping[str, t.Any], where: str) -> tuple[str, str]:
    """(file name, SHA-256) of the wheel that a manifest speaks of. Raises WheelError for one that names none."""
    try:
        return os.path.basename(str(manifest["wheel"])), str(manifest["sha256"])
    except (KeyError, TypeError) as error:
        raise WheelError(f"{where} cannot be used: it names no wheel and checksum") from error


def check(wheel: str, expected: str, key: WheelKey, shown: str | None = None) -> dict[str, t.Any]:
    """The record in a wheel that has the expected checksum and key. Raises WheelError for any other.

    ``shown``: where it came from, if its path says nothing to a person.
    """
    try:
        found = sha256(wheel)
    except OSError as error:
        raise WheelError(f"{wheel} cannot be read: {error.strerror}") from error
    if found != expected:
        text = "does not have the checksum that its manifest names: it is damaged or was replaced"
        raise WheelError(f"{shown or wheel} {text}")
    return verify(wheel, key)


def find(house: str, key: WheelKey) -> tuple[str, dict[str, t.Any]] | None:
    """(path of the verified wheel, its record), or None if there is none for this key.

    Raises WheelError for one that is there and does not pass, so that the caller can say so and build a new one.
    """
    try:
        return _find(house, key)
    except WheelError:
        # Somebody may have put a new wheel in place of the one whose manifest was just read.
        return _find(house, key)


def _find(house: str, key: WheelKey) -> tuple[str, dict[str, t.Any]] | None:
    path = os.path.join(house, manifest_path(key))
    try:
        with open(path, encoding="utf-8") as stream:
            manifest = json.load(stream)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise WheelError(f"{path} cannot be used: {error}") from error
    name, expected = wheel_of(manifest, path)
    wheel = os.path.join(os.path.dirname(path), name)
    if not os.path.isfile(wheel):
        raise WheelError(f"{wheel} is in the manifest and not in the folder")
    record = check(wheel, expected, key)
    with contextlib.suppress(OSError):  # the time of its last use, by which it is cleaned up
        os.utime(path)
    return wheel, record


def publish(house: str, key: WheelKey, wheel: str) -> str:
    """Put a stamped wheel of this key into the house, in place of one that is there; the path that it has there."""
    record = verify(wheel, key)
    folder = os.path.join(house, set_of(key))
    os.makedirs(folder, mode=0o755, exist_ok=True)
    place = os.path.join(folder, os.path.basename(wheel))
    handle, new = tempfile.mkstemp(prefix=NEW, dir=folder)
    try:
        with os.fdopen(handle, "wb") as copy, open(wheel, "rb") as original:
            shutil.copyfileobj(original, copy)
            copy.flush()
            os.fsync(copy.fileno())
        os.chmod(new, 0o644)
        checksum = sha256(new)
        os.replace(new, place)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise
    manifest = {"schema": 1, "wheel": os.path.basename(place), "sha256": checksum, **record}
    write_json(os.path.join(house, manifest_path(key)), manifest)
    sources = os.path.join(house, source_path(key.package, key.version))
    if not os.path.exists(sources):
        write_json(sources, {"sha256": key.source_sha256})
    return place


def source_sha256(house: str, package: str, version: str) -> str | None:
    """The checksum of the sources that this house's wheels of this version were built from; None if it has none."""
    try:
        with open(os.path.join(house, source_path(package, version)), encoding="utf-8") as stream:
            return checksum_in(json.load(stream))
    except (OSError, ValueError):
        return None


def checksum_in(record: t.Any) -> str | None:
    """The checksum in a record of sources; None if there is none that could be one."""
    found = record.get("sha256") if isinstance(record, dict) else None
    return found if isinstance(found, str) and re.fullmatch("[0-9a-f]{64}", found) else None


def manifests(house: str) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """(path, content) of each manifest that can be read."""
    for folder, folders, names in os.walk(house):
        folders[:] = sorted(name for name in folders if name not in (SOURCES, LOCK))
        for name in sorted(names):
            if name.endswith(".json") and not name.startswith("."):
                path = os.path.join(folder, name)
                try:
                    with open(path, encoding="utf-8") as stream:
                        yield path, dict(json.load(stream))
                except (OSError, ValueError, TypeError):
                    continue


def earlier_seconds(house: str, key: WheelKey) -> float | None:
    """How long this build is likely to take: the last build of this package, by its number of targets."""
    newest: tuple[str, float] | None = None
    for _path, manifest in manifests(house):
        built, other = manifest.get("built") or {}, manifest.get("key") or {}
        if other.get("package") == key.package and built.get("seconds"):
            scaled = built["seconds"] * max(1, len(key.gpu_targets)) / max(1, len(other.get("gpu_targets") or []))
            newest = max(newest or ("", 0.0), (str(built.get("finished")), scaled))
    return newest[1] if newest else None


@contextlib.contextmanager
def turn(
    house: str, key: WheelKey, who: str, limit: float, on_wait: t.Callable[[str], None] = lambda holder: None
) -> t.Iterator[None]:
    """One builder of a key at a time, whatever its sources' checksum, which not every builder knows yet.

    ``on_wait(who builds)`` is called once a second while waiting; after ``limit`` seconds Busy is raised. The lock
    goes with its process, however that ends, so the next one takes over from a builder that died.
    """
    place = os.path.join(house, LOCK)
    os.makedirs(place, mode=0o755, exist_ok=True)
    path = os.path.join(place, f"{set_of(key)}--{key.package}-{key.version}")
    with open(path, "a+", encoding="utf-8") as lock:
        if not _lock.acquired(lock, limit, lambda: on_wait(_holder(lock))):
            text = f"{key.package} {key.version}: {_holder(lock)} builds this wheel and was not done after"
            raise Busy(f"{text} {limit:.0f} seconds")
        with contextlib.suppress(OSError):  # a name to show to others, for which a full disk may have no room
            os.truncate(lock.fileno(), 0)
            os.write(lock.fileno(), f"{who} (process {os.getpid()} on {socket.gethostname()})\n".encode())
        yield


def _holder(lock: t.TextIO) -> str:
    lock.seek(0)
    return lock.read().strip() or "another builder"


def prune(
    house: str,
    unused_since: float | None = None,
    unwanted: t.Callable[[dict[str, t.Any]], bool] = lambda manifest: False,
    named: t.Callable[[str], bool] = lambda path: False,
    dry: bool = False,
    now: float | None = None,
) -> list[str]:
    """Remove wheels whose last use is before ``unused_since`` (seconds since 1970), or whose manifest is unwanted or
    has a path that is ``named``, and what a build that died left half-written a day ago; the removed wheels' paths."""
    removed = []
    for path, manifest in list(manifests(house)):
        old = unused_since is not None and os.stat(path).st_mtime < unused_since
        if not (old or unwanted(manifest) or named(path)):
            continue
        wheel = os.path.join(os.path.dirname(path), os.path.basename(str(manifest.get("wheel") or path)))
        removed.append(wheel)
        if not dry:
            # The manifest first: without it the wheel is not there any more.
            for gone in (path, wheel):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(gone)
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(path))
    if not dry:
        _remove_halves(house, (now or time.time()) - 86400)
    return removed


def _remove_halves(house: str, before: float) -> None:
    """Files that were being written, and wheels of ours that never got a manifest."""
    named = {os.path.join(os.path.dirname(path), str(one.get("wheel"))) for path, one in manifests(house)}
    for folder, _folders, names in os.walk(house):
        ours = [name for name in names if name.startswith(".") or re.search(r"-0k[0-9a-f]{16}-.*\.whl$", name)]
        for path in {os.path.join(folder, name) for name in ours} - named:
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_mtime < before:
                    os.unlink(path)
