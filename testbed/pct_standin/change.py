# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``pct set`` and ``pct unlock`` of the stand-in: change a configuration, and where possible what runs."""

from __future__ import annotations

import subprocess
import sys

from testbed import lxc_config, pve_files
from testbed.pct_standin import devices
from testbed.pct_standin.arguments import BadParameters, Parameters
from testbed.pct_standin.node import Node

OPTIONS = {
    "cores": "integer",
    "cpulimit": "number",
    "delete": "string",
    "description": "string",
    "dev[n]": "string",
    "hostname": "string",
    "lock": "string",
    "memory": "integer",
    "onboot": "boolean",
    "swap": "integer",
    "tags": "string",
}
LIVE = ("memory", "cores", "cpulimit")  # take effect in a running container at once


def set_options(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    vmid = str(parameters["vmid"])
    changes = {key: _text(value) for key, value in parameters.items() if key not in ("vmid", "delete")}
    for key, value in changes.items():
        if devices.is_device(key):
            try:
                devices.parse(key, value)
            except ValueError as problem:
                raise BadParameters(f"400 Parameter verification failed.\n{problem}") from None
    with node.locked(vmid):
        text = node.conf_text(vmid)
        conf, pending = pve_files.parse_conf(text), pve_files.parse_pending(text)
        node.refuse_locked(conf)
        running = node.is_running(vmid)
        for key in [name for name in str(parameters.get("delete", "")).replace(";", ",").split(",") if name]:
            if key not in conf:
                print(f"cannot delete '{key}' - not set in current configuration!", file=sys.stderr)
            elif running and devices.is_device(key):
                pending.deleted.add(key)
            else:
                del conf[key]
        for key, value in changes.items():
            if running and devices.is_device(key) and not _hot_plug(node, vmid, key, value, conf):
                pending.changed[key] = value
            else:
                conf[key] = value
        raw, kept = pve_files.raw_lxc_lines(text), pve_files.snapshot_sections(text)
        pve_files.write_file(node.conf_path(vmid), pve_files.format_conf(conf, raw, pending, kept))
        if running and any(key in LIVE for key in changes):
            _apply_limits(vmid, conf)
    return 0


def unlock(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    vmid = str(parameters["vmid"])
    with node.locked(vmid):
        text = node.conf_text(vmid)
        conf = pve_files.parse_conf(text)
        conf.pop("lock", None)
        raw, kept = pve_files.raw_lxc_lines(text), pve_files.snapshot_sections(text)
        formatted = pve_files.format_conf(conf, raw, pve_files.parse_pending(text), kept)
        pve_files.write_file(node.conf_path(vmid), formatted)
    return 0


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _hot_plug(node: Node, vmid: str, key: str, value: str, conf: dict[str, str]) -> bool:
    """An added device appears in a running container since 6.0.4; a changed one waits for the next start."""
    if node.version < (6, 0, 4) or key in conf:
        return False
    line = devices.describe(key, value)
    root = f"/proc/{node.init_pid(vmid)}/root"
    hook = lxc_config.DEVICE_HOOK
    subprocess.run([hook, "add", root], input=f"{line}\n", text=True, capture_output=True, timeout=30, check=True)
    kind, major, minor = line.split()[:3]
    rights = "r" if line.split()[-1] == "1" else "rw"
    allow = ["lxc-cgroup", "-n", vmid, "devices.allow", f"{kind} {major}:{minor} {rights}"]
    subprocess.run(allow, capture_output=True, timeout=30, check=False)
    return True


def _apply_limits(vmid: str, conf: dict[str, str]) -> None:
    """Of both cgroup layouts; lxc-cgroup refuses the names of the one that is not there."""
    for key, value in lxc_config.limits(conf):
        name = key.split(".", 2)[2]
        subprocess.run(["lxc-cgroup", "-n", vmid, name, value], capture_output=True, timeout=30, check=False)
