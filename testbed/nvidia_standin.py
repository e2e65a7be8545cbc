# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""STAND-IN of NVIDIA's driver on a node: modprobe, modinfo and nvidia-modprobe for modules that do not exist.

Loading a module writes what the real one would show in /proc, into `PROC`; nvidia-modprobe makes device nodes in the
node's own /dev. ``nvidia.json`` in the node's folder, by default `DEFAULTS`, says which driver and GPUs are imitated.
Standard library only: it runs on the node by the system's python3.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

PROC = Path("/run/nvidia-standin/proc")
DEV = Path("/dev")
DEFAULTS: dict[str, Any] = {
    "driver": None,  # version of the module on disk; None: there is no driver
    "loaded": None,  # version that modprobe loads, where it differs from the one on disk
    "gpus": 1,
    "majors": {"nvidia": 195, "nvidia-uvm": 511},
}
FRONTEND = {"nvidiactl": 255, "nvidia-modeset": 254}
UVM = {"nvidia-uvm": 0, "nvidia-uvm-tools": 1}


def settings(path: str) -> dict[str, Any]:
    try:
        return DEFAULTS | json.loads(Path(path).read_text())
    except FileNotFoundError:
        return DEFAULTS


def main(program: str, arguments: list[str], path: str) -> int:
    words = [word for word in arguments if not word.startswith("-")]
    given = settings(path)
    if program == "nvidia-modprobe":
        return nvidia_modprobe(arguments, given)
    module = words[-1].replace("-", "_") if words else ""
    if module not in ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm") or not given["driver"]:
        print(f"{program}: FATAL: Module {words[-1] if words else ''} not found in directory.", file=sys.stderr)
        return 1
    if program == "modinfo":
        print(given["driver"])
        return 0
    load(module, given)
    return 0


def load(module: str, given: dict[str, Any]) -> None:
    version = PROC / "driver/nvidia/version"
    if not version.exists():
        version.parent.mkdir(parents=True, exist_ok=True)
        number = given["loaded"] or given["driver"]
        version.write_text(f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {number}  Release Build\n")
        for gpu in range(given["gpus"]):
            folder = PROC / f"driver/nvidia/gpus/0000:{gpu + 1:02x}:00.0"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "information").write_text(f"Model: \t\t Stand-in GPU\nDevice Minor: \t {gpu}\n")
    loaded = ["nvidia"] + ["nvidia-uvm"] * (module == "nvidia_uvm" or uvm_is_loaded())
    lines = [f"{given['majors'][name]:3d} {name}" for name in loaded]
    devices = Path("/proc/devices").read_text().split("Block devices:")[0].rstrip()
    (PROC / "devices").write_text("\n".join([devices, *lines, "", "Block devices:", ""]))


def uvm_is_loaded() -> bool:
    listed = PROC / "devices"
    return listed.exists() and "nvidia-uvm" in listed.read_text()


def nvidia_modprobe(arguments: list[str], given: dict[str, Any]) -> int:
    """``-c=N`` makes nvidiaN and nvidiactl, ``-u`` nvidia-uvm and its tools node, both after loading the module."""
    if not given["driver"]:
        return 1
    if not (PROC / "driver/nvidia/version").exists():
        load("nvidia", given)
    for word in arguments:
        if word.startswith("-c"):
            number = int(word.removeprefix("-c").removeprefix("=") or "0")
            if number < given["gpus"]:
                node(f"nvidia{number}", given["majors"]["nvidia"], number)
            node("nvidiactl", given["majors"]["nvidia"], FRONTEND["nvidiactl"])
        elif word == "-m":
            node("nvidia-modeset", given["majors"]["nvidia"], FRONTEND["nvidia-modeset"])
        elif word == "-u":
            load("nvidia_uvm", given)
    if "-u" in arguments:
        for name, minor in UVM.items():
            node(name, given["majors"]["nvidia-uvm"], minor)
    return 0


def node(name: str, major: int, minor: int) -> None:
    """As nvidia-modprobe does: an existing node of the right number stays, another one is made anew, a file stays."""
    path = DEV / name
    wanted = os.makedev(major, minor)
    if path.exists():
        status = path.stat()
        if not stat.S_ISCHR(status.st_mode) or status.st_rdev == wanted:
            return
        path.unlink()
    os.mknod(path, stat.S_IFCHR | 0o666, wanted)
    os.chmod(path, 0o666)
