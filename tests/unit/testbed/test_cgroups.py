# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cgroup trees of both layouts, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import cgroups

HYBRID = """\
24 1 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
25 1 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
26 1 0:24 / /sys/fs/cgroup rw - tmpfs tmpfs rw
27 1 0:22 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
"""


def test_hierarchies() -> None:
    assert cgroups.hierarchies(HYBRID) == [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/unified")]


def test_version_2_hands_its_controllers_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder here cannot grow files by itself as the kernel's do, so the two levels are made first."""
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tmp_path])
    for folder in (tmp_path, tmp_path / "a", tmp_path / "a/b"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("memory\n")
        (folder / "cgroup.subtree_control").write_text("")
        (folder / "cgroup.procs").write_text("")
    cgroups.joiner("a/b")()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"
    assert (tmp_path / "a/cgroup.subtree_control").read_text() == "+memory"
    assert (tmp_path / "a/b/cgroup.subtree_control").read_text() == "", "where processes are, nothing is handed down"
    assert (tmp_path / "a/b/cgroup.procs").read_text() == "0"


def test_a_version_1_cpuset_gets_its_parents_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tmp_path])
    (tmp_path / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset.mems").write_text("0\n")
    (tmp_path / "a").mkdir()
    for name in ("cpuset.cpus", "cpuset.mems"):
        (tmp_path / "a" / name).write_text("\n")
    cgroups.joiner("a")
    assert (tmp_path / "a/cpuset.cpus").read_text() == "0-1\n"
    assert (tmp_path / "a/cpuset.mems").read_text() == "0\n"


def test_processes_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tmp_path])
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/cgroup.procs").write_text("5\n0\n")
    (tmp_path / "a/b/cgroup.procs").write_text("7\n")
    assert cgroups.processes("a") == {5, 7}
    assert cgroups.processes("nothing") == set()
