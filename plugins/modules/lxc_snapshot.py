#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lxc_snapshot
short_description: Take a snapshot of a container through the Proxmox API, and go back to it
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Takes a named snapshot of an LXC container and keeps the last few of its own, or rolls back to one of them.
  - A snapshot is its own when its name begins with O(prefix) and its description says that this collection made it. No
    other is ever deleted or rolled back to.
  - Each task of Proxmox is waited for, up to O(limit). What made it fail is in the error.
  - Runs where the API can be reached, so usually with C(delegate_to=localhost).
options:
  vmid:
    description:
      - The container's id.
    type: int
    required: true
  state:
    description:
      - V(present) takes a new snapshot, unless one named O(name) is there already.
      - V(rolled_back) puts files and configuration back to a snapshot's.
      - V(absent) deletes one.
    type: str
    default: present
    choices: [present, rolled_back, absent]
  prefix:
    description:
      - What the names of the collection's own snapshots begin with.
    type: str
    default: provision
  name:
    description:
      - The snapshot's name. It begins with O(prefix) and a C(-).
      - Without it, O(state=present) makes one up from the time (UTC), O(state=rolled_back) takes the newest of its own.
    type: str
  reason:
    description:
      - Goes into the description, after the line that says who made it.
    type: str
    default: ""
  keep:
    description:
      - How many of its own are kept, the new one included. The oldest beyond that are deleted once it was taken.
      - V(0) keeps them all.
    type: int
    default: 3
  need_running:
    description:
      - Refuse to take a snapshot of a container that does not run.
    type: bool
    default: true
  start:
    description:
      - Start the container after a roll-back, which leaves it stopped.
    type: bool
    default: true
  limit:
    description:
      - Seconds that one task may take.
    type: int
    default: 300
extends_documentation_fragment:
  - proxmox_gpu.training._pve_api
attributes:
  check_mode:
    support: full
    description: Can run in check mode, where what can be refused is refused and nothing is changed.
  diff_mode:
    support: full
    description: Shows the names of the collection's own snapshots before and after.
  idempotent:
    support: partial
    description: A snapshot with a given O(name) is taken once. Without a name each run takes one.
seealso:
  - plugin: proxmox_gpu.training.lxc_hosts
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Take a snapshot, and keep the last three
  proxmox_gpu.training.lxc_snapshot:
    api_host: pve1.example.org
    api_user: keeper@pve!snapshots
    api_token_secret: "{{ lookup('ansible.builtin.env', 'PVE_TOKEN_SECRET') }}"
    api_ca_file: /etc/ssl/certs/pve-root-ca.pem
    vmid: 200
  delegate_to: localhost
  register: taken

- name: Go back to it
  proxmox_gpu.training.lxc_snapshot:
    api_host: pve1.example.org
    api_user: keeper@pve!snapshots
    api_token_secret: "{{ lookup('ansible.builtin.env', 'PVE_TOKEN_SECRET') }}"
    api_ca_file: /etc/ssl/certs/pve-root-ca.pem
    vmid: 200
    state: rolled_back
    name: "{{ taken.name }}"
  delegate_to: localhost
"""

RETURN = r"""
name:
  description: The snapshot that was taken, rolled back to or deleted.
  type: str
  returned: success
  sample: provision-20261130T164500Z
node:
  description: The node that the container is on.
  type: str
  returned: success
  sample: pve1
snapshots:
  description: Names of the collection's own snapshots afterwards, the oldest first.
  type: list
  elements: str
  returned: success
  sample: [provision-20261129T220000Z, provision-20261130T164500Z]
deleted:
  description: Names of its own that were deleted.
  type: list
  elements: str
  returned: success
  sample: []
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils._lxc_snapshots import (
    LONGEST_NAME,
    Container,
    new_name,
    ours,
    surplus,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_access import access_from, argument_spec
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_api import Api
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_errors import ApiError


class Snapshots:
    """One run of the module."""

    def __init__(self, container: Container, params: dict[str, Any], check: bool) -> None:
        self.container = container
        self.params = params
        self.check = check
        self.all = container.snapshots()
        self.before = [str(one["name"]) for one in ours(self.all, params["prefix"])]
        self.after = list(self.before)
        self.deleted: list[str] = []

    def run(self) -> str:
        """The name of the snapshot that it was about."""
        return {"present": self.take, "rolled_back": self.go_back, "absent": self.remove}[self.params["state"]]()

    def take(self) -> str:
        name = str(self.params["name"] or new_name(self.params["prefix"], time.time()))
        if name in self.before:
            return name
        if name in [one["name"] for one in self.all]:
            raise ApiError(f"Container {self.container.vmid} has a snapshot {name} that is not this collection's own.")
        self.container.refuse(self.params["need_running"])
        self.after.append(name)
        if not self.check:
            self.container.create(name, self.params["reason"], self.params["limit"])
        keep = self.params["keep"]
        row = {"name": name, "snaptime": time.time(), "description": "made by proxmox_gpu.training"}
        for old in surplus([*self.all, row], self.params["prefix"], keep) if keep else []:
            self._delete(old)
        return name

    def go_back(self) -> str:
        name = self._own(self.params["name"] or (self.before[-1] if self.before else None))
        if not self.check:
            self.container.rollback(name, self.params["start"], self.params["limit"])
        return name

    def remove(self) -> str:
        name = self.params["name"]
        if not name:
            raise ApiError("state=absent needs the name of a snapshot.")
        if name in [one["name"] for one in self.all]:
            self._delete(self._own(name))
        return str(name)

    def _own(self, name: Any) -> str:
        if name in self.before:
            return str(name)
        there = f"its own are {', '.join(self.before)}" if self.before else "it has made none there"
        what = f"no snapshot {name} of this collection's" if name else "no snapshot of this collection's"
        raise ApiError(f"Container {self.container.vmid} has {what} ({there}); others are left alone.")

    def _delete(self, name: str) -> None:
        self.deleted.append(name)
        self.after.remove(name)
        if not self.check:
            self.container.delete(name, self.params["limit"])

    @property
    def changed(self) -> bool:
        return self.before != self.after or self.params["state"] == "rolled_back"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **argument_spec(),
            "vmid": {"type": "int", "required": True},
            "state": {"default": "present", "choices": ["present", "rolled_back", "absent"]},
            "prefix": {"default": "provision"},
            "name": {},
            "reason": {"default": ""},
            "keep": {"type": "int", "default": 3},
            "need_running": {"type": "bool", "default": True},
            "start": {"type": "bool", "default": True},
            "limit": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    params = module.params
    name = params["name"]
    if name and (not name.startswith(f"{params['prefix']}-") or len(name) > LONGEST_NAME):
        module.fail_json(
            msg=f"The snapshot's name is {name!r}; it has to begin with {params['prefix']}- and to have at most "
            f"{LONGEST_NAME} characters."
        )
    try:
        container = Container(Api(access_from(params)), params["vmid"])
        snapshots = Snapshots(container, params, module.check_mode)
        name = snapshots.run()
    except ApiError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=snapshots.changed,
        name=name,
        node=container.node,
        snapshots=snapshots.after,
        deleted=snapshots.deleted,
        diff={
            "before": "".join(f"{one}\n" for one in snapshots.before),
            "after": "".join(f"{one}\n" for one in snapshots.after),
        },
    )


if __name__ == "__main__":
    main()
