# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""A node's NVIDIA driver and its device nodes: what there is, what is wrong, and how it is put right.

Facts from NVIDIA's documentation: the GPU's node has the GPU's own minor, /dev/nvidiactl has 255, /dev/nvidia-modeset
254, all with the major of ``nvidia``; /dev/nvidia-uvm and /dev/nvidia-uvm-tools have 0 and 1 of ``nvidia-uvm``, a major
that is given out when the module is loaded.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MINORS = {"nvidiactl": 255, "nvidia-modeset": 254, "nvidia-uvm": 0, "nvidia-uvm-tools": 1}
# nvidia-modprobe makes nvidia-uvm-tools with nvidia-uvm.
REQUIRED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
OPTIONAL = ("nvidia-modeset",)
_VERSION = re.compile(r"Kernel Module.*?\s(\d{3}\.\d+(?:\.\d+)?)\s")
_ROW = re.compile(r"^\s*(\d+)\s+(nvidia(?:-frontend|-uvm|ctl)?)\s*$", re.MULTILINE)


class NodeError(Exception):
    """One sentence: the node cannot hand in what is wanted."""


@dataclass
class NodePaths:
    dev: str = "/dev"
    proc: str = "/proc"


@dataclass(frozen=True)
class Problem:
    """One device path that is not right. ``kind``: missing, stale_major, file, directory."""

    path: str
    kind: str
    sentence: str


@dataclass
class Driver:
    """``loaded``: version of the module that runs; ``on_disk``: of the one that the next boot loads."""

    loaded: str | None = None
    on_disk: str | None = None
    majors: dict[str, int] = field(default_factory=dict)
    gpus: list[int] = field(default_factory=list)

    @property
    def reboot_pending(self) -> bool:
        return bool(self.loaded and self.on_disk and self.loaded != self.on_disk)


def read(paths: NodePaths, on_disk: str | None) -> Driver:
    driver = Driver(on_disk=on_disk)
    match = _VERSION.search(_text(f"{paths.proc}/driver/nvidia/version"))
    driver.loaded = match.group(1) if match else None
    listed = _text(f"{paths.proc}/devices").partition("Block devices:")[0]
    for number, name in _ROW.findall(listed):
        driver.majors["nvidia-uvm" if name == "nvidia-uvm" else "nvidia"] = int(number)
    folder = f"{paths.proc}/driver/nvidia/gpus"
    for address in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        found = re.search(r"^Device Minor:\s*(\d+)", _text(f"{folder}/{address}/information"), re.MULTILINE)
        if found:
            driver.gpus.append(int(found.group(1)))
    return driver


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def gpu_number(device: Any) -> int:
    """0 of 0, "0" and /dev/nvidia0. NodeError for what is no GPU."""
    match = re.fullmatch(r"(?:/dev/nvidia)?(\d+)", str(device).strip())
    if not match:
        raise NodeError(f"{device!r} is no GPU: gpu_passthrough_devices holds paths such as /dev/nvidia0, or numbers.")
    return int(match.group(1))


def names(gpus: Iterable[int]) -> list[str]:
    """The nodes that these GPUs need, in the order in which they are handed in."""
    return [*(f"nvidia{number}" for number in gpus), *REQUIRED]


def number_of(name: str, driver: Driver) -> int | None:
    """The device number that a node must have; None where the driver has no such family."""
    family = "nvidia-uvm" if name.startswith("nvidia-uvm") else "nvidia"
    if family not in driver.majors:
        return None
    minor = MINORS[name] if name in MINORS else int(name[len("nvidia") :])
    return os.makedev(driver.majors[family], minor)


def problem(name: str, driver: Driver, paths: NodePaths) -> Problem | None:
    path = f"{paths.dev}/{name}"
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return Problem(path, "missing", f"{path} is missing: nothing has used the driver since the node booted.")
    if stat.S_ISDIR(status.st_mode):
        return Problem(path, "directory", f"{path} is a directory: a bind mount made it while the driver was absent.")
    if not stat.S_ISCHR(status.st_mode):
        return Problem(path, "file", f"{path} is no device but a file: a mount or a script made it without the driver.")
    wanted = number_of(name, driver)
    if wanted is not None and status.st_rdev != wanted:
        have = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        should = f"{os.major(wanted)}:{os.minor(wanted)}"
        return Problem(
            path, "stale_major", f"{path} has the number {have} of an earlier boot, and the driver {should}."
        )
    return None


def repair(one: Problem, name: str, driver: Driver, backup: str) -> None:
    """Make the node. What was in its place is removed, a file that has content is kept under ``backup``."""
    wanted = number_of(name, driver)
    if wanted is None:
        raise NodeError(f"{one.path} cannot be made: /proc/devices has no major for it, so its module is not loaded.")
    if one.kind == "directory":
        try:
            os.rmdir(one.path)
        except OSError as error:
            raise NodeError(
                f"{one.sentence} It is not empty ({error.strerror}); look what is mounted there, and remove it."
            ) from None
    elif one.kind == "file" and os.path.isfile(one.path) and os.path.getsize(one.path):
        os.makedirs(backup, mode=0o700, exist_ok=True)
        with open(one.path, "rb") as source, open(os.path.join(backup, name), "wb") as target:
            target.write(source.read())
        os.unlink(one.path)
    elif one.kind != "missing":
        os.unlink(one.path)
    os.mknod(one.path, stat.S_IFCHR | 0o666, wanted)
    os.chmod(one.path, 0o666)
