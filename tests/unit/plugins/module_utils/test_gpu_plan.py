# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes in a container's configuration, by examples and for any configuration."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _gpu_plan as gp
from ansible_collections.proxmox_gpu.training.plugins.module_utils._lxc_config import Device, devices

PATHS = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"]
WANTED = [Device(path, {"gid": "44", "mode": "0660"}) for path in PATHS]
TEXTS = {f"dev{number}": device.text() for number, device in enumerate(WANTED)}


def section(raw: Any = (), **keys: Any) -> gp.Section:
    return gp.Section(keys, list(raw))


def applied(before: gp.Section, plan: gp.Plan) -> gp.Section:
    keys = {key: value for key, value in before.next.items() if key not in plan.deletes} | dict(plan.sets)
    return gp.Section(keys, [pair for pair in before.raw if pair not in plan.raw])


def test_into_an_empty_one() -> None:
    assert gp.plan(section(), WANTED) == gp.Plan(TEXTS, [], [])


def test_one_that_is_right_in_another_spelling() -> None:
    other = {
        "dev4": "gid=44,path=/dev/nvidia0,mode=0660",
        "dev1": "/dev/nvidia-uvm,gid=44,uid=0",
        "dev9": "/dev/nvidiactl,gid=44",
    }
    assert not gp.plan(section(**other), WANTED).changes


def test_others_keep_their_numbers() -> None:
    others = {"dev0": "/dev/ttyUSB0", "dev2": "/dev/dri/card0,gid=44", "dev7": "/dev/nvidia-caps/nvidia-cap1"}
    plan = gp.plan(section(**others), WANTED)
    assert list(plan.sets) == ["dev1", "dev3", "dev4"]
    assert plan.deletes == []


def test_what_is_not_wanted_and_what_is_there_twice_goes() -> None:
    plan = gp.plan(section(**TEXTS, dev5="/dev/nvidia0", dev6="/dev/nvidia1"), WANTED)
    assert (plan.sets, plan.deletes) == ({}, ["dev5", "dev6"])


def test_a_change_that_waits_already_is_not_made_again() -> None:
    waiting = gp.Section({"dev0": "/dev/nvidia0,gid=0"}, [], TEXTS)
    assert waiting.devices_wait
    assert not gp.plan(waiting, WANTED).changes


def test_raw_lines_on_request_alone() -> None:
    raw = [("lxc.cgroup2.devices.allow", "c 195:* rwm"), ("lxc.idmap", "u 0 100000 65536")]
    assert gp.plan(section(raw, **TEXTS), WANTED).raw == []
    assert gp.plan(section(raw, **TEXTS), WANTED, replace_raw=True).raw == raw[:1]


VALUES = st.builds(
    lambda path, options: Device(path, options).text(),
    st.sampled_from([*PATHS, "/dev/nvidia1", "/dev/nvidia-modeset", "/dev/ttyUSB0", "/dev/dri/card0"]),
    st.dictionaries(st.sampled_from(["gid", "mode", "uid", "deny-write"]), st.sampled_from(["0", "44", "0660", "1"])),
)
CONFIGURATIONS = st.dictionaries(st.integers(0, 20).map(lambda number: f"dev{number}"), VALUES, max_size=10)


@given(CONFIGURATIONS, CONFIGURATIONS)
def test_afterwards_it_is_as_wanted_and_nothing_changes_again(now: dict[str, str], waiting: dict[str, str]) -> None:
    before = gp.Section(now, [], waiting)
    plan = gp.plan(before, WANTED)
    after = applied(before, plan)
    found = [one for one in devices(after.next).values() if one.path.startswith("/dev/nvidia")]
    assert sorted(one.path for one in found) == sorted(PATHS)
    assert all(gp.same(one, next(w for w in WANTED if w.path == one.path)) for one in found)
    assert not gp.plan(after, WANTED).changes
    for key, one in devices(before.next).items():
        if not one.path.startswith("/dev/nvidia"):
            assert devices(after.next)[key] == one


TEXT = """\
#a note: with a colon
cores: 2
dev0: /dev/nvidia0
lxc.cgroup2.devices.allow: c 195:* rwm
lxc.idmap: u 0 100000 65536

[pve:pending]
delete: dev0,swap
dev1: /dev/nvidiactl

[before]
cores: 1
lxc.cgroup2.devices.allow: c 195:* rwm
"""


def test_reading_a_file() -> None:
    found = gp.read(TEXT)
    assert found.keys == {"cores": "2", "dev0": "/dev/nvidia0"}
    assert found.raw == [("lxc.cgroup2.devices.allow", "c 195:* rwm"), ("lxc.idmap", "u 0 100000 65536")]
    assert found.next == {"cores": "2", "dev1": "/dev/nvidiactl"}


def test_taking_raw_lines_out_leaves_the_rest_byte_for_byte() -> None:
    line = "lxc.cgroup2.devices.allow: c 195:* rwm\n"
    left = gp.without_raw(TEXT, [("lxc.cgroup2.devices.allow", "c 195:* rwm")])
    assert left == TEXT.replace(line, "", 1)
    assert left.count(line) == 1  # the snapshot's


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    found: Any = gp.read(text)
    assert gp.without_raw(text, []) == text
    assert isinstance(found.next, dict)
