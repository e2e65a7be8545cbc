# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 2, facts."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import base


def test_os_release() -> None:
    text = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\nNAME=x\nbroken\n'
    assert base.os_release(text) == {
        "id": "debian",
        "version_id": "12",
        "pretty_name": "Debian GNU/Linux 12 (bookworm)",
    }


def test_packages_are_the_wanted_ones_that_are_there(machine: Any) -> None:
    machine.status(("python3", "install ok installed", "3.11"), ("vim", "install ok installed", "9"))
    facts = base.observe(machine.host, {"packages": ["python3", "acl"]})
    assert facts["packages"] == {"python3": "3.11"}


def test_unfinished_packages(machine: Any) -> None:
    machine.status(("libc6", "install ok half-configured", "2.36"), ("python3", "install ok installed", "3.11"))
    assert base.unfinished(machine.host) == ["libc6"]


def test_a_journal_of_dpkg_is_unfinished_work(machine: Any) -> None:
    machine.file("/var/lib/dpkg/updates/0001")
    assert base.unfinished(machine.host) == ["dpkg's journal 0001"]


@pytest.mark.parametrize(("text", "usable"), [("-----BEGIN CERTIFICATE-----\n", True), ("", False), (None, False)])
def test_ca_bundle(machine: Any, text: str | None, usable: bool) -> None:
    if text is not None:
        machine.file(base.CA_BUNDLE, text)
    assert base.ca_bundle(machine.host) == {"path": base.CA_BUNDLE, "usable": usable}


def test_memory_limit_is_the_smallest_one(machine: Any) -> None:
    machine.file("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB\n")
    assert base.memory_limit(machine.host) == 4 * 1024**3
    machine.file("/sys/fs/cgroup/memory.max", "2147483648\n")
    assert base.memory_limit(machine.host) == 2 * 1024**3


def test_memory_limit_max_is_no_limit(machine: Any) -> None:
    machine.file("/sys/fs/cgroup/memory.max", "max\n")
    assert base.memory_limit(machine.host) is None


def test_cpu_limit(machine: Any) -> None:
    whole = base.cpu_limit(machine.host)
    machine.file("/sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert base.cpu_limit(machine.host) == 0.5
    machine.file("/sys/fs/cgroup/cpu.max", "max 100000\n")
    assert base.cpu_limit(machine.host) == whole


def test_disk_counts_each_file_system_once(machine: Any) -> None:
    for folder in ("opt", "var", "tmp"):
        (machine.root / folder).mkdir()
    found = base.disk(machine.host, "/opt/training")
    assert list(found) == ["/opt/training"]
    assert 0 < found["/opt/training"]["free_bytes"] <= found["/opt/training"]["total_bytes"]
