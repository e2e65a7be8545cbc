# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's NVIDIA driver, imitated (testbed/nvidia_standin.py), and a container that is given its GPU.

The container sees what the driver shows in /proc by a copy at the same path, since there is no such driver whose /proc
it would share with the node.
"""

from __future__ import annotations

import json
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
LOOK = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: Look
      proxmox_gpu.training.chain_info: {links: [gpu], proc_path: /run/nvidia-standin/proc}
"""


class Gpu:
    """Node pve1 of a box with a driver, and one container on it."""

    def __init__(self, box: Box, container: Container, folder: Path) -> None:
        self.box = box
        self.container = container
        self.folder = folder
        self.node = box.layout.nodes[0]

    # The node

    def sh(self, command: str) -> str:
        """A shell command as the node's root."""
        done = self.box.node("/bin/sh", "-c", command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def driver(self, **settings: Any) -> None:
        (self.node.folder / "nvidia.json").write_text(json.dumps({"driver": DRIVER, **settings}))

    def forget_driver(self) -> None:
        """As after a boot: no module loaded, no device node."""
        self.sh(f"rm -rf {PROC.parent} /dev/nvidia*")

    def boot(self, **settings: Any) -> None:
        """As after a boot with the driver's nodes made."""
        self.driver(**settings)
        self.forget_driver()
        self.sh("nvidia-modprobe -c=0 -u")

    # The container

    @property
    def conf_path(self) -> Path:
        return self.node.pve_containers / f"{self.container.vmid}.conf"

    @property
    def conf(self) -> dict[str, str]:
        return pve_files.parse_conf(self.conf_path.read_text())

    @property
    def raw(self) -> list[tuple[str, str]]:
        return pve_files.raw_lxc_lines(self.conf_path.read_text())

    def configure(self, devices: dict[str, str], raw: list[tuple[str, str]] | None = None, start: bool = True) -> None:
        """Set exactly these entries, and start the container with them."""
        self.stop()
        kept = {key: value for key, value in self.conf.items() if not key.startswith(("dev", "lxc."))}
        pve_files.write_file(self.conf_path, pve_files.format_conf(kept | devices, raw))
        if start:
            self.start()

    def stop(self) -> None:
        self.box.node("pct", "stop", self.container.vmid)

    def start(self) -> None:
        done = self.box.node("pct", "start", self.container.vmid)
        assert done.returncode == 0, done.stderr
        self.share_proc()

    def share_proc(self) -> None:
        """Copy what the node's driver shows into the container."""
        root = Path(f"/proc/{self.sh(f'lxc-info -n {self.container.vmid} -p -H').strip()}/root")
        self.sh(
            f"rm -rf {root}{PROC.parent}; mkdir -p {root}{PROC.parent}; cp -a {PROC} {root}{PROC} 2>/dev/null || true"
        )

    def libraries(self, *versions: str) -> None:
        """Let the container have driver libraries of these versions, and no other."""
        self.container.run(f"rm -f {LIBRARIES}/libcuda.so.* {LIBRARIES}/libnvidia-ml.so.*")
        for version in versions:
            self.container.run(f"touch {LIBRARIES}/libcuda.so.{version} {LIBRARIES}/libnvidia-ml.so.{version}")

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

    # Ansible

    def role(self, check: bool = False, playbook: str = ROLE, **variables: Any) -> PlaybookResult:
        """The role, with a runfile of the node's driver and the right to restart."""
        values = {
            "gpu_passthrough_devices": ["/dev/nvidia0"],
            "gpu_passthrough_proc_path": str(PROC),
            "gpu_passthrough_restart_ok": True,
            "gpu_passthrough_runfile": self.runfile(),
            "gpu_passthrough_boot_unit": False,
        }
        merged = {f"gpu_passthrough_{name}": value for name, value in variables.items()}
        return self.box.run_playbook(playbook, self.container.host, values | merged, check=check)

    def cycle(self, **variables: Any) -> tuple[str, str, list[str]]:
        """Look, role, look, role: what the first look named, the state that the second found, and what changed last."""
        result = self.role(playbook=CYCLE, **variables).ok()
        before, after = (result.task(f"Look {when}").result["links"]["gpu"] for when in ("before", "after"))
        last = result.tasks[[one.task for one in result.tasks].index("Look after") + 1 :]
        return before["id"], after["state"], [one.task for one in last if one.changed]

    def look(self, **variables: Any) -> dict[str, Any]:
        """{id, state, sentence} of the chain's link gpu."""
        result = self.box.run_playbook(LOOK, self.container.host, variables).ok().task("Look").result
        found: dict[str, Any] = result["links"]["gpu"]
        return found
