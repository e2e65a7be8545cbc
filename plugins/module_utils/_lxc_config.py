# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""A container's Proxmox configuration, read: tags, devN entries, and the raw lxc lines that older guides use for GPUs.

Shapes are those of ``GET /nodes/N/lxc/ID/config``: keys of ID.conf, and the raw lines as one key ``lxc`` of pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Keys of a devN value in the order in which they are written here.
_KEYS = ("uid", "gid", "mode", "deny-write")
_GPU = re.compile(r"^/dev/nvidia(\d+)$")
#: A raw line that names a device by number: type, major, minor or *.
_RULE = re.compile(r"^([cb])\s+(\d+|\*):(\d+|\*)\s+[rwm]+$")
RAW_RULES = ("lxc.cgroup2.devices.allow", "lxc.cgroup.devices.allow")
RAW_MOUNT = "lxc.mount.entry"
#: NVIDIA's fixed major; nvidia-uvm's is given out at boot.
NVIDIA_MAJOR = 195


@dataclass(frozen=True)
class Device:
    """A devN entry; options that this release does not know are kept."""

    path: str
    options: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """As it is written into the configuration: the path, then the options in one fixed order."""
        known = [f"{key}={self.options[key]}" for key in _KEYS if key in self.options]
        rest = [f"{key}={self.options[key]}" for key in sorted(self.options) if key not in _KEYS]
        return ",".join([self.path, *known, *rest])


def parse_device(value: str) -> Device:
    """``/dev/x,gid=44,mode=0660`` in any order, the path first or as ``path=``. ValueError when there is no path."""
    path = ""
    options = {}
    for part in str(value).split(","):
        key, separator, text = part.strip().partition("=")
        if not separator:
            key, text = "path", key
        if key == "path":
            path = text
        elif key:
            options[key] = text
    if not path:
        raise ValueError(f"{value!r} names no device: a devN entry is a path such as /dev/nvidia0, then its options.")
    return Device(path, options)


def parse_tags(text: str | None) -> list[str]:
    """Tags as a list, in their order and each once: files hold them with commas, semicolons or spaces."""
    return list(dict.fromkeys(tag for tag in re.split(r"[\s,;]+", text or "") if tag))


def devices(config: Mapping[str, Any]) -> dict[str, Device]:
    """{"dev0": Device} in the order of the numbers; an entry without a path is left out."""
    found = {}
    for key in sorted((key for key in config if re.fullmatch(r"dev\d+", key)), key=lambda key: int(key[3:])):
        try:
            found[key] = parse_device(config[key])
        except ValueError:
            continue
    return found


def raw_lines(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The raw lines in their order, repeated ones kept."""
    return [(str(pair[0]), str(pair[1])) for pair in config.get("lxc") or [] if len(pair) == 2]


def is_nvidia_path(path: str) -> bool:
    return path.startswith("/dev/nvidia")


def gpu_raw_lines(lines: Iterable[Sequence[str]], majors: Iterable[int] = ()) -> list[tuple[str, str]]:
    """Those raw lines that hand in NVIDIA devices.

    A mount entry says so by its path. A device rule has numbers alone: NVIDIA's own major counts, ``majors`` as well,
    and beside a mount of NVIDIA's devices every rule of a whole dynamic major (234 and up: what the kernel gives out).
    """
    pairs = [(str(key), str(value)) for key, value in lines]
    mounts = [
        pair for pair in pairs if pair[0] == RAW_MOUNT and is_nvidia_path(pair[1].split()[0] if pair[1].split() else "")
    ]
    wanted = {NVIDIA_MAJOR, *majors}
    found = []
    for key, value in pairs:
        if (key, value) in mounts:
            found.append((key, value))
        elif key in RAW_RULES:
            match = _RULE.match(value)
            number = int(match.group(2)) if match and match.group(2).isdigit() else -1
            dynamic = bool(mounts) and 234 <= number <= 511
            if match and match.group(1) == "c" and (number in wanted or dynamic):
                found.append((key, value))
    return found


def gpu(config: Mapping[str, Any]) -> dict[str, Any]:
    """How GPUs are handed in: {how: devices|raw|both|none, gpus: [0], devices: {dev0: text}, raw: [[key, value]]}."""
    entries = {key: device for key, device in devices(config).items() if is_nvidia_path(device.path)}
    raw = gpu_raw_lines(raw_lines(config))
    numbers = {int(match.group(1)) for device in entries.values() for match in [_GPU.match(device.path)] if match}
    for key, value in raw:
        match = _GPU.match(value.split()[0]) if key == RAW_MOUNT else None
        if match:
            numbers.add(int(match.group(1)))
    how = {(True, True): "both", (True, False): "devices", (False, True): "raw"}.get((bool(entries), bool(raw)), "none")
    return {
        "how": how,
        "gpus": sorted(numbers),
        "devices": {key: device.text() for key, device in entries.items()},
        "raw": [list(pair) for pair in raw],
    }
