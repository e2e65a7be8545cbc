# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: node_ssh
short_description: How the node of a container is asked by pvesh over ssh
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - From a container's variables (those of P(proxmox_gpu.training.pct_exec#connection)) to the options by which
    M(proxmox_gpu.training.lxc_snapshot) asks the same node, with the same login, through C(pvesh).
positional: _input
options:
  _input:
    description:
      - The variables of a host.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Take a snapshot through the node's own pvesh
  proxmox_gpu.training.lxc_snapshot:
    vmid: "{{ pct_vmid }}"
  delegate_to: localhost
  module_defaults:
    proxmox_gpu.training.lxc_snapshot: "{{ hostvars[inventory_hostname] | proxmox_gpu.training.node_ssh }}"
"""

RETURN = r"""
_value:
  description: Options of M(proxmox_gpu.training.lxc_snapshot).
  type: dict
  sample: {api_backend: ssh, api_host: pve1.example.org, api_user: root, api_sudo: false, api_ssh_arguments: [-p, "22"]}
"""

import shlex
from collections.abc import Mapping
from typing import Any


def node_ssh(variables: Mapping[str, Any]) -> dict[str, Any]:
    if variables.get("pct_transport") == "local":
        return {"api_backend": "pvesh"}
    login = str(variables.get("ansible_user") or variables.get("ansible_ssh_user") or "")
    words: list[str] = []
    for option, names in (
        ("-p", ("ansible_port",)),
        ("-i", ("ansible_ssh_private_key_file", "ansible_private_key_file")),
    ):
        value = next((variables[name] for name in names if variables.get(name)), None)
        words += [option, str(value)] if value else []
    for name in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        words += shlex.split(str(variables.get(name) or ""))
    return {
        "api_backend": "ssh",
        "api_host": str(variables.get("ansible_host") or ""),
        "api_user": login,
        "api_sudo": login not in ("", "root"),
        "api_ssh_arguments": words,
        "api_timeout": 300,  # pvesh waits for a task itself
    }


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"node_ssh": node_ssh}
