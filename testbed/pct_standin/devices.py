# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""devN entries of the stand-in: the value's format, and making the device nodes inside a container."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from testbed.pct_standin.node import Died

KEYS = {"path": None, "uid": r"\d+", "gid": r"\d+", "mode": r"0[0-7]{3}", "deny-write": r"[01]"}
LISTED = "devices"  # file in a container's lxc folder, read by the autodev hook: KIND MAJOR MINOR PATH MODE UID GID


def parse(name: str, value: str) -> dict[str, str]:
    """``/dev/x,uid=0,gid=44,mode=0660,deny-write=1`` → its properties. Raises what the real pct says."""
    found: dict[str, str] = {}
    for number, part in enumerate(value.split(",")):
        key, separator, text = part.partition("=")
        if not separator:
            key, text = ("path", part) if number == 0 else (part, "")
        if key not in KEYS:
            raise ValueError(f"{name}: invalid format - format error\n{name}.{key}: property is not defined in schema")
        pattern = KEYS[key]
        if pattern and not re.fullmatch(pattern, text):
            raise ValueError(
                f"{name}: invalid format - format error\n{name}.{key}: value does not match the regex pattern"
            )
        found[key] = text
    path = found.get("path", "")
    if not path.startswith("/dev/"):
        raise ValueError(
            f"{name}: invalid format - format error\n{name}.path: Path must be a valid path beginning with /dev/"
        )
    if not os.path.exists(path):
        raise Died(f"Device {path} does not exist")
    if not (stat.S_ISCHR(os.stat(path).st_mode) or stat.S_ISBLK(os.stat(path).st_mode)):
        raise Died(f"{path} is not a device")
    return found


def describe(name: str, value: str) -> str:
    """The line for `LISTED` of one entry."""
    entry = parse(name, value)
    info = os.stat(entry["path"])
    kind = "b" if stat.S_ISBLK(info.st_mode) else "c"
    number = f"{os.major(info.st_rdev)} {os.minor(info.st_rdev)}"
    owner = f"{entry.get('uid', '0')} {entry.get('gid', '0')}"
    return f"{kind} {number} {entry['path']} {entry.get('mode', '0660')} {owner} {entry.get('deny-write', '0')}"


def is_device(key: str) -> bool:
    return re.fullmatch(r"dev\d+", key) is not None


def prepare(folder: Path, conf: dict[str, str]) -> None:
    """Write what the autodev hook makes at the start. ``folder``: the container's folder in the LXC path."""
    lines = [describe(key, conf[key]) for key in sorted(conf) if is_device(key)]
    (folder / LISTED).write_text("".join(f"{line}\n" for line in lines))
