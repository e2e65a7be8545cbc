# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""The wheelhouse that all containers share: a folder on the control node, or one that a web server serves."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote

from ansible.module_utils.urls import open_url

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import without_logins
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import WheelError
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import WheelKey

TIMEOUT = 20.0  # seconds without a byte, and for a whole manifest
LONGEST = 1800.0  # seconds for a whole wheel
LARGEST_MANIFEST = 1 << 20
ABSENT = (403, 404, 410)  # some servers answer 403 for what they do not have


OWN = "~/.cache/proxmox_gpu/wheelhouse"  # of the control node, beside one that is only read


def shared(place: str, own: str = OWN) -> Folder | Served:
    """The wheelhouse of this path or address. Raises WheelError for what is neither."""
    if "://" not in place:
        return _folder(place)
    if place.partition("://")[0].lower() not in ("http", "https"):
        raise WheelError(f"{without_logins(place)} is neither a folder nor the address of a web server")
    return Served(place.rstrip("/"), _folder(own))


def _folder(path: str) -> Folder:
    return Folder(os.path.abspath(os.path.expanduser(path)))


class Folder:
    """A folder of the control node: read and written."""

    def __init__(self, path: str) -> None:
        self.path = path

    def source_sha256(self, package: str, version: str) -> str | None:
        return _wheelhouse.source_sha256(self.path, package, version)

    def get(self, key: WheelKey, folder: str) -> str | None:
        """A verified wheel of this key, None if there is none. Raises WheelError for one that is no good."""
        found = _wheelhouse.find(self.path, key)
        return found[0] if found else None

    def wants(self, key: WheelKey) -> bool:
        """Whether a new wheel of this key is to be put here."""
        try:
            return _wheelhouse.find(self.path, key) is None
        except WheelError:
            return True

    def put(self, key: WheelKey, wheel: str) -> None:
        _wheelhouse.publish(self.path, key, wheel)

    def turn(
        self, key: WheelKey, who: str, limit: float, on_wait: Callable[[str], None]
    ) -> contextlib.AbstractContextManager[None]:
        return _wheelhouse.turn(self.path, key, who, limit, on_wait)

    def earlier_seconds(self, key: WheelKey) -> float | None:
        return _wheelhouse.earlier_seconds(self.path, key)


class Served:
    """The same folder behind a web server, which is only read. What it lacks lies in a folder of the control node.

    A server that did not answer once is not asked again: each of several questions would wait as long.
    """

    def __init__(self, address: str, own: Folder) -> None:
        self.address, self.own = address, own
        self._silent: WheelError | None = None
        self.wants, self.put, self.turn, self.earlier_seconds = own.wants, own.put, own.turn, own.earlier_seconds

    def source_sha256(self, package: str, version: str) -> str | None:
        found = self.own.source_sha256(package, version)
        return found or _wheelhouse.checksum_in(self._json(_wheelhouse.source_path(package, version)))

    def get(self, key: WheelKey, folder: str) -> str | None:
        """As `Folder.get`; the wheel is downloaded into ``folder``."""
        return self.own.get(key, folder) or self._downloaded(key, folder)

    def _downloaded(self, key: WheelKey, folder: str) -> str | None:
        path = _wheelhouse.manifest_path(key)
        manifest = self._json(path)
        if manifest is None:
            return None
        name, expected = _wheelhouse.wheel_of(manifest, self._shown(path))
        path = f"{_wheelhouse.set_of(key)}/{name}"
        local = os.path.join(folder, name)
        with open(local, "wb") as out:
            for block in self._blocks(path, LONGEST):
                out.write(block)
        _wheelhouse.check(local, expected, key, self._shown(path))
        return local

    def _json(self, path: str) -> dict[str, Any] | None:
        """A small file, None if there is none. Raises WheelError where the server does not answer."""
        text = b""
        try:
            for block in self._blocks(path, TIMEOUT):
                text += block
                if len(text) > LARGEST_MANIFEST:
                    raise ValueError("it is too large for one")
            return dict(json.loads(text))
        except _Absent:
            return None
        except (ValueError, TypeError) as error:
            raise WheelError(f"{self._shown(path)} is no manifest of a wheelhouse: {error}") from error

    def _blocks(self, path: str, limit: float) -> Iterator[bytes]:
        """The file, as it comes. Raises _Absent, or WheelError for a server that answers otherwise or not in time."""
        if self._silent:
            raise self._silent
        started = time.monotonic()
        try:
            with open_url(f"{self.address}/{quote(path)}", timeout=TIMEOUT) as answer:
                # read1: what has come. A read of a whole block waits for it as long as bytes keep trickling.
                for block in iter(lambda: answer.read1(1 << 20), b""):
                    yield block
                    if time.monotonic() - started > limit:
                        raise TimeoutError(f"it was not there after {limit:.0f} seconds")
        except HTTPError as error:
            if error.code in ABSENT:
                raise _Absent(f"{self._shown(path)} is not there") from error
            if error.code < 500:
                raise WheelError(f"{self._shown(path)} cannot be had: the server answers {error.code}") from error
            raise self._lost(path, f"the server answers {error.code}") from error
        except (OSError, HTTPException, ValueError) as error:
            why = error.reason if isinstance(error, URLError) else error
            raise self._lost(path, getattr(why, "strerror", None) or why) from error

    def _lost(self, path: str, why: object) -> WheelError:
        text = " ".join(without_logins(str(why) or type(why).__name__).split())
        self._silent = WheelError(f"{self._shown(path)} cannot be had: {text}")
        return self._silent

    def _shown(self, path: str) -> str:
        return without_logins(f"{self.address}/{path}")


class _Absent(WheelError):
    """The server does not have the file."""
