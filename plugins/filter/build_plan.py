# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: build_plan
short_description: Which host builds which wheel, so that each is built once
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - From what M(proxmox_gpu.training.cuda_extension) says in check mode on each host, the wheels that no wheelhouse has
    and the one host that builds each.
  - A wheel is built by a host that wants it, since such a host has its torch. The first one that can build is taken, or
    with O(builders) the one of them with the least to build.
positional: _input
options:
  _input:
    description:
      - The registered results of a loop of M(proxmox_gpu.training.cuda_extension) over the wanted extensions, by host.
    type: dict
    required: true
  builders:
    description: Hosts that shall build. A wheel that none of them wants is built by the first host that does.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Decide who builds what
  ansible.builtin.set_fact:
    plan: "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'asked')))
      | proxmox_gpu.training.build_plan }}"
"""

RETURN = r"""
_value:
  description: The digest of each missing wheel's key, and the host that builds it.
  type: dict
  sample: {0f5c5b3f7d7f1a2b: ct201}
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import key_from_dict


def wants(asked: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """(digest, whether this host can build it) of each wheel that a host wants and that is in no wheelhouse."""
    missing = [
        one
        for one in asked.get("results") or []
        if one.get("key") and not one.get("available") and not one.get("failed")
    ]
    return [(key_from_dict(one["key"]).digest(), not one.get("obstacle")) for one in missing]


def build_plan(asked: Mapping[str, Mapping[str, Any]], builders: Sequence[str] = ()) -> dict[str, str]:
    """{digest: host}; a wheel that no host can build is left out, so that each says itself why it cannot."""
    able: dict[str, list[str]] = {}
    for host, answer in asked.items():
        for digest, can in wants(answer):
            if can and host not in able.setdefault(digest, []):
                able[digest].append(host)
    plan: dict[str, str] = {}
    for digest, hosts in able.items():
        if not hosts:
            continue
        chosen = [host for host in builders if host in hosts]
        load = list(plan.values())
        plan[digest] = min(chosen, key=load.count) if chosen else hosts[0]
    return plan


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"build_plan": build_plan}
