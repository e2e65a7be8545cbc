# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""From what a cluster's API said to hosts, variables and groups. Pure: nothing is asked here."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Mapping, Sequence

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _lxc_config

Row = dict[str, t.Any]
#: Variables that need a container's configuration; a filter that names one is judged after it was read.
FROM_CONFIG = ("pve_gpu", "pve_config", "pve_pending")
#: Names that mean something else to ansible: a container must not become the machine that plays run on.
RESERVED = ("localhost", "all", "ungrouped")


def node_addresses(nodes: Mapping[str, Row], overrides: Mapping[str, t.Any]) -> dict[str, Row]:
    """{node: {host, port}}: from the map, else the cluster's status, else the node's name. port None is ssh's own."""
    found: dict[str, Row] = {}
    for name in [*nodes, *(name for name in overrides if name not in nodes)]:
        given = overrides.get(name)
        if isinstance(given, Mapping):
            place = {"host": given.get("host"), "port": given.get("port")}
        else:
            place = {"host": given, "port": None}
        found[name] = {"host": place["host"] or nodes.get(name, {}).get("address") or name, "port": place["port"]}
    return found


def base_variables(row: Row, addresses: Mapping[str, Row]) -> Row:
    """What is known of a container without its configuration."""
    vmid, node = int(row["vmid"]), str(row["node"])
    place = addresses.get(node, {"host": node, "port": None})
    variables: Row = {
        "ansible_connection": "proxmox_gpu.training.pct_exec",
        "ansible_host": place["host"],
        "pct_vmid": vmid,
        "pve_vmid": vmid,
        "pve_name": str(row.get("name") or vmid),  # no name: nothing was heard of it lately
        "pve_node": node,
        "pve_status": str(row.get("status") or "unknown"),
        "pve_tags": _lxc_config.parse_tags(row.get("tags")),
        "pve_pool": row.get("pool"),
        "pve_lock": row.get("lock"),
        "pve_template": bool(row.get("template", 0)),
    }
    return variables | ({"ansible_port": int(place["port"])} if place["port"] else {})


def config_variables(row: Row, whole: bool) -> Row:
    """What the configuration adds; {} when it was not read. ``whole``: the configuration itself as well."""
    if "config" not in row:
        return {}
    config = row["config"]
    found: Row = {"pve_gpu": _lxc_config.gpu(config)}
    found |= {"pve_pending": row["pending"]} if "pending" in row else {}
    if whole:
        found["pve_config"] = {**config, "lxc": [list(pair) for pair in _lxc_config.raw_lines(config)]}
    return found


def host_names(containers: Sequence[Row], by: str) -> tuple[dict[int, str], list[str]]:
    """({id: host name}, warnings). ``by``: name or id. Two containers of one name both get NAME-ID."""
    names = {int(row["vmid"]): str(row.get("name") or row["vmid"]) for row in containers}
    if by == "id":
        return {vmid: str(vmid) for vmid in names}, []
    said = []
    while twice := sorted(name for name, count in Counter(names.values()).items() if count > 1 or name in RESERVED):
        for name in twice:
            ids = [vmid for vmid in names if names[vmid] == name]
            listed = ", ".join(f"{name}-{vmid}" for vmid in ids)
            are = (
                f"{len(ids)} containers are named {name}, so they are"
                if len(ids) > 1
                else f"A container named {name} is"
            )
            said.append(f"{are} listed as {listed}.")
        names = {vmid: f"{name}-{vmid}" if name in twice else name for vmid, name in names.items()}
    return names, said


def group_names(variables: Row) -> list[str]:
    """Groups by node, tag, pool, status and GPU, not yet made safe as group names."""
    names = [f"node_{variables['pve_node']}", f"status_{variables['pve_status']}"]
    names += [f"tag_{tag}" for tag in variables["pve_tags"]]
    names += [f"pool_{variables['pve_pool']}"] if variables["pve_pool"] else []
    gpu = variables.get("pve_gpu")
    if gpu is None:
        return [*names, "gpu_unknown"]
    if gpu["how"] == "none":
        return names
    return [*names, "gpu", {"devices": "gpu_devices", "raw": "gpu_raw"}.get(gpu["how"], "gpu_both")]


def needs_config(condition: str) -> bool:
    """Whether a filter speaks of something that only the configuration tells."""
    return any(name in condition for name in FROM_CONFIG)
