# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API tells about containers and nodes, read from the box's config files and sockets at each request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from testbed import containers, pve_files
from testbed.api_standin.refusal import Refusal
from testbed.layout import NODE_NAMES, Layout

INTEGERS = {"cores", "memory", "swap", "unprivileged", "onboot", "protection", "template"}
MIB = 1024 * 1024
CROWD = 10000  # first id of the containers that only the stand-in knows
STARTED = time.time()


@dataclass(frozen=True)
class Guest:
    vmid: str
    node: str
    kind: str  # lxc or qemu
    text: str  # of its config file
    running: bool

    @property
    def conf(self) -> dict[str, str]:
        return pve_files.parse_conf(self.text)


def guests(box: Layout, settings: dict[str, Any]) -> Iterator[Guest]:
    for node in box.nodes:
        running = containers.running_ids(node)
        for kind, folder in (("lxc", "lxc"), ("qemu", "qemu-server")):
            for file in (box.pve / "nodes" / node.name / folder).glob("[0-9]*.conf"):
                yield Guest(file.stem, node.name, kind, file.read_text(), file.stem in running)
    for number in range(settings["crowd"]):
        yield crowd(number)


def crowd(number: int) -> Guest:
    """Every fourth has a GPU by devN, every eighth by raw lines."""
    lines = [f"hostname: crowd{number}", "cores: 2", "memory: 2048", f"tags: crowd;rack{number % 10}"]
    if number % 4 == 0:
        lines += ["dev0: /dev/nvidia0,gid=44,mode=0660", "dev1: /dev/nvidiactl,gid=44", "dev2: /dev/nvidia-uvm,gid=44"]
    elif number % 8 == 1:
        lines += ["lxc.cgroup2.devices.allow: c 195:* rwm", "lxc.cgroup2.devices.allow: c 511:* rwm"]
        lines += ["lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file"]
    return Guest(str(CROWD + number), NODE_NAMES[number % 2], "lxc", "\n".join(lines) + "\n", number % 3 > 0)


def find(box: Layout, settings: dict[str, Any], node: str, vmid: str) -> Guest:
    """A container of this node; anything else gives the same 500."""
    if int(vmid) >= CROWD and int(vmid) < CROWD + settings["crowd"]:
        guest = crowd(int(vmid) - CROWD)
        if guest.node == node:
            return guest
    try:
        text = (box.node(node).pve_containers / f"{vmid}.conf").read_text()
    except FileNotFoundError:
        raise Refusal(500, f"Configuration file 'nodes/{node}/lxc/{vmid}.conf' does not exist") from None
    return Guest(vmid, node, "lxc", text, vmid in containers.running_ids(box.node(node)))


def resource(guest: Guest, settings: dict[str, Any]) -> dict[str, object]:
    """One entry of /cluster/resources."""
    conf = guest.conf
    entry: dict[str, object] = {
        "id": f"{guest.kind}/{guest.vmid}",
        "vmid": int(guest.vmid),
        "type": guest.kind,
        "node": guest.node,
    }
    if guest.vmid in settings["no_broadcast"]:
        entry["status"] = "unknown"
    else:
        entry |= {
            "status": "running" if guest.running else "stopped",
            "name": conf.get("hostname", f"CT{guest.vmid}"),
            "template": int(conf.get("template", "0")),
            "maxcpu": int(conf.get("cores", "1")),
            "maxmem": int(conf.get("memory", "512")) * MIB,
            "cpu": 0,
            "mem": 0,
            "disk": 0,
            "maxdisk": 64 * 1024 * MIB,
            "uptime": int(time.time() - STARTED) if guest.running else 0,
        }
    entry |= {key: conf[key] for key in ("tags", "lock") if key in conf}
    pools = [name for name, ids in settings["pools"].items() if guest.vmid in [str(vmid) for vmid in ids]]
    return entry | ({"pool": pools[0]} if pools else {})


def status(guest: Guest) -> dict[str, object]:
    """An entry of /nodes/N/lxc, and status/current without its ``ha``."""
    conf = guest.conf
    found: dict[str, object] = {
        "vmid": int(guest.vmid),
        "type": "lxc",
        "status": "running" if guest.running else "stopped",
        "name": conf.get("hostname", f"CT{guest.vmid}"),
        "cpus": int(conf.get("cores", "1")),
        "maxmem": int(conf.get("memory", "512")) * MIB,
        "mem": 0,
        "uptime": int(time.time() - STARTED) if guest.running else 0,
    }
    return found | {key: conf[key] for key in ("tags", "lock") if key in conf}


def config(guest: Guest, current: bool) -> dict[str, object]:
    """The configuration: with pending changes applied, or as the running container has it (``current``)."""
    conf = guest.conf
    if not current:
        conf = pve_files.with_pending(conf, pve_files.parse_pending(guest.text))
    return _shown(conf, pve_files.raw_lxc_lines(guest.text)) | {"digest": pve_files.digest(guest.text)}


def _shown(conf: dict[str, str], raw: list[tuple[str, str]]) -> dict[str, object]:
    shown: dict[str, object] = {
        key: int(value) if key in INTEGERS else value for key, value in conf.items() if not key.startswith("lxc.")
    }
    return shown | ({"lxc": [list(pair) for pair in raw]} if raw else {})


def snapshot_config(guest: Guest, name: str) -> dict[str, object]:
    sections = pve_files.snapshot_sections(guest.text)
    if name not in sections:
        raise Refusal(500, f"snapshot '{name}' does not exist")
    return _shown(pve_files.parse_conf(sections[name]), pve_files.raw_lxc_lines(sections[name]))


def pending(guest: Guest) -> list[dict[str, object]]:
    """GET pending: without the raw lines, which have no pending state."""
    conf, waiting = guest.conf, pve_files.parse_pending(guest.text)
    keys = {key for key in {**conf, **waiting.changed} if not key.startswith("lxc.")}
    rows: list[dict[str, object]] = []
    for key in keys:
        row: dict[str, object] = {"key": key}
        row |= {"value": conf[key]} if key in conf else {}
        row |= {"pending": waiting.changed[key]} if key in waiting.changed else {}
        row |= {"delete": 1} if key in waiting.deleted else {}
        rows.append(row)
    return [*rows, {"key": "digest", "value": pve_files.digest(guest.text)}]


def snapshots(guest: Guest) -> list[dict[str, object]]:
    """GET snapshot: the pseudo entry ``current`` comes last."""
    rows: list[dict[str, object]] = []
    for name, text in pve_files.snapshot_sections(guest.text).items():
        conf = pve_files.parse_conf(text)
        row: dict[str, object] = {"name": name, "snaptime": int(conf.get("snaptime", "0"))}
        row["description"] = f"{conf['description']}\n" if conf.get("description") else ""
        rows.append(row | ({"parent": conf["parent"]} if "parent" in conf else {}))
    last: dict[str, object] = {"name": "current", "description": "You are here!", "running": int(guest.running)}
    last |= {"digest": pve_files.digest(guest.text)}
    return [*rows, last | ({"parent": guest.conf["parent"]} if "parent" in guest.conf else {})]


def cluster_status(box: Layout, settings: dict[str, Any], asked: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {"type": "cluster", "id": "cluster", "name": "box", "nodes": len(box.nodes), "quorate": 1, "version": 2}
    ]
    for number, node in enumerate(box.nodes, 1):
        rows.append(
            {
                "type": "node",
                "id": f"node/{node.name}",
                "name": node.name,
                "ip": "127.0.0.1",
                "local": int(node.name == asked),
                "online": int(node.name not in settings["offline"]),
                "nodeid": number,
                "level": "",
            }
        )
    return rows
