# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the testbed must not run here: one sentence each, before anything is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from testbed.errors import TestbedError

PACKAGES = {  # a command that the testbed runs → the Debian package that brings it
    "/usr/bin/lxc-start": "lxc",
    "/usr/bin/mmdebstrap": "mmdebstrap",
    "/usr/sbin/sshd": "openssh-server",
    "/usr/bin/ssh-keygen": "openssh-client",
    "/usr/bin/openssl": "openssl",
    "/usr/bin/sudo": "sudo",
    "/usr/bin/python3": "python3",
    "/usr/bin/nsenter": "util-linux",
}


def os_release(path: Path = Path("/etc/os-release")) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in lines) if key}


def refuse_without_root() -> None:
    if os.geteuid() != 0:
        raise TestbedError("The testbed starts containers and namespaces, so it needs root: run it with sudo.")


def refuse_wrong_machine() -> None:
    """Debian, and not a real Proxmox node."""
    system = os_release()
    if system.get("ID") != "debian":
        name = system.get("PRETTY_NAME", "an unknown system")
        raise TestbedError(
            f"The testbed runs on Debian only (this is {name}): its containers are made like the machine."
        )
    if reason := proxmox_sign():
        raise TestbedError(
            f"This machine is a real Proxmox node ({reason}): the testbed refuses to run here, use a Debian machine."
        )


def proxmox_sign(mounts: str | None = None) -> str | None:
    """What says that this is a real node, or None."""
    for command in ("/usr/bin/pveversion", "/usr/sbin/pct", "/usr/sbin/qm"):
        if Path(command).exists():
            return f"{command} exists"
    for line in (Path("/proc/self/mounts").read_text() if mounts is None else mounts).splitlines():
        if line.split()[1] == "/etc/pve":
            return "/etc/pve is mounted"
    if shutil.which("dpkg-query"):
        query = ["dpkg-query", "-W", "-f=${db:Status-Status}", "pve-container"]
        if subprocess.run(query, capture_output=True, text=True, timeout=30, check=False).stdout == "installed":
            return "the package pve-container is installed"
    return None


def missing_packages() -> list[str]:
    return sorted({package for command, package in PACKAGES.items() if not Path(command).exists()})


def refuse_overlay(folder: Path) -> None:
    """Containers are overlays, and the kernel makes none on top of another (a container's disk, say)."""
    query = ["stat", "-f", "-c", "%T", str(folder)]
    kind = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False).stdout.strip()
    if kind in ("overlayfs", "nfs"):
        raise TestbedError(
            f"{folder} lies on {kind}, where no overlay can be made: put the checkout on a disk of its own."
        )


def refuse_missing_packages() -> None:
    if missing := missing_packages():
        raise TestbedError(
            f"The testbed needs Debian packages that are not installed: run `apt-get install --no-install-recommends"
            f" {' '.join(missing)}`."
        )
