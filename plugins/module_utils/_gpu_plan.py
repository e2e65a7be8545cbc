# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""What has to change in a container's configuration so that exactly the wanted NVIDIA devices are handed in. Pure.

Entries of other devices are never touched. An entry that is right keeps its number and its spelling, so that a second
run changes nothing and a hand-made order stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._lxc_config import Device, devices, gpu_raw_lines

ENTRIES = 256  # dev0 to dev255
#: What is handed in or taken away here. Others of NVIDIA's (/dev/nvidia-caps of a divided GPU) are somebody's own.
_MANAGED = re.compile(r"/dev/nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)")


@dataclass(frozen=True)
class Section:
    """The part of an ID.conf that counts now: its keys, its raw lines in order, and what waits for the next start."""

    keys: Mapping[str, str]
    raw: Sequence[tuple[str, str]]
    changed: Mapping[str, str] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()

    @property
    def next(self) -> dict[str, str]:
        """The keys of the next start."""
        return {**{key: value for key, value in self.keys.items() if key not in self.deleted}, **self.changed}

    @property
    def devices_wait(self) -> bool:
        return any(re.fullmatch(r"dev\d+", key) for key in [*self.changed, *self.deleted])


@dataclass(frozen=True)
class Plan:
    """``sets``: devN → value; ``deletes``: keys; ``raw``: raw lines to take out."""

    sets: Mapping[str, str]
    deletes: Sequence[str]
    raw: Sequence[tuple[str, str]]

    @property
    def changes(self) -> bool:
        return bool(self.sets or self.deletes or self.raw)


def read(text: str) -> Section:
    """Of an ID.conf. Snapshot sections are left out; comments are no keys."""
    current, pending = _lines(text, None), _lines(text, "pve:pending")
    keys = {key: value for key, value in current if not key.startswith("lxc.")}
    changed = dict(pending)
    deleted = frozenset(name for name in changed.pop("delete", "").split(",") if name)
    return Section(keys, [pair for pair in current if pair[0].startswith("lxc.")], changed, deleted)


def _lines(text: str, wanted: str | None) -> list[tuple[str, str]]:
    found = []
    section = None
    for line in text.splitlines():
        if line.startswith("[") and line.rstrip().endswith("]"):
            section = line.strip()[1:-1]
        elif section == wanted and not line.startswith("#"):
            key, separator, value = line.partition(":")
            if separator and key.strip():
                found.append((key.strip(), value.strip()))
    return found


def without_raw(text: str, lines: Iterable[tuple[str, str]]) -> str:
    """The text of an ID.conf without these raw lines; snapshot sections and everything else stay byte for byte."""
    gone = set(lines)
    kept, current = [], True
    for line in text.splitlines(keepends=True):
        current = current and not line.startswith("[")
        key, _separator, value = line.partition(":")
        if not (current and (key.strip(), value.strip()) in gone):
            kept.append(line)
    return "".join(kept)


def plan(section: Section, wanted: Sequence[Device], replace_raw: bool = False, majors: Iterable[int] = ()) -> Plan:
    """``wanted``: in the order in which new ones get their numbers. ``majors``: NVIDIA's on the node, for raw rules."""
    now = devices(section.next)
    by_path: dict[str, str] = {}
    deletes = []
    for key, device in now.items():
        if _MANAGED.fullmatch(device.path):
            if device.path in by_path or device.path not in [one.path for one in wanted]:
                deletes.append(key)
            else:
                by_path[device.path] = key
    free = (f"dev{number}" for number in range(ENTRIES) if f"dev{number}" not in section.next)
    sets = {}
    for device in wanted:
        key = by_path.get(device.path) or next(free)
        if not same(now.get(key), device):
            sets[key] = device.text()
    raw = gpu_raw_lines(section.raw, majors) if replace_raw else []
    return Plan(sets, deletes, raw)


def same(have: Device | None, wanted: Device) -> bool:
    """Equal whatever the order of the options; what Proxmox assumes counts as written."""
    return have is not None and have.path == wanted.path and _full(have) == _full(wanted)


def _full(device: Device) -> dict[str, Any]:
    return {"uid": "0", "gid": "0", "mode": "0660", "deny-write": "0", **device.options}
