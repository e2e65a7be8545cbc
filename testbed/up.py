# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`up`: make the box as declared, whatever is there already. Each step looks first and does what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable

from testbed import (
    base_root,
    cgroups,
    client,
    containers,
    files,
    namespaces,
    node_files,
    node_init,
    pve_files,
    refusals,
    services,
    state,
)
from testbed.containers import Wish
from testbed.layout import Layout, NodeLayout
from testbed.machine import describe

STANDARD = {"200": Wish(), "201": Wish(), "202": Wish(running=False)}


def up(box: Layout, wishes: dict[str, Wish], log: Callable[[str], None]) -> None:
    """Bring up the box with the standard containers and those of ``wishes`` (only made when they are not there yet)."""
    refusals.refuse_missing_packages()
    with state.locked(box):
        box.state.mkdir(parents=True, exist_ok=True)
        refusals.refuse_overlay(box.state)
        if not (box.state / "standin.json").exists():
            write_standin_settings(box)
        key = client.ensure_key(box)
        base_root.ensure(box.cache, "bare", log)
        for node in box.nodes:
            _node(node, key, log)
        services.ensure_web(box, log)
        services.ensure_api(box)
        make(box.nodes[0], {**STANDARD, **wishes}, log)
        for node in box.nodes:
            repair(node)
        client.write_inventory(box)


def write_standin_settings(box: Layout, startup: float = 0.7, version: str = "6.1.10") -> None:
    """How the pct stand-in behaves: its start-up cost in seconds, and the pve-container version that it imitates."""
    settings = {"PCT_STANDIN_STARTUP": startup, "PCT_STANDIN_VERSION": version}
    files.write(box.state / "standin.json", json.dumps(settings, indent=2) + "\n")


def _node(node: NodeLayout, key: str, log: Callable[[str], None]) -> None:
    port = services.keep_port(node.box, node.sshd_port_key, f"{node.cgroup}/services")
    node.pve_containers.mkdir(parents=True, exist_ok=True)
    # One folder is every node's /etc/pve, so what differs between nodes is a link into the node's own /run.
    for link, target in (("local", str(node_init.LOCAL_INSIDE)), ("lxc", "local/lxc")):
        if not (node.box.pve / link).is_symlink():
            (node.box.pve / link).symlink_to(target)
    node_files.write(node, port, key)
    if namespaces.init_pid(node) is None:
        log(f"starting the node {node.name}")
        cgroups.end(node.cgroup)  # of a node that was killed: empty cgroups, or somebody who outlived it
        folders = describe()["local_folders"]
        assert isinstance(folders, list)
        (node.folder / "local_folders.json").write_text(json.dumps(folders))
        node_init.start(node, folders)
    services.ensure_sshd(node)


def local_folders(node: NodeLayout) -> list[str]:
    """Folders that the node was started with, and hands to its containers."""
    folders: list[str] = json.loads((node.folder / "local_folders.json").read_text())
    return folders


def make(node: NodeLayout, wishes: dict[str, Wish], log: Callable[[str], None]) -> None:
    """Make those containers that are not there."""
    known = {vmid for each in node.box.nodes for vmid in containers.known_ids(each)}
    for vmid, wish in wishes.items():
        if vmid not in known:
            base = base_root.ensure(node.box.cache, "sshd" if wish.sshd else "bare", log)
            containers.create(node, vmid, wish, base, local_folders(node))
    pve_files.refresh_vmlist(node.box.pve)


def repair(node: NodeLayout) -> None:
    """Start what shall run and does not, stop what shall not run and does."""
    declared = {vmid: bool(containers.own(node, vmid)["running"]) for vmid in containers.known_ids(node)}
    containers.start(node, [vmid for vmid, running in declared.items() if running])
    containers.stop(node, [vmid for vmid, running in declared.items() if not running])
