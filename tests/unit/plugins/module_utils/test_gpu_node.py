# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's driver and device nodes, in a folder that stands for /dev. Character devices need root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _gpu_node as gpu

DEVICES = "Character devices:\n  1 mem\n195 nvidia-frontend\n511 nvidia-uvm\n\nBlock devices:\n  8 nvidia-uvm\n"
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build\n"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes")


@pytest.fixture
def paths(tmp_path: Path) -> gpu.NodePaths:
    proc = tmp_path / "proc"
    (proc / "driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    (proc / "driver/nvidia/gpus/0000:01:00.0/information").write_text("Model: \t H200\nDevice Minor: \t 0\n")
    (proc / "driver/nvidia/version").write_text(VERSION)
    (proc / "devices").write_text(DEVICES)
    (tmp_path / "dev").mkdir()
    return gpu.NodePaths(str(tmp_path / "dev"), str(proc))


def test_what_the_driver_shows(paths: gpu.NodePaths) -> None:
    driver = gpu.read(paths, "590.44.01")
    assert (driver.loaded, driver.gpus, driver.majors) == ("580.126.20", [0], {"nvidia": 195, "nvidia-uvm": 511})
    assert driver.reboot_pending
    assert not gpu.read(paths, "580.126.20").reboot_pending
    assert not gpu.read(paths, None).reboot_pending
    assert gpu.read(gpu.NodePaths("/nowhere", "/nowhere"), None).loaded is None


def test_numbers(paths: gpu.NodePaths) -> None:
    driver = gpu.read(paths, None)
    found = {name: gpu.number_of(name, driver) for name in ("nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")}
    assert found == {
        "nvidia3": os.makedev(195, 3),
        "nvidiactl": os.makedev(195, 255),
        "nvidia-uvm": os.makedev(511, 0),
        "nvidia-uvm-tools": os.makedev(511, 1),
    }
    assert gpu.number_of("nvidia-uvm", gpu.Driver(majors={"nvidia": 195})) is None


@pytest.mark.parametrize(("text", "number"), [("/dev/nvidia0", 0), ("1", 1), (2, 2)])
def test_gpus(text: object, number: int) -> None:
    assert gpu.gpu_number(text) == number


@pytest.mark.parametrize("text", ["/dev/nvidiactl", "gpu0", "", "/dev/nvidia0,gid=44"])
def test_what_is_no_gpu(text: str) -> None:
    with pytest.raises(gpu.NodeError, match="is no GPU"):
        gpu.gpu_number(text)


def wreck(path: Path, kind: str) -> None:
    if kind == "file":
        path.write_text("left-over\n")
    elif kind == "directory":
        path.mkdir()
    elif kind == "stale_major":
        os.mknod(path, 0o020666, os.makedev(510, 0))


@needs_root
@pytest.mark.parametrize("kind", ["missing", "file", "directory", "stale_major"])
def test_each_problem_is_named_and_repaired(paths: gpu.NodePaths, tmp_path: Path, kind: str) -> None:
    driver = gpu.read(paths, None)
    path = Path(paths.dev, "nvidia-uvm")
    wreck(path, kind)
    found = gpu.problem("nvidia-uvm", driver, paths)
    assert found and found.kind == kind and str(path) in found.sentence
    gpu.repair(found, "nvidia-uvm", driver, str(tmp_path / "backup"))
    assert gpu.problem("nvidia-uvm", driver, paths) is None
    assert path.stat().st_mode & 0o7777 == 0o666
    assert (tmp_path / "backup/nvidia-uvm").exists() == (kind == "file")


def test_a_folder_with_content_is_not_removed(paths: gpu.NodePaths, tmp_path: Path) -> None:
    Path(paths.dev, "nvidiactl/x").mkdir(parents=True)
    driver = gpu.read(paths, None)
    found = gpu.problem("nvidiactl", driver, paths)
    assert found
    with pytest.raises(gpu.NodeError, match="It is not empty"):
        gpu.repair(found, "nvidiactl", driver, str(tmp_path))


def test_a_family_that_is_not_loaded_cannot_be_made(paths: gpu.NodePaths) -> None:
    driver = gpu.Driver(loaded="1", majors={"nvidia": 195})
    found = gpu.problem("nvidia-uvm", driver, paths)
    assert found
    with pytest.raises(gpu.NodeError, match="its module is not loaded"):
        gpu.repair(found, "nvidia-uvm", driver, "/nowhere")
