# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Snapshots of a container through the API: which are ours, which of ours are too many, and each action to its end.

Ours are those whose name begins with the prefix and whose description holds the mark: a person may well use the same
prefix, and what a person made is never deleted or rolled back to.
"""

from __future__ import annotations

import time
from typing import Any

from ._pve_api import Api
from ._pve_errors import ApiError

MARK = "made by proxmox_gpu.training"
LONGEST_NAME = 40  # Proxmox's own limit


def new_name(prefix: str, moment: float) -> str:
    """Sorts by time: PREFIX-20261130T164500Z."""
    return f"{prefix}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(moment))}"


def description(reason: str) -> str:
    return f"{MARK}\n{reason}".strip()


def ours(snapshots: list[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    """Our own, the oldest first."""
    own = [
        one
        for one in snapshots
        if str(one.get("name", "")).startswith(f"{prefix}-") and str(one.get("description") or "").startswith(MARK)
    ]
    return sorted(own, key=lambda one: (int(one.get("snaptime") or 0), str(one["name"])))


def surplus(snapshots: list[dict[str, Any]], prefix: str, keep: int) -> list[str]:
    """Names of our oldest ones beyond the last ``keep``."""
    own = [str(one["name"]) for one in ours(snapshots, prefix)]
    return own[: max(len(own) - keep, 0)]


class Container:
    """A container by its id, wherever in the cluster it is. Raises ApiError alone."""

    def __init__(self, api: Api, vmid: int) -> None:
        self.api = api
        self.vmid = vmid
        rows = api.get_list("/cluster/resources", "vmid", "type", "node", type="vm")
        found = [row for row in rows if int(row["vmid"]) == vmid]
        if not found:
            raise ApiError(
                f"{api.access.who} sees no container {vmid} in the cluster: the id is wrong, or it lacks VM.Audit on "
                f"/vms/{vmid}."
            )
        if found[0]["type"] != "lxc":
            raise ApiError(f"{vmid} is a virtual machine of node {found[0]['node']}, not a container.")
        self.node = str(found[0]["node"])
        self.status = str(found[0].get("status") or "unknown")
        self.lock = found[0].get("lock")
        self.path = f"/nodes/{self.node}/lxc/{vmid}"

    def snapshots(self) -> list[dict[str, Any]]:
        """Without the entry ``current``, which is none."""
        return [row for row in self.api.get_list(f"{self.path}/snapshot", "name") if row["name"] != "current"]

    def refuse(self, need_running: bool) -> None:
        """Say now what would otherwise be the end of a task, or of the evening."""
        if self.lock:
            raise ApiError(
                f"Container {self.vmid} on node {self.node} is locked ({self.lock}); wait for what locks it, "
                f"or `pct unlock {self.vmid}` when nothing does."
            )
        if need_running and self.status != "running":
            raise ApiError(
                f"Container {self.vmid} on node {self.node} is {self.status}, and a snapshot before provisioning "
                f"is of a running one; start it with `pct start {self.vmid}`."
            )
        found = self.api.get_dict(f"{self.path}/feature", feature="snapshot")
        if not int(found.get("hasFeature") or 0):
            root = str(self.api.get_dict(f"{self.path}/config").get("rootfs", ""))
            raise ApiError(
                f"The storage {root.partition(':')[0] or 'unknown'} of container {self.vmid} has no snapshots; move "
                "its disk to one that has (ZFS, LVM-thin, Ceph), or go on without one."
            )

    def create(self, name: str, reason: str, limit: float) -> None:
        upid = self.api.post(f"{self.path}/snapshot", snapname=name, description=description(reason))
        self.api.wait(upid, limit)

    def delete(self, name: str, limit: float) -> None:
        self.api.wait(self.api.delete(f"{self.path}/snapshot/{name}"), limit)

    def rollback(self, name: str, start: bool, limit: float) -> None:
        """It is stopped by this; ``start`` starts it again, whatever the age of Proxmox (start= came with 7)."""
        self.api.wait(self.api.post(f"{self.path}/snapshot/{name}/rollback"), limit)
        if start:
            current = self.api.get_dict(f"{self.path}/status/current")
            if current.get("status") != "running":
                self.api.wait(self.api.post(f"{self.path}/status/start"), limit)
