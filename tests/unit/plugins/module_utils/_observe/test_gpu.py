# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 3, facts, of a machine whose device nodes are made with the numbers that a test wants."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import gpu

DEVICES = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n511 nvidia-uvm\n\nBlock devices:\n259 nvidia\n"
VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC version:  gcc version "
    "12.2.0\n"
)
needs_mknod = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes are made by root")


def loaded(machine: Any) -> None:
    machine.file("/proc/devices", DEVICES)
    machine.file("/proc/driver/nvidia/version", VERSION)


def mknod(machine: Any, name: str, major: int, mode: int = 0o666) -> None:
    place: Path = machine.root / "dev" / name
    place.parent.mkdir(exist_ok=True)
    try:
        os.mknod(place, stat.S_IFCHR | mode, os.makedev(major, 0))
    except PermissionError:
        pytest.skip("this machine does not let root make device nodes")
    place.chmod(mode)


def observed(machine: Any, **wishes: Any) -> dict[str, Any]:
    return gpu.observe(machine.host, wishes)


def test_machine_without_a_gpu(machine: Any) -> None:
    facts = observed(machine)
    assert (facts["nodes"], facts["configured"], facts["module_version"]) == ([], False, None)


def test_live_majors_are_those_of_character_devices() -> None:
    assert gpu.live_majors(DEVICES) == {"nvidia": [195], "nvidiactl": [195], "nvidia-uvm": [511]}


@pytest.mark.parametrize(
    "text",
    [VERSION, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 UTC 2025\n"],
    ids=["open", "proprietary"],
)
def test_module_version(machine: Any, text: str) -> None:
    machine.file("/proc/driver/nvidia/version", text)
    assert observed(machine)["module_version"] == "580.95.05"


@needs_mknod
def test_nodes_as_they_should_be(machine: Any) -> None:
    loaded(machine)
    for name, major in (("nvidia0", 195), ("nvidiactl", 195), ("nvidia-uvm", 511)):
        mknod(machine, name, major)
    nodes = observed(machine)["nodes"]
    assert [(node["kind"], node["major"] in node["live_majors"], node["permitted"]) for node in nodes] == [
        ("char", True, True)
    ] * 3


@needs_mknod
def test_missing_uvm_is_named(machine: Any) -> None:
    loaded(machine)
    mknod(machine, "nvidia0", 195)
    kinds = {node["path"]: node["kind"] for node in observed(machine)["nodes"]}
    assert kinds["/dev/nvidia-uvm"] == "missing"


def test_regular_file_in_place_of_a_node(machine: Any) -> None:
    machine.file("/dev/nvidia0")
    [node, *_rest] = observed(machine)["nodes"]
    assert (node["path"], node["kind"]) == ("/dev/nvidia0", "file")


@needs_mknod
def test_stale_major(machine: Any) -> None:
    loaded(machine)
    mknod(machine, "nvidia-uvm", 508)
    uvm = next(node for node in observed(machine)["nodes"] if node["path"] == "/dev/nvidia-uvm")
    assert (uvm["major"], uvm["live_majors"]) == (508, [511])


def status_of(uid: int, gid: int, mode: int) -> os.stat_result:
    return os.stat_result((stat.S_IFCHR | mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("owner", "mode", "account", "permitted"),
    [
        ((0, 0), 0o660, (1000, {1000}), False),
        ((0, 44), 0o660, (1000, {1000, 44}), True),
        ((1000, 0), 0o600, (1000, {1000}), True),
        ((0, 0), 0o666, (1000, {1000}), True),
        ((0, 0), 0o600, (0, {0}), True),
        ((65534, 65534), 0o660, (0, {0}), False),
        ((65534, 65534), 0o666, (0, {0}), True),
        ((0, 0), 0o666, None, None),
    ],
)
def test_permitted(owner: tuple[int, int], mode: int, account: Any, permitted: bool | None) -> None:
    assert gpu.permitted(status_of(*owner, mode), account) is permitted


def test_account_that_is_not_there() -> None:
    assert gpu.identity("no-such-account-here") is None
    assert gpu.identity(pwd.getpwuid(os.geteuid()).pw_name) is not None


def test_device_of_the_config_that_is_not_there_counts_as_configured(machine: Any) -> None:
    machine.file("/proc/self/mountinfo", "36 35 0:5 /nvidia0 /dev/nvidia0 rw,nosuid - devtmpfs udev rw\n")
    facts = observed(machine)
    assert facts["configured"] is True
    assert {node["kind"] for node in facts["nodes"]} == {"missing"}


def test_libraries_by_the_version_in_their_names(machine: Any) -> None:
    machine.file("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05")
    machine.link("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.580.95.05")
    machine.file("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.82.07")
    assert [library["version"] for library in gpu.libraries(machine.host)] == ["580.95.05", "580.82.07"]


@pytest.mark.parametrize(
    ("path", "content", "wishes"),
    [
        ("/etc/ld.so.conf.d/nvidia.conf", "# the node's driver\n/opt/driver/lib64/\n", {}),
        ("/etc/unrelated", "", {"environment": {"LD_LIBRARY_PATH": "relative::/opt/driver/lib64"}}),
        ("/etc/train.env", "LD_LIBRARY_PATH=/opt/driver/lib64\n", {"environment_files": ["/etc/train.env"]}),
    ],
)
def test_libraries_where_the_loader_is_told_to_look(machine: Any, path: str, content: str, wishes: Any) -> None:
    machine.file("/opt/driver/lib64/libcuda.so.580.95.05")
    assert gpu.libraries(machine.host) == []
    machine.file(path, content)
    assert gpu.libraries(machine.host, wishes) == [
        {"path": "/opt/driver/lib64/libcuda.so.580.95.05", "version": "580.95.05"}
    ]


@needs_mknod
def test_gpus_as_nvidia_smi_tells_them(machine: Any) -> None:
    loaded(machine)
    mknod(machine, "nvidia0", 195)
    machine.program("/usr/bin/nvidia-smi", "NVIDIA H200, 9.0, GPU-1\nNVIDIA H200, 9.0, GPU-2")
    assert [(one["name"], one["capability"]) for one in observed(machine)["gpus"]] == [("NVIDIA H200", "9.0")] * 2


@needs_mknod
def test_gpus_without_nvidia_smi_have_a_name_alone(machine: Any) -> None:
    loaded(machine)
    mknod(machine, "nvidia0", 195)
    machine.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n")
    assert observed(machine)["gpus"] == [{"name": "NVIDIA H200", "capability": None, "uuid": None}]
