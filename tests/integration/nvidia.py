# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's NVIDIA driver, imitated (testbed/nvidia_standin.py), and containers that are given its GPU.

A container sees what the driver shows in /proc, as it would of a real one: the stand-in's folder is mounted into it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed import pve_files
from testbed.nvidia_standin import PROC
from tests.integration.box import Box, Container
from tests.integration.playbook_result import PlaybookResult

DRIVER, OLDER, NEWER = "580.126.20", "580.95.05", "590.44.01"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
GOOD = {
    "dev0": "/dev/nvidia0,gid=0,mode=0660",
    "dev1": "/dev/nvidiactl,gid=0,mode=0660",
    "dev2": "/dev/nvidia-uvm,gid=0,mode=0660",
    "dev3": "/dev/nvidia-uvm-tools,gid=0,mode=0660",
}
SHARED = ("lxc.mount.entry", f"{PROC} {str(PROC).lstrip('/')} none bind,create=dir")
ROLE = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: Role
      ansible.builtin.include_role: {name: proxmox_gpu.training.gpu_passthrough}
"""
CYCLE = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: Look before
      proxmox_gpu.training.chain_info: {links: [gpu], proc_path: /run/nvidia-standin/proc}
    - name: Role
      ansible.builtin.include_role: {name: proxmox_gpu.training.gpu_passthrough}
    - name: Look after
      proxmox_gpu.training.chain_info: {links: [gpu], proc_path: /run/nvidia-standin/proc}
    - name: Once more
      ansible.builtin.include_role: {name: proxmox_gpu.training.gpu_passthrough}
"""
Devices = Mapping[str, str]
Raw = Sequence[tuple[str, str]]


class Node:
    """Node pve1 of a box with a driver."""

    def __init__(self, box: Box, folder: Path) -> None:
        self.box = box
        self.folder = folder
        self.layout = box.layout.nodes[0]

    def sh(self, command: str) -> str:
        """A shell command as the node's root."""
        done = self.box.node("/bin/sh", "-c", command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def driver(self, **settings: Any) -> None:
        (self.layout.folder / "nvidia.json").write_text(json.dumps({"driver": DRIVER, **settings}))

    def forget_driver(self) -> None:
        """As after a boot: no module loaded, no device node. The folder itself stays: containers have it mounted."""
        self.sh(f"mkdir -p {PROC}; rm -rf {PROC}/* /dev/nvidia*")

    def boot(self, **settings: Any) -> None:
        """As after a boot with the driver's nodes made."""
        self.driver(**settings)
        self.forget_driver()
        self.sh("nvidia-modprobe -c=0 -u")

    def runfile(self, version: str = DRIVER) -> str:
        """A stand-in of NVIDIA's installer, which installs empty files. Its name, with VERSION for its version."""
        text = f"""\
#!/bin/sh
# STAND-IN of NVIDIA's installer: it makes empty libraries of its version, and refuses a kernel module.
case "$*" in *--no-kernel-modules*) ;; *) echo "would build a kernel module" >&2; exit 1 ;; esac
rm -f {LIBRARIES}/libcuda.so.* {LIBRARIES}/libnvidia-ml.so.*
touch {LIBRARIES}/libcuda.so.{version} {LIBRARIES}/libnvidia-ml.so.{version}
"""
        (self.folder / f"NVIDIA-Linux-x86_64-{version}.run").write_text(text)
        return str(self.folder / "NVIDIA-Linux-x86_64-VERSION.run")

    def play(self, hosts: Mapping[str, Mapping[str, Any]], playbook: str = ROLE, check: bool = False) -> PlaybookResult:
        """Run it on containers at once, each with variables of its own (``group`` is gpu_passthrough_group).

        By default with a runfile of the node's driver and the right to restart.
        """
        common = {"devices": ["/dev/nvidia0"], "proc_path": str(PROC), "restart_ok": True, "boot_unit": False}
        variables = {}
        for host, own in hosts.items():
            given = {**common, "runfile": self.runfile(), **own}
            wider = {name: given.pop(name) for name in list(given) if name.startswith("fast_path_")}
            variables[host] = {**{f"gpu_passthrough_{name}": value for name, value in given.items()}, **wider}
        path = self.folder / "hosts.yml"
        path.write_text(json.dumps({"all": {"hosts": variables}}))
        return self.box.run_playbook(
            playbook,
            ",".join(hosts),
            check=check,
            arguments=["-i", str(path)],
            environment={"ANSIBLE_FORKS": "8"},
        )


class Gpu:
    """A container on that node."""

    def __init__(self, node: Node, vmid: str) -> None:
        self.node = node
        self.vmid = vmid
        self.container = Container(node.box, vmid)
        self.host = self.container.host

    @property
    def conf_path(self) -> Path:
        return self.node.layout.pve_containers / f"{self.vmid}.conf"

    @property
    def conf(self) -> dict[str, str]:
        return pve_files.parse_conf(self.conf_path.read_text())

    @property
    def entries(self) -> dict[str, str]:
        return {key: value for key, value in self.conf.items() if key.startswith("dev")}

    @property
    def raw(self) -> list[tuple[str, str]]:
        """Raw lines but the one that stands for the kernel's own sharing of /proc."""
        return [line for line in pve_files.raw_lxc_lines(self.conf_path.read_text()) if line != SHARED]

    @property
    def init(self) -> str:
        """The number of its first process: another one after a restart."""
        return self.node.sh(f"lxc-info -n {self.vmid} -p -H").strip()

    def configure(self, devices: Devices = GOOD, raw: Raw = ()) -> None:
        """Set exactly these entries, and start the container with them."""
        self.stop()
        kept = {key: value for key, value in self.conf.items() if not key.startswith(("dev", "lxc."))}
        pve_files.write_file(self.conf_path, pve_files.format_conf({**kept, **devices}, [*raw, SHARED]))
        self.start()

    def stop(self) -> None:
        self.node.box.node("pct", "stop", self.vmid)

    def start(self) -> None:
        done = self.node.box.node("pct", "start", self.vmid)
        assert done.returncode == 0, done.stderr

    def run(self, command: str) -> str:
        return self.container.run(command)

    def libraries(self, *versions: str) -> None:
        """Let the container have driver libraries of these versions, and no other."""
        names = [f"{LIBRARIES}/{name}.so.{version}" for name in ("libcuda", "libnvidia-ml") for version in versions]
        touch = f"; touch {' '.join(names)}" if names else ""
        self.run(f"rm -f {LIBRARIES}/libcuda.so.* {LIBRARIES}/libnvidia-ml.so.*{touch}")
