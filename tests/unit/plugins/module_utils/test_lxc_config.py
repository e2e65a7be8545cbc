# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading tags, devN values and raw lines."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _lxc_config as lxc

TAGS = st.lists(st.text(string.ascii_letters + string.digits + "-_.+", min_size=1), max_size=6)
SEPARATORS = st.text(",; \t", min_size=1, max_size=3)
OPTIONS = st.dictionaries(
    st.sampled_from(["uid", "gid", "mode", "deny-write", "later"]), st.text(string.digits, min_size=1, max_size=4)
)
PATHS = st.text(string.ascii_letters + string.digits + "-_/", min_size=1, max_size=12).map(lambda text: f"/dev/{text}")


@given(TAGS, SEPARATORS)
def test_tags_in_any_spelling(tags: list[str], separator: str) -> None:
    assert lxc.parse_tags(separator.join(tags)) == list(dict.fromkeys(tags))


@pytest.mark.parametrize(
    ("text", "tags"), [("b,a", ["b", "a"]), ("B; a", ["B", "a"]), ("b;a;b", ["b", "a"]), (None, [])]
)
def test_tags_as_files_hold_them(text: str | None, tags: list[str]) -> None:
    assert lxc.parse_tags(text) == tags


@given(PATHS, OPTIONS, st.randoms(), st.booleans())
def test_a_device_is_read_in_any_order_and_written_in_one(
    path: str, options: dict, shuffle: object, named: bool
) -> None:
    parts = [f"{key}={value}" for key, value in options.items()]
    shuffle.shuffle(parts)  # type: ignore[attr-defined]
    text = ",".join([*parts, f"path={path}"] if named else [path, *parts])
    device = lxc.parse_device(text)
    assert (device.path, dict(device.options)) == (path, options)
    assert lxc.parse_device(device.text()) == device
    assert device.text() == lxc.Device(path, dict(sorted(options.items()))).text()


def test_a_device_without_a_path() -> None:
    with pytest.raises(ValueError, match="names no device"):
        lxc.parse_device("gid=44,mode=0660")


def test_devices_come_by_number() -> None:
    config = {"dev10": "/dev/c", "dev2": "/dev/b", "dev0": "/dev/a", "device": "/dev/no", "dev1": "gid=4"}
    assert list(lxc.devices(config)) == ["dev0", "dev2", "dev10"]


@given(st.lists(st.tuples(st.sampled_from(["lxc.cgroup2.devices.allow", "lxc.mount.entry", "lxc.idmap"]), st.text())))
def test_raw_lines_are_all_kept(pairs: list[tuple[str, str]]) -> None:
    assert lxc.raw_lines({"lxc": [list(pair) for pair in pairs]}) == pairs
    assert set(lxc.gpu_raw_lines(pairs)) <= set(pairs)


MOUNT = ("lxc.mount.entry", "/dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file")


def test_which_raw_lines_are_about_gpus() -> None:
    rule, dynamic = ("lxc.cgroup2.devices.allow", "c 195:* rwm"), ("lxc.cgroup2.devices.allow", "c 511:* rwm")
    tun, dri = ("lxc.cgroup2.devices.allow", "c 10:200 rwm"), ("lxc.cgroup2.devices.allow", "c 226:* rwm")
    other = ("lxc.mount.entry", "/dev/net/tun dev/net/tun none bind,create=file")
    assert lxc.gpu_raw_lines([rule, dynamic, tun, dri, other, MOUNT]) == [rule, dynamic, MOUNT]
    assert lxc.gpu_raw_lines([dynamic, tun, dri, other]) == []  # a dynamic major alone may be anything
    assert lxc.gpu_raw_lines([dynamic], majors=[511]) == [dynamic]


def test_how_gpus_are_handed_in() -> None:
    devices = {"dev0": "/dev/nvidia1,gid=44", "dev1": "/dev/nvidiactl", "dev2": "/dev/dri/card0"}
    assert lxc.gpu(devices)["how"] == "devices"
    assert lxc.gpu(devices)["gpus"] == [1]
    assert list(lxc.gpu(devices)["devices"]) == ["dev0", "dev1"]
    raw = {"lxc": [["lxc.mount.entry", "/dev/nvidia0 dev/nvidia0 none bind"], list(MOUNT)]}
    assert (lxc.gpu(raw)["how"], lxc.gpu(raw)["gpus"]) == ("raw", [0])
    assert (lxc.gpu(devices | raw)["how"], lxc.gpu(devices | raw)["gpus"]) == ("both", [0, 1])
    assert lxc.gpu({"dev0": "/dev/dri/card0"})["how"] == "none"
