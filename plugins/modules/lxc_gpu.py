#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lxc_gpu
short_description: Hand NVIDIA device nodes into an LXC container by devN entries
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Runs on the container's node, as root. Only C(pct) there may set devN entries, the API refuses them to every token.
  - Entries that are right keep their number; those of other devices are never touched.
  - Raw C(lxc.cgroup2.devices.allow) and C(lxc.mount.entry) lines for NVIDIA devices are replaced on request, with a
    backup of the whole configuration.
  - Proxmox hot-plugs an added device where its version can. What does not reach the running container so waits for a
    restart, which is done with O(restart) alone, and never while a process in the container has a GPU open.
options:
  vmid:
    description:
      - The container's id.
    type: int
    required: true
  paths:
    description:
      - The device nodes to hand in, in order. NVIDIA devices that are not listed are no longer handed in.
    type: list
    elements: path
    required: true
  gid:
    description:
      - Group of the nodes, as a number inside the container.
    type: int
    default: 0
  mode:
    description:
      - Mode of the nodes.
    type: str
    default: "0660"
  replace_raw:
    description:
      - Replace raw lines for NVIDIA devices. Without it a container that has some is left as it is.
    type: bool
    default: false
  majors:
    description:
      - NVIDIA's major numbers on this node, by which raw rules are recognised.
    type: list
    elements: int
    default: []
  restart:
    description:
      - Restart the container when a change has not reached it.
    type: bool
    default: false
  restart_timeout:
    description:
      - Seconds for an orderly shutdown, after which the container is stopped.
    type: int
    default: 120
  backup_path:
    description:
      - Where the configuration is kept before raw lines are taken out.
    type: path
    default: /var/backups/proxmox_gpu
attributes:
  check_mode:
    support: full
    description: Can run in check mode without changing anything.
  diff_mode:
    support: full
    description: Shows the entries and raw lines for NVIDIA devices before and after.
  idempotent:
    support: full
    description: A container that is right is left alone.
seealso:
  - module: proxmox_gpu.training.gpu_node
"""

EXAMPLES = r"""
- name: Hand in the first GPU
  proxmox_gpu.training.lxc_gpu:
    vmid: 200
    paths: [/dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm]
    gid: 44
    restart: true
"""

RETURN = r"""
restart_required:
  description: Whether something waits for a restart of the container.
  type: bool
  returned: success
restarted:
  description: Whether the container was restarted.
  type: bool
  returned: success
running:
  description: Whether the container runs.
  type: bool
  returned: success
busy:
  description: Processes of the container that have an NVIDIA device open, by their number on the node.
  type: list
  elements: int
  returned: success
raw:
  description: Raw lines for NVIDIA devices that were left.
  type: list
  elements: str
  returned: success
backup:
  description: The file that holds the configuration from before raw lines were taken out.
  type: str
  returned: when raw lines were replaced
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _gpu_plan as plan_of
from ansible_collections.proxmox_gpu.training.plugins.module_utils._gpu_container import (
    GuestError,
    busy_processes,
    conf_path,
    edit_conf,
    init_pid,
    keep_conf,
    unreached,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._lxc_config import (
    Device,
    devices,
    gpu_raw_lines,
    is_nvidia_path,
)


class Guest:
    """One run of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.vmid = str(module.params["vmid"])
        self.path = conf_path(self.vmid)
        self.backup = ""
        self.before = self.text()
        self.section = plan_of.read(self.before)
        self.raw = gpu_raw_lines(self.section.raw, self.params["majors"])

    def text(self) -> str:
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    @property
    def pid(self) -> int:
        return init_pid(self.module.run_command, self.vmid)

    def plan(self) -> plan_of.Plan:
        options = {"gid": str(self.params["gid"]), "mode": self.params["mode"]}
        wanted = [Device(path, options) for path in self.params["paths"]]
        if self.raw and not self.params["replace_raw"]:
            return plan_of.Plan({}, [], [])  # both ways at once would hide one another
        return plan_of.plan(self.section, wanted, self.params["replace_raw"], self.params["majors"])

    def apply(self, plan: plan_of.Plan) -> None:
        """The entries first: where Proxmox refuses them, the raw lines are still there."""
        if plan.raw:
            self.backup = keep_conf(self.path, self.params["backup_path"], self.vmid)
        words = [word for key, value in plan.sets.items() for word in (f"--{key}", value)]
        words += ["--delete", ",".join(plan.deletes)] if plan.deletes else []
        if words:
            self.pct("set", *words)
        if plan.raw:
            edit_conf(self.path, self.vmid, lambda text: plan_of.without_raw(text, plan.raw))

    def pct(self, action: str, *words: str) -> None:
        status, out, err = self.module.run_command(["pct", action, self.vmid, *words])
        if status:
            said = ((err or out).strip().splitlines() or [f"status {status}"])[0]
            raise GuestError(f"`pct {action} {self.vmid}` was refused: {said.rstrip('.')}.")

    def restart_required(self, plan: plan_of.Plan) -> bool:
        """Whether the running container has something else than its configuration says."""
        pid = self.pid
        if not pid:
            return False
        if plan.raw or plan_of.read(self.text()).devices_wait:
            return True
        return bool(unreached(pid, self.params["paths"])) and not (self.raw and not self.params["replace_raw"])

    def restart(self) -> None:
        self.pct("shutdown", "--timeout", str(self.params["restart_timeout"]), "--forceStop", "1")
        self.pct("start")
        deadline = time.monotonic() + 30
        while not self.pid and time.monotonic() < deadline:
            time.sleep(0.2)

    def shown(self, text: str) -> str:
        """The lines of a configuration that are about NVIDIA devices, as of the next start."""
        section = plan_of.read(text)
        lines = [f"{key}: {one.text()}" for key, one in devices(section.next).items() if is_nvidia_path(one.path)]
        raw = gpu_raw_lines(section.raw, self.params["majors"])
        return "".join(f"{line}\n" for line in [*lines, *(f"{key}: {value}" for key, value in raw)])

    def planned(self, plan: plan_of.Plan) -> str:
        """What `shown` will be, for check mode."""
        section = plan_of.read(plan_of.without_raw(self.before, plan.raw))
        keys = {key: value for key, value in section.next.items() if key not in plan.deletes} | dict(plan.sets)
        pairs = [*keys.items(), *section.raw]
        return self.shown("".join(f"{key}: {value}\n" for key, value in pairs))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "vmid": {"type": "int", "required": True},
            "paths": {"type": "list", "elements": "path", "required": True},
            "gid": {"type": "int", "default": 0},
            "mode": {"default": "0660"},
            "replace_raw": {"type": "bool", "default": False},
            "majors": {"type": "list", "elements": "int", "default": []},
            "restart": {"type": "bool", "default": False},
            "restart_timeout": {"type": "int", "default": 120},
            "backup_path": {"type": "path", "default": "/var/backups/proxmox_gpu"},
        },
        supports_check_mode=True,
    )
    try:
        guest = Guest(module)
        plan = guest.plan()
        if plan.changes and not module.check_mode:
            guest.apply(plan)
        required = guest.restart_required(plan) or (module.check_mode and plan.changes and guest.pid > 0)
        busy = busy_processes(guest.pid) if guest.pid else []
        restarted = required and module.params["restart"] and not busy
        if restarted and not module.check_mode:
            guest.restart()
            required = guest.restart_required(plan_of.Plan({}, [], []))
    except GuestError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename} cannot be used: {error.strerror}.")
    kept = [] if module.params["replace_raw"] else [f"{key}: {value}" for key, value in guest.raw]
    result = {"backup": guest.backup} if guest.backup else {}
    module.exit_json(
        changed=plan.changes or restarted,
        restart_required=required,
        restarted=restarted,
        running=guest.pid > 0,
        busy=busy,
        raw=kept,
        diff={"before": guest.shown(guest.before), "after": guest.planned(plan), "before_header": guest.path},
        **result,
    )


if __name__ == "__main__":
    main()
