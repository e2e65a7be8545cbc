# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a Proxmox ID.conf to the configuration that the real lxc tools start.

Proxmox's keys keep their meaning: ``memory`` in MiB, ``cores`` a number of CPUs (a cpuset), ``cpulimit`` CPUs as a
fraction (a quota), ``hostname``, ``lxc.*`` raw lines. The rest of a container (its overlay's layers, its network,
what is mounted in) is the testbed's own and lies in ``testbed.json`` beside its overlay.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

MIB = 1024 * 1024
DEVICE_HOOK = "/run/testbed/code/testbed/pct_standin/device_hook.sh"
QUOTA_PERIOD = 100000  # microseconds, the kernel's default


def read_own(folder: Path) -> dict[str, object]:
    """What the testbed keeps about a container: layers, network, mounts. ``folder`` is its LXC folder."""
    own: dict[str, object] = json.loads((folder / "testbed.json").read_text())
    return own


def limits(conf: dict[str, str]) -> list[tuple[str, str]]:
    """The cgroup settings of both layouts (lxc ignores those of the layout that the machine does not have)."""
    found: list[tuple[str, str]] = []
    if conf.get("memory", "0") != "0":
        amount = int(conf["memory"]) * MIB
        found += [("lxc.cgroup.memory.limit_in_bytes", str(amount)), ("lxc.cgroup2.memory.max", str(amount))]
    if conf.get("cores", "0") != "0":
        cpus = f"0-{int(conf['cores']) - 1}"
        found += [("lxc.cgroup.cpuset.cpus", cpus), ("lxc.cgroup2.cpuset.cpus", cpus)]
    if float(conf.get("cpulimit", "0")) > 0:
        quota = int(float(conf["cpulimit"]) * QUOTA_PERIOD)
        found += [
            ("lxc.cgroup.cpu.cfs_period_us", str(QUOTA_PERIOD)),
            ("lxc.cgroup.cpu.cfs_quota_us", str(quota)),
            ("lxc.cgroup2.cpu.max", f"{quota} {QUOTA_PERIOD}"),
        ]
    return found


def device_rules(conf: dict[str, str]) -> list[tuple[str, str]]:
    """What lets a container use its devN entries, and makes their nodes."""
    rules = []
    for key in sorted(conf):
        if re.fullmatch(r"dev\d+", key):
            path, *rest = conf[key].removeprefix("path=").split(",")
            info = os.stat(path)
            kind = "b" if stat.S_ISBLK(info.st_mode) else "c"
            rights = "r" if "deny-write=1" in rest else "rw"
            rule = f"{kind} {os.major(info.st_rdev)}:{os.minor(info.st_rdev)} {rights}"
            rules += [("lxc.cgroup.devices.allow", rule), ("lxc.cgroup2.devices.allow", rule)]
    return [*rules, ("lxc.hook.autodev", DEVICE_HOOK)] if rules else []


def lxc_config(vmid: str, conf: dict[str, str], raw: list[tuple[str, str]], own: dict[str, object]) -> str:
    """Text of the lxc configuration. ``own`` as in `read_own`; all its paths are the node's (inside) paths."""
    layers = own["layers"]
    mounts = own.get("mounts", [])
    assert isinstance(layers, list) and isinstance(mounts, list)
    lines = [
        ("lxc.include", "/usr/share/lxc/config/common.conf"),
        ("lxc.arch", conf.get("arch", "amd64")),
        ("lxc.uts.name", conf.get("hostname", f"CT{vmid}")),
        ("lxc.apparmor.profile", "unconfined"),
        ("lxc.rootfs.path", "overlay:" + ":".join([*layers, f"{own['folder']}/upper"])),
        ("lxc.init.cmd", "/sbin/init"),
        # lxc leaves cgroups to a systemd inside; the small init mounts nothing, so they are forced.
        ("lxc.mount.auto", "cgroup:rw:force"),
        ("lxc.net.0.type", str(own.get("network", "none"))),
        # Relative to the node's cgroup. The pivot is where a monitor goes at its end, to leave its cgroup removable.
        ("lxc.cgroup.dir.monitor", f"monitor/{vmid}"),
        ("lxc.cgroup.dir.monitor.pivot", "pivot"),
        ("lxc.cgroup.dir.container", f"lxc/{vmid}"),
        *limits(conf),
        *device_rules(conf),
    ]
    for place in mounts:
        target = place["to"].lstrip("/").replace(" ", "\\040")  # fstab's way
        lines.append(("lxc.mount.entry", f"{place['from']} {target} none bind,ro,create=dir 0 0"))
    return "\n".join(f"{key} = {value}" for key, value in [*lines, *raw]) + "\n"
