# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``pct start`` and ``pct stop`` of the stand-in."""

from __future__ import annotations

import subprocess

from testbed import lxc_config, pve_files
from testbed.pct_standin import devices
from testbed.pct_standin.arguments import Parameters
from testbed.pct_standin.node import Died, Node


def start(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    """Pending changes are taken over, then the container starts."""
    vmid = str(parameters["vmid"])
    node.conf(vmid)
    if node.is_running(vmid):
        raise Died(f"CT {vmid} already running")
    with node.locked(vmid):
        text = node.conf_text(vmid)
        if not parameters.get("skiplock"):
            node.refuse_locked(pve_files.parse_conf(text))
        conf = pve_files.with_pending(pve_files.parse_conf(text), pve_files.parse_pending(text))
        raw, kept = pve_files.raw_lxc_lines(text), pve_files.snapshot_sections(text)
        pve_files.write_file(node.conf_path(vmid), pve_files.format_conf(conf, raw, snapshots=kept))
        devices.prepare(node.lxc / vmid, conf)
        config = lxc_config.lxc_config(vmid, conf, raw, lxc_config.read_own(node.lxc / vmid))
        (node.lxc / vmid / "config").write_text(config)
        result = subprocess.run(
            ["lxc-start", "-n", vmid, "-d", "-o", str(node.lxc / vmid / "lxc.log"), "-l", "WARN"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        node.log_task("vzstart", vmid, "OK" if result.returncode == 0 else f"startup for container '{vmid}' failed")
    if result.returncode != 0:
        raise Died(result.stderr + f"startup for container '{vmid}' failed")
    return 0


def stop(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    """At once, without asking the container (as the real ``stop``; ``shutdown`` would)."""
    vmid = str(parameters["vmid"])
    conf = node.conf(vmid)
    if not node.is_running(vmid):
        raise Died(f"CT {vmid} not running")
    with node.locked(vmid):
        if not parameters.get("skiplock"):
            node.refuse_locked(conf)
        subprocess.run(["lxc-unfreeze", "-n", vmid], capture_output=True, timeout=60, check=False)
        subprocess.run(["lxc-stop", "-k", "-n", vmid], capture_output=True, timeout=60, check=False)
        node.log_task("vzstop", vmid, "OK")
    return 0
