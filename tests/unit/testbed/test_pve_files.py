# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of /etc/pve in their real shapes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed import pve_files

CONF = """\
#a note: with a colon
arch: amd64
dev0: /dev/x,mode=0660
hostname: ct200
lxc.cgroup2.devices.allow: c 195:* rwm
lxc.cgroup2.devices.allow: c 234:* rwm

[pve:pending]
delete: net0,tags
dev0: /dev/y

[snap]
hostname: old
"""


def test_a_config_file() -> None:
    conf = pve_files.parse_conf(CONF)
    assert (conf["hostname"], conf["dev0"]) == ("ct200", "/dev/x,mode=0660")
    assert pve_files.raw_lxc_lines(CONF) == [
        ("lxc.cgroup2.devices.allow", "c 195:* rwm"),
        ("lxc.cgroup2.devices.allow", "c 234:* rwm"),
    ]


def test_pending_changes() -> None:
    pending = pve_files.parse_pending(CONF)
    assert (pending.changed, pending.deleted) == ({"dev0": "/dev/y"}, {"net0", "tags"})
    conf = {"dev0": "/dev/x", "net0": "n", "arch": "a"}
    assert pve_files.with_pending(conf, pending) == {"dev0": "/dev/y", "arch": "a"}


def test_what_is_written_reads_the_same() -> None:
    pending = pve_files.Pending({"dev0": "/dev/y"}, {"tags"})
    text = pve_files.format_conf({"b": "2", "a": "1"}, [("lxc.x", "y"), ("lxc.x", "z")], pending)
    assert text == "a: 1\nb: 2\nlxc.x: y\nlxc.x: z\n\n[pve:pending]\ndelete: tags\ndev0: /dev/y\n"
    assert pve_files.parse_pending(text) == pending


@pytest.fixture
def pve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("os.chown", lambda *_: None)  # unit tests may run without root
    for folder in ("nodes/a/lxc", "nodes/a/qemu-server", "nodes/b/lxc"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def vmlist(pve: Path) -> dict[str, object]:
    pve_files.refresh_vmlist(pve)
    shown: dict[str, object] = json.loads((pve / ".vmlist").read_text())
    return shown


def test_vmlist_without_any_guest_has_no_ids(pve: Path) -> None:
    assert vmlist(pve) == {"version": 0}
    assert (pve / ".vmlist").stat().st_mode & 0o777 == 0o440


def test_vmlist_counts_changes_and_only_those(pve: Path) -> None:
    (pve / "nodes/a/lxc/200.conf").touch()
    (pve / "nodes/a/qemu-server/100.conf").touch()
    (pve / "nodes/a/lxc/notes.txt").touch()
    first = vmlist(pve)
    assert first == {
        "version": 2,
        "ids": {
            "200": {"node": "a", "type": "lxc", "version": 1},
            "100": {"node": "a", "type": "qemu", "version": 2},
        },
    }
    assert vmlist(pve) == first
    (pve / "nodes/a/lxc/200.conf").rename(pve / "nodes/b/lxc/200.conf")
    moved = vmlist(pve)
    assert moved["ids"]["200"] == {"node": "b", "type": "lxc", "version": 3}  # type: ignore[index]
    (pve / "nodes/b/lxc/200.conf").unlink()
    assert vmlist(pve) == {"version": 4, "ids": {"100": {"node": "a", "type": "qemu", "version": 2}}}


def test_snapshot_sections_survive_a_change() -> None:
    text = (
        "cores: 2\nlxc.idmap: u 0 1 2\n\n[pve:pending]\nswap: 0\n\n[one]\ncores: 1\nsnaptime: 5\n\n[two]\nparent: one\n"
    )
    sections = pve_files.snapshot_sections(text)
    assert sections == {"one": "cores: 1\nsnaptime: 5\n", "two": "parent: one\n"}
    conf, raw, pending = pve_files.parse_conf(text), pve_files.raw_lxc_lines(text), pve_files.parse_pending(text)
    written = pve_files.format_conf({**conf, "cores": "4"}, raw, pending, sections)
    assert pve_files.snapshot_sections(written) == sections
    assert pve_files.parse_pending(written) == pending
    assert pve_files.parse_conf(written)["cores"] == "4"
