# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 2, facts about the ground: what is read from files and from the file system itself."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import system


def observed(machine: Any) -> dict[str, Any]:
    return system.observe(machine.host, "/opt/training")


def test_folders_that_everybody_writes_to(machine: Any) -> None:
    for name, mode in (("tmp", 0o1777), ("var/tmp", 0o755)):
        (machine.root / name).mkdir(parents=True)
        (machine.root / name).chmod(mode)
    assert observed(machine)["not_writable"] == [{"path": "/var/tmp", "mode": "0755"}]
    (machine.root / "tmp").rmdir()
    assert {"path": "/tmp", "mode": "missing"} in observed(machine)["not_writable"]


def test_what_lies_at_dev_null(machine: Any) -> None:
    assert observed(machine)["null"] == "missing"
    machine.file("/dev/null", "thrown away")
    assert observed(machine)["null"] == "file"


def test_libraries_that_all_programs_are_to_load(machine: Any) -> None:
    machine.file("/lib/here.so")
    machine.file("/etc/ld.so.preload", "/lib/here.so\n/lib/gone.so\n")
    assert observed(machine)["preload"] == ["/lib/gone.so"]


@pytest.mark.parametrize(
    ("flags", "files", "free", "found"),
    [
        (os.ST_RDONLY, 10, 5, ("read_only", "/var")),
        (0, 10, 0, ("no_inodes", "/var")),
        (0, 0, 0, None),  # a file system that does not count them
        (0, 10, 1, None),
    ],
)
def test_file_systems(
    machine: Any, monkeypatch: pytest.MonkeyPatch, flags: int, files: int, free: int, found: tuple[str, str] | None
) -> None:
    full = SimpleNamespace(f_flag=flags, f_files=files, f_favail=free)
    fine = SimpleNamespace(f_flag=0, f_files=9, f_favail=9)
    monkeypatch.setattr(os, "statvfs", lambda path: full if path.endswith("/var") else fine)
    facts = observed(machine)
    told = [(name, place) for name in ("read_only", "no_inodes") for place in facts[name]]
    assert told == ([found] if found else [])


def test_dependencies_that_are_not_there(machine: Any) -> None:
    machine.file(
        "/var/lib/dpkg/status",
        """Package: gcc
Status: install ok installed
Version: 12
Depends: cpp (>= 12), libc6-dev | libc-dev, gone:any (= 1), half
Pre-Depends: dpkg (>= 1.17)

Package: cpp
Status: install ok installed
Version: 12

Package: musl-dev
Status: install ok installed
Version: 1
Provides: libc-dev (= 1), other

Package: dpkg
Status: install ok installed
Version: 1.21

Package: half
Status: install ok half-configured
Version: 1
Depends: gone-too

Package: removed
Status: deinstall ok config-files
Version: 1
Depends: nothing-that-exists
""",
    )
    assert observed(machine)["unmet"] == [{"package": "gcc", "needs": "gone"}]


@pytest.mark.parametrize(
    ("python", "found", "loads"),
    [("/usr/bin/python3", object(), True), ("/usr/bin/python3", None, False), ("/opt/conda/bin/python", None, None)],
)
def test_python_apt_counts_for_the_system_s_python(
    monkeypatch: pytest.MonkeyPatch, python: str, found: object, loads: bool | None
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: found)
    assert system.apt_module() is loads
