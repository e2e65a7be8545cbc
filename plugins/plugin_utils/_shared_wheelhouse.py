# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""The wheelhouse that all containers share: a folder on the control node, or one that a web server serves."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from ansible.module_utils.urls import open_url

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import WheelError
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import WheelKey

TIMEOUT = 60
LARGEST_MANIFEST = 1 << 20


def shared(place: str) -> Folder | Served:
    """The wheelhouse of this path or address."""
    return Served(place.rstrip("/")) if "://" in place else Folder(os.path.abspath(os.path.expanduser(place)))


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

    def put(self, key: WheelKey, wheel: str) -> None:
        _wheelhouse.publish(self.path, key, wheel)

    def turn(
        self, key: WheelKey, who: str, limit: float, on_wait: Callable[[str], None]
    ) -> contextlib.AbstractContextManager[None]:
        return _wheelhouse.turn(self.path, key, who, limit, on_wait)

    def earlier_seconds(self, key: WheelKey) -> float | None:
        return _wheelhouse.earlier_seconds(self.path, key)


class Served:
    """The same folder behind a web server: read only, so nobody waits for anybody."""

    def __init__(self, address: str) -> None:
        self.address = address

    def source_sha256(self, package: str, version: str) -> str | None:
        found = self._json(_wheelhouse.source_path(package, version))
        return str(found["sha256"]) if found and "sha256" in found else None

    def get(self, key: WheelKey, folder: str) -> str | None:
        """As `Folder.get`; the wheel is downloaded into ``folder``."""
        path = _wheelhouse.manifest_path(key)
        manifest = self._json(path)
        if manifest is None:
            return None
        name, expected = _wheelhouse.wheel_of(manifest, f"{self.address}/{path}")
        local = os.path.join(folder, name)
        try:
            with (
                open_url(self._url(f"{_wheelhouse.set_of(key)}/{name}"), timeout=TIMEOUT) as answer,
                open(local, "wb") as out,
            ):
                for block in iter(lambda: answer.read(1 << 20), b""):
                    out.write(block)
        except OSError as error:
            raise WheelError(f"{self._url(name)} cannot be downloaded: {error}") from error
        _wheelhouse.check(local, expected, key)
        return local

    def put(self, key: WheelKey, wheel: str) -> None:
        pass  # whoever serves it also fills it

    @contextlib.contextmanager
    def turn(self, key: WheelKey, who: str, limit: float, on_wait: Callable[[str], None]) -> Iterator[None]:
        yield

    def earlier_seconds(self, key: WheelKey) -> float | None:
        return None

    def _json(self, path: str) -> dict[str, Any] | None:
        """A small file, None if there is none. Raises WheelError where the server does not answer."""
        try:
            with open_url(self._url(path), timeout=TIMEOUT) as answer:
                return dict(json.loads(answer.read(LARGEST_MANIFEST)))
        except HTTPError as error:
            if error.code in (403, 404, 410):
                return None
            raise WheelError(f"{self._url(path)} answers {error.code} {error.reason}") from error
        except (OSError, ValueError, TypeError) as error:
            raise WheelError(f"{self._url(path)} cannot be used: {error}") from error

    def _url(self, path: str) -> str:
        return f"{self.address}/{quote(path)}"
