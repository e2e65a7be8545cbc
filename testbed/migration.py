# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move a container to another node of the box, as a restart migration of Proxmox does: stop, move, start there."""

from __future__ import annotations

import json

from testbed import containers, files, pve_files
from testbed.errors import TestbedError
from testbed.layout import Layout, NodeLayout


def migrate(box: Layout, vmid: str, target: NodeLayout) -> None:
    """Its overlay, its snapshots and its config file end on ``target``, running if it ran before."""
    source = containers.node_of(box, vmid)
    record = containers.own(source, vmid)
    if source.name == target.name:
        raise TestbedError(f"Container {vmid} is on node {target.name} already.")
    was_running = vmid in containers.running_ids(source)
    containers.stop(source, [vmid])
    target.lxc.mkdir(parents=True, exist_ok=True)
    (source.lxc / vmid).rename(target.lxc / vmid)
    record["folder"] = str(target.lxc_inside / vmid)
    files.write(target.lxc / vmid / "testbed.json", json.dumps(record, indent=2) + "\n")
    (source.pve_containers / f"{vmid}.conf").rename(target.pve_containers / f"{vmid}.conf")
    pve_files.refresh_vmlist(box.pve)
    if was_running:
        containers.start(target, [vmid])
