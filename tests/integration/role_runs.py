# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One role on many containers at once, each with variables of its own: a fault a container, one playbook for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.integration.box import Box, Container
from tests.integration.playbook_result import PlaybookResult

#: The state after a good run of the role bootstrap.
BASE = "role-tests-base"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Give this host its own variables
      ansible.builtin.set_fact: {{"{{{{ item.key }}}}": "{{{{ item.value }}}}"}}
      loop: "{{{{ variables[inventory_hostname] | default({{}}) | dict2items }}}}"
      loop_control: {{label: "{{{{ item.key }}}}"}}
    - name: Run the role
      ansible.builtin.include_role:
        name: proxmox_gpu.training.{role}
"""


@dataclass(frozen=True)
class Outcome:
    """What came of the role on one host: ``sentence`` is the failure's message, "" when all went well."""

    sentence: str
    changed: int
    result: PlaybookResult


def run_role(
    role: str, containers: Iterable[Container], variables: Mapping[str, Mapping[str, Any]] | None = None, **options: Any
) -> dict[str, Outcome]:
    """{container id: outcome}; ``variables`` are by container id. ``options`` are those of ``Box.run_playbook``."""
    hosts = {one.vmid: one.host for one in containers}
    box = next(iter(containers)).box  # type: ignore[call-overload]
    own = {hosts[vmid]: dict(values) for vmid, values in (variables or {}).items()}
    result = box.run_playbook(PLAY.format(role=role), ",".join(hosts.values()), {"variables": own}, **options)
    failures = {one.host: one.message for one in result.failures()}
    assert result.recap, result.output
    return {vmid: Outcome(failures.get(host, ""), result.changed(host), result) for vmid, host in hosts.items()}


def run_one(role: str, container: Container, variables: Mapping[str, Any] | None = None, **options: Any) -> Outcome:
    return run_role(role, [container], {container.vmid: variables or {}}, **options)[container.vmid]


def base(box: Box, vmid: int) -> str:
    """The name of the snapshot of a bootstrapped container, made with the container ``vmid`` when there is none."""
    if BASE not in box.status()["snapshots"]:
        container = box.container(vmid).fresh()
        assert run_one("bootstrap", container).sentence == ""
        container.snapshot(BASE)
    return BASE


def containers(box: Box, vmids: Iterable[int], snapshot: str | None = None) -> list[Container]:
    """Containers in their bare state, or that of a snapshot."""
    options = ("--from", snapshot) if snapshot else ()
    return [box.container(vmid).fresh(*options) for vmid in vmids]
