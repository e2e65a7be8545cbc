# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a Proxmox configuration to lxc's."""

from __future__ import annotations

import pytest

from testbed import lxc_config

OWN: dict[str, object] = {
    "folder": "/run/testbed/x/lxc/200",
    "layers": ["/snap/layer", "/base"],
    "network": "empty",
    "mounts": [{"from": "/run/testbed/folders/0", "to": "/opt/my wheels"}],
}


@pytest.mark.parametrize(
    ("conf", "v1", "v2"),
    [
        ({"memory": "512"}, ("lxc.cgroup.memory.limit_in_bytes", "536870912"), ("lxc.cgroup2.memory.max", "536870912")),
        ({"cores": "3"}, ("lxc.cgroup.cpuset.cpus", "0-2"), ("lxc.cgroup2.cpuset.cpus", "0-2")),
        ({"cpulimit": "1.5"}, ("lxc.cgroup.cpu.cfs_quota_us", "150000"), ("lxc.cgroup2.cpu.max", "150000 100000")),
    ],
)
def test_limits_in_both_layouts(conf: dict[str, str], v1: tuple[str, str], v2: tuple[str, str]) -> None:
    assert {v1, v2} <= set(lxc_config.limits(conf))


def test_no_limits_without_keys() -> None:
    assert lxc_config.limits({"memory": "0", "cores": "0", "cpulimit": "0"}) == []


def test_the_configuration_of_a_container() -> None:
    lines = lxc_config.lxc_config(
        "200", {"hostname": "h"}, [("lxc.mount.entry", "a b none bind 0 0")], OWN
    ).splitlines()
    assert "lxc.rootfs.path = overlay:/snap/layer:/base:/run/testbed/x/lxc/200/upper" in lines
    assert "lxc.net.0.type = empty" in lines
    assert "lxc.uts.name = h" in lines
    assert r"lxc.mount.entry = /run/testbed/folders/0 opt/my\040wheels none bind,ro,create=dir 0 0" in lines
    assert lines[-1] == "lxc.mount.entry = a b none bind 0 0"
    assert not any("autodev" in line for line in lines)


def test_a_device_entry() -> None:
    rules = lxc_config.device_rules({"dev0": "/dev/null,deny-write=1", "dev1": "path=/dev/zero", "device": "x"})
    assert ("lxc.cgroup.devices.allow", "c 1:3 r") in rules
    assert ("lxc.cgroup2.devices.allow", "c 1:5 rw") in rules
    assert rules[-1] == ("lxc.hook.autodev", lxc_config.DEVICE_HOOK)
