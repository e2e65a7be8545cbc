# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the testbed refuses to run: one sentence each."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import refusals
from testbed.errors import TestbedError
from testbed.layout import layout


@pytest.fixture
def debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "os_release", lambda: {"ID": "debian"})
    monkeypatch.setattr(refusals, "proxmox_sign", lambda: None)


def test_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    refusals.refuse_without_root()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match="needs root: run it with sudo"):
        refusals.refuse_without_root()


@pytest.mark.usefixtures("debian")
def test_debian_is_welcome() -> None:
    refusals.refuse_wrong_machine()


@pytest.mark.usefixtures("debian")
def test_not_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "os_release", lambda: {"ID": "fedora", "PRETTY_NAME": "Fedora Linux 44"})
    with pytest.raises(TestbedError, match=r"runs on Debian only \(this is Fedora Linux 44\)"):
        refusals.refuse_wrong_machine()


@pytest.mark.usefixtures("debian")
def test_a_real_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "proxmox_sign", lambda: "/usr/bin/pveversion exists")
    with pytest.raises(TestbedError, match=r"is a real Proxmox node \(/usr/bin/pveversion exists\)"):
        refusals.refuse_wrong_machine()


def test_pmxcfs_gives_a_node_away() -> None:
    assert refusals.proxmox_sign("/dev/fuse /etc/pve fuse rw 0 0\n") == "/etc/pve is mounted"


def test_missing_packages_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "PACKAGES", {"/no/lxc-start": "lxc", "/no/lxc-info": "lxc", "/bin/sh": "dash"})
    with pytest.raises(TestbedError, match=r"run `apt-get install --no-install-recommends lxc`\.$"):
        refusals.refuse_missing_packages()


def test_os_release(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text('ID=debian\nPRETTY_NAME="Debian 12"\n\n')
    assert refusals.os_release(tmp_path / "os-release") == {"ID": "debian", "PRETTY_NAME": "Debian 12"}
    assert refusals.os_release(tmp_path / "missing") == {}


def test_a_box_of_a_bad_name() -> None:
    with pytest.raises(TestbedError, match="TESTBED_NAME is 'a/b'"):
        layout({"TESTBED_NAME": "a/b"})


def test_two_checkouts_and_two_names_share_nothing(tmp_path: Path) -> None:
    boxes = [layout({}, tmp_path / "a"), layout({}, tmp_path / "b"), layout({"TESTBED_NAME": "x"}, tmp_path / "a")]
    for own in ("state", "identity", "inside", "cgroup", "control_path", "first_port"):
        assert len({getattr(box, own) for box in boxes}) == 3, own
