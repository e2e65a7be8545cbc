#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node
short_description: Load the NVIDIA driver of a Proxmox node, and put its device nodes right
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Runs on the node. Loads C(nvidia) and C(nvidia-uvm) where they are not loaded, and makes the device nodes that the
    wanted GPUs need - missing ones, ones with the number of an earlier boot, and ones in whose place a file lies.
  - Tells a node that was upgraded and not yet rebooted apart, since containers need the running module's libraries.
options:
  devices:
    description:
      - The wanted GPUs, as paths such as V(/dev/nvidia0) or as numbers.
    type: list
    elements: str
    required: true
  dev_path:
    description:
      - Where the device nodes are.
    type: path
    default: /dev
  proc_path:
    description:
      - Where the kernel tells of its modules.
    type: path
    default: /proc
  backup_path:
    description:
      - Where a file with content is kept that lay in a node's place.
    type: path
    default: /var/backups/proxmox_gpu
attributes:
  check_mode:
    support: full
    description: Can run in check mode, where nothing is loaded or made.
  diff_mode:
    support: full
    description: Shows what was wrong with each device node.
  idempotent:
    support: full
    description: A node whose nodes are right is left alone.
seealso:
  - module: proxmox_gpu.training.lxc_gpu
"""

EXAMPLES = r"""
- name: Make sure that the node can hand in its first GPU
  proxmox_gpu.training.gpu_node:
    devices: [/dev/nvidia0]
"""

RETURN = r"""
module_version:
  description: Version of the kernel module that runs.
  type: str
  returned: success
  sample: 580.126.20
on_disk:
  description: Version of the module that the next boot loads; null where it cannot be told.
  type: str
  returned: success
  sample: 580.126.20
reboot_pending:
  description: Whether the driver was upgraded and the node not yet rebooted.
  type: bool
  returned: success
paths:
  description: The device nodes to hand in, in order; optional ones where the node has them.
  type: list
  elements: str
  returned: success
  sample: [/dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia-uvm-tools]
majors:
  description: Major numbers by the driver's families.
  type: dict
  returned: success
  sample: {"nvidia": 195, "nvidia-uvm": 511}
problems:
  description: What was wrong, a sentence each.
  type: list
  elements: str
  returned: success
  sample: []
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _gpu_node as gpu
from ansible_collections.proxmox_gpu.training.plugins.module_utils._gpu_node import NodeError


class Node:
    """One run of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.paths = gpu.NodePaths(module.params["dev_path"], module.params["proc_path"])
        self.problems: list[str] = []
        self.changed = False
        self.driver = self.look()

    def look(self) -> gpu.Driver:
        status, out, _err = self.module.run_command(["modinfo", "-F", "version", "nvidia"])
        return gpu.read(self.paths, out.strip() if status == 0 and out.strip() else None)

    def load(self, module: str, loaded: bool) -> None:
        """Load a kernel module that is not loaded."""
        if loaded:
            return
        self.problems.append(f"The kernel module {module} is not loaded.")
        self.changed = True
        if self.module.check_mode:
            return
        status, _out, err = self.module.run_command(["modprobe", module])
        if status:
            said = (err.strip().splitlines() or [f"status {status}"])[-1]
            raise NodeError(
                f"The kernel module {module} of node {os.uname().nodename} cannot be loaded ({said}); install NVIDIA's "
                f"driver for kernel {os.uname().release} there, and reboot."
            )
        self.driver = self.look()

    def run(self) -> list[str]:
        """The paths to hand in."""
        wanted = [gpu.gpu_number(device) for device in self.module.params["devices"]]
        self.load("nvidia", self.driver.loaded is not None)
        self.load("nvidia-uvm", "nvidia-uvm" in self.driver.majors)
        absent = [number for number in wanted if number not in self.driver.gpus]
        if absent and self.driver.loaded:
            have = ", ".join(f"/dev/nvidia{number}" for number in sorted(self.driver.gpus)) or "none"
            raise NodeError(
                f"Node {os.uname().nodename} has no GPU /dev/nvidia{absent[0]} (it has {have}); correct "
                "gpu_passthrough_devices, or look at `nvidia-smi -L` there."
            )
        for name in gpu.names(wanted):
            self.put_right(name)
        # Optional nodes are handed in where there are some, since a missing one would keep the container from starting.
        optional = [name for name in gpu.OPTIONAL if os.path.lexists(f"{self.paths.dev}/{name}")]
        for name in optional:
            self.put_right(name)
        return [f"{self.paths.dev}/{name}" for name in [*gpu.names(wanted), *optional]]

    def put_right(self, name: str) -> None:
        found = gpu.problem(name, self.driver, self.paths)
        if not found:
            return
        self.problems.append(found.sentence)
        self.changed = True
        if not self.module.check_mode:
            gpu.repair(found, name, self.driver, self.module.params["backup_path"])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "str", "required": True},
            "dev_path": {"type": "path", "default": "/dev"},
            "proc_path": {"type": "path", "default": "/proc"},
            "backup_path": {"type": "path", "default": "/var/backups/proxmox_gpu"},
        },
        supports_check_mode=True,
    )
    try:
        node = Node(module)
        paths = node.run()
    except NodeError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename} cannot be put right on node {os.uname().nodename}: {error.strerror}.")
    module.exit_json(
        changed=node.changed,
        module_version=node.driver.loaded,
        on_disk=node.driver.on_disk,
        reboot_pending=node.driver.reboot_pending,
        paths=paths,
        majors=node.driver.majors,
        problems=node.problems,
        diff={"before": "".join(f"{line}\n" for line in node.problems), "after": ""},
    )


if __name__ == "__main__":
    main()
