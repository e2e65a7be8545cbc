# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine that is looked at: files, packages, and programs that fail, hang or are not there."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import host as hosts


def test_what_is_missing_is_none_and_no_error(machine: Any) -> None:
    host = machine.host
    assert host.read("/etc/os-release") is None
    assert host.read_json("/etc/x.json") is None
    assert host.names("/etc/apt") == []
    assert host.packages == {}
    assert host.find("/opt/*") == []


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "7"])
def test_damaged_json_is_none(machine: Any, text: str) -> None:
    machine.file("/etc/x.json", text)
    assert machine.host.read_json("/etc/x.json") is None


def test_packages_of_dpkg(machine: Any) -> None:
    machine.status(
        ("python3", "install ok installed", "3.11"),
        ("cuda-nvcc-13-0", "hold ok installed", "13.0.88-1"),
        ("gone", "deinstall ok config-files", "1"),
        ("half", "install ok half-configured", "2"),
    )
    host = machine.host
    assert host.packages["cuda-nvcc-13-0"] == hosts.Package("13.0.88-1", True, True)
    assert host.installed("python3") == "3.11"
    assert host.installed("half") is None
    assert host.installed("gone") is None
    assert "gone" not in host.packages


@given(st.text(max_size=200))
def test_any_status_file_is_read(text: str) -> None:
    hosts.parse_dpkg_status(text)


def test_owner_of_a_file_follows_links(machine: Any) -> None:
    machine.program("/usr/local/cuda-13.0/bin/nvcc")
    machine.link("/usr/local/cuda", "cuda-13.0")
    machine.file("/var/lib/dpkg/info/cuda-nvcc-13-0.list", "/.\n/usr/local/cuda-13.0/bin/nvcc\n")
    host = machine.host
    assert host.owner("/usr/local/cuda/bin/nvcc", ["other", "cuda-nvcc-13-0"]) == "cuda-nvcc-13-0"
    assert host.owner("/usr/local/cuda/bin/nvcc", ["other"]) is None


def test_program_that_is_missing(machine: Any) -> None:
    done = machine.host.run("/usr/bin/nvcc", "--version")
    assert done.status is None
    assert done.problem == "/usr/bin/nvcc cannot be run: No such file or directory"


def test_program_that_hangs_is_ended(machine: Any) -> None:
    machine.file("/usr/bin/slow", "#!/bin/sh\nexec sleep 30\n", 0o755)
    done = machine.host.run("/usr/bin/slow", timeout=0.2)
    assert done.problem == "/usr/bin/slow did not end within 0.2 seconds"


def test_program_gets_no_input_and_a_clean_environment(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", "/somewhere")
    machine.file("/usr/bin/show", "#!/bin/sh\ncat; echo $CUDA_HOME; echo $LC_ALL\n", 0o755)
    assert machine.host.run("/usr/bin/show").stdout == "\nC\n"


def test_kind_of_what_lies_at_a_path(machine: Any) -> None:
    assert hosts.kind_of(str(machine.file("/dev/nvidia0"))) == "file"
    assert hosts.kind_of(str(machine.root)) == "directory"
    assert hosts.kind_of("/dev/null") == "char"
    assert hosts.kind_of("/nowhere") == "missing"
    fifo = machine.root / "fifo"
    os.mkfifo(fifo)
    assert hosts.kind_of(str(fifo)) == "other"
