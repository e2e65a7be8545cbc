# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""A folder of built wheels by key: ``<folder>/<digest of the key>/{<wheel>, manifest.json}``.

A key's folder appears whole or not at all. What is taken out is verified each time: the checksum against the
manifest, and the key inside the wheel against the wanted one, so a damaged or renamed wheel is never installed.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import write_json
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import WheelError, sha256, verify
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import WheelKey

MANIFEST = "manifest.json"


def find(folder: str, key: WheelKey) -> tuple[str, dict[str, t.Any]] | None:
    """(path of the verified wheel, its record), or None if there is none for this key.

    Raises WheelError for one that is there and does not pass, so that the caller can say so and build a new one.
    """
    place = os.path.join(folder, key.digest())
    try:
        with open(os.path.join(place, MANIFEST), encoding="utf-8") as stream:
            manifest = json.load(stream)
        name, expected = os.path.basename(str(manifest["wheel"])), str(manifest["sha256"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise WheelError(f"{place}/{MANIFEST} cannot be used: {error}") from error
    wheel = os.path.join(place, name)
    if not os.path.isfile(wheel):
        raise WheelError(f"{wheel} is in the manifest and not in the folder")
    if sha256(wheel) != expected:
        raise WheelError(f"{wheel} does not have the checksum that its manifest names: it is damaged or was replaced")
    return wheel, verify(wheel, key)


def publish(folder: str, key: WheelKey, wheel: str) -> str:
    """Put a stamped wheel of this key into the house, in place of one that is there; the path that it has there."""
    record = verify(wheel, key)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    new = tempfile.mkdtemp(prefix=".new-", dir=folder)
    try:
        os.chmod(new, 0o755)
        name = os.path.basename(wheel)
        shutil.copyfile(wheel, os.path.join(new, name))
        write_json(os.path.join(new, MANIFEST), {"schema": 1, "wheel": name, "sha256": sha256(wheel), **record})
        place = os.path.join(folder, key.digest())
        # Taken away, not renamed: an overlay file system refuses to rename a folder of its lower layer. Whoever looks
        # in between finds no wheel, and builds one.
        if os.path.isdir(place):
            shutil.rmtree(place)
        os.rename(new, place)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return os.path.join(place, name)
