# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""What a cluster's API is asked for an inventory: one request for all guests, then one for each configuration wanted.

What could not be seen is kept as sentences (``warnings``), so that a cache can repeat them.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_api import Api
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_errors import (
    FORBIDDEN,
    MISSING,
    OFFLINE,
    ApiError,
)

Row = dict[str, t.Any]


class Cluster(t.TypedDict):
    """``nodes``: name → {address, online}; ``containers``: entries of /cluster/resources with ``config`` and so on."""

    nodes: dict[str, Row]
    containers: list[Row]
    warnings: list[str]


def collect(api: Api, wanted: Callable[[Row, dict[str, Row]], bool], pending: bool = False) -> Cluster:
    """``wanted(container, nodes)`` says whose configuration is read; ``pending`` asks running ones for theirs as well.

    Each read container gets ``config`` (of what runs when it runs, else of the next start) and, where asked for,
    ``pending`` ({key: new value, None for one that goes}). One that could not be read has neither.
    """
    warnings: list[str] = []
    nodes = node_states(api, warnings)
    rows = api.get_list("/cluster/resources", "vmid", "type", "node", type="vm")
    containers = sorted((row for row in rows if row["type"] == "lxc"), key=lambda row: int(row["vmid"]))
    warnings += missing_privileges(api, containers)
    offline = {name for name, node in nodes.items() if not node["online"]}
    for name in sorted(offline & {str(row["node"]) for row in containers}):
        count = sum(row["node"] == name for row in containers)
        warnings.append(
            f"Node {name} is offline: its containers ({count}) stay listed by what was last heard of them, without "
            "their GPUs."
        )
    chosen = [row for row in containers if row["node"] not in offline and wanted(row, nodes)]
    warnings += read_configurations(api, chosen, pending)
    return {"nodes": nodes, "containers": containers, "warnings": warnings}


def node_states(api: Api, warnings: list[str]) -> dict[str, Row]:
    """Addresses need Sys.Audit; without it there are names and states alone."""
    try:
        rows = api.get_list("/cluster/status", "type", "name")
        return {
            str(row["name"]): {"address": row.get("ip"), "online": bool(row.get("online", 1))}
            for row in rows
            if row["type"] == "node"
        }
    except ApiError as error:
        if error.kind != FORBIDDEN:
            raise
        warnings.append(
            f"{api.access.who} lacks Sys.Audit on /, so the nodes' addresses are not known: they are taken from "
            "node_addresses, else from the nodes' names."
        )
    rows = api.get_list("/nodes", "node")
    return {str(row["node"]): {"address": None, "online": row.get("status") != "offline"} for row in rows}


def missing_privileges(api: Api, containers: list[Row]) -> list[str]:
    """Proxmox leaves out what one may not see without a word; the own permissions tell whether that can be so."""
    if api.access.backend != "https":
        return []  # pvesh is always root
    granted = api.get_dict("/access/permissions")

    def has(privilege: str, *paths: str) -> bool:
        return any(privilege in (granted.get(path) or {}) for path in paths)

    said = []
    who = api.access.who
    if not has("VM.Audit", "/vms", "/"):
        seen = f"only {len(containers)} that it was given one by one" if containers else "none"
        said.append(
            f"{who} lacks VM.Audit on /vms, so of the cluster's containers it sees {seen}; grant it PVEAuditor "
            "there (or a role with that privilege), the user and a token with privilege separation alike."
        )
    if not has("Pool.Audit", "/pool", "/"):
        said.append(f"{who} lacks Pool.Audit on /pool, so pools are not shown and there are no groups by pool.")
    return said


def read_configurations(api: Api, containers: list[Row], pending: bool) -> list[str]:
    """Fill in ``config``, in parallel; returns what has to be said about those that could not be read."""
    failed = _read(api, containers, pending)
    moved = [row for row, error in failed if error.kind == MISSING]
    if moved:  # since the list was made: ask once more where they are
        places = {
            int(row["vmid"]): row["node"]
            for row in api.get_list("/cluster/resources", "vmid", "type", "node", type="vm")
        }
        for row in moved:
            row["node"] = places.get(int(row["vmid"]), row["node"])
        failed = [(row, error) for row, error in failed if row not in moved] + _read(api, moved, pending)
    reasons: dict[str, tuple[list[str], ApiError]] = {}
    for row, error in failed:
        key = f"{error.kind} {row['node']}" if error.kind == OFFLINE else error.kind
        reasons.setdefault(key, ([], error))[0].append(str(row["vmid"]))
    return [
        f"The configuration of container{'s' if len(ids) > 1 else ''} {', '.join(ids[:8])}"
        f"{f' and {len(ids) - 8} more' if len(ids) > 8 else ''} is not known: {error}"
        for ids, error in reasons.values()
    ]


def _read(api: Api, containers: Iterable[Row], pending: bool) -> list[tuple[Row, ApiError]]:
    def read(row: Row) -> tuple[Row, ApiError] | None:
        path = f"/nodes/{row['node']}/lxc/{row['vmid']}"
        running = row.get("status") == "running"
        try:
            # The default has pending changes applied: right for the next start, wrong for what runs.
            row["config"] = api.get_dict(f"{path}/config", **({"current": 1} if running else {}))
            if running and pending:
                row["pending"] = pending_changes(api.get_list(f"{path}/pending", "key"))
        except ApiError as error:
            return row, error
        return None

    with ThreadPoolExecutor(max_workers=api.access.parallel) as pool:
        return [failure for failure in pool.map(read, containers) if failure]


def pending_changes(rows: Iterable[Row]) -> dict[str, t.Any]:
    """{key: the value of the next start}; None for a key that goes."""
    return {
        str(row["key"]): None if row.get("delete") else row["pending"]
        for row in rows
        if row.get("delete") or "pending" in row
    }
