# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``pct status``, ``pct list``, ``pct config`` of the stand-in: what they print."""

from __future__ import annotations

from testbed import pve_files
from testbed.pct_standin.arguments import Parameters
from testbed.pct_standin.node import Died, Node


def status(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    """``status: running``: also of a frozen container, as the real one says."""
    vmid = str(parameters["vmid"])
    conf = node.conf(vmid)
    shown = "running" if node.is_running(vmid) else "stopped"
    if parameters.get("verbose"):
        details = {
            "cpus": conf.get("cores", "1"),
            "name": conf.get("hostname", f"CT{vmid}"),
            "status": shown,
            "vmid": vmid,
        }
        details |= {"lock": conf["lock"]} if "lock" in conf else {}
        print("\n".join(f"{key}: {details[key]}" for key in sorted(details)))
    else:
        print(f"status: {shown}")
    return 0


def listing(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    """This node's containers, by number."""
    rows = []
    for file in sorted(node.containers.glob("[0-9]*.conf"), key=lambda path: int(path.stem)):
        conf = pve_files.parse_conf(file.read_text())
        shown = "running" if node.is_running(file.stem) else "stopped"
        rows.append((file.stem, shown, conf.get("lock", ""), conf.get("hostname", f"CT{file.stem}")))
    for row in [("VMID", "Status", "Lock", "Name"), *rows] if rows else []:
        print("{:<10} {:<10} {:<12} {:<20}".format(*row))
    return 0


def config(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    """The configuration, pending changes included unless ``--current``; raw lxc lines last."""
    if "snapshot" in parameters:
        raise Died(f"snapshot '{parameters['snapshot']}' does not exist")
    text = node.conf_text(str(parameters["vmid"]))
    conf = pve_files.parse_conf(text)
    if not parameters.get("current"):
        conf = pve_files.with_pending(conf, pve_files.parse_pending(text))
    lines = [f"{key}: {conf[key]}" for key in sorted(conf) if not key.startswith("lxc.")]
    print("\n".join([*lines, *(f"{key}: {value}" for key, value in pve_files.raw_lxc_lines(text))]))
    return 0
