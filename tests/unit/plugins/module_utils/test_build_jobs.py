# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_jobs import (
    GIB,
    Limits,
    choose,
    oom_kills,
    read_limits,
)

MEMINFO = "MemTotal:       33554432 kB\nMemFree: 1 kB\nMemAvailable:   16777216 kB\n"


def tree(folder: Path, files: dict[str, str]) -> tuple[str, str]:
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (folder / "meminfo").write_text(MEMINFO)
    return str(folder / "cgroup"), str(folder / "meminfo")


def test_cgroup_v2(tmp_path: Path) -> None:
    files = {
        "memory.max": str(4 * GIB),
        "memory.current": str(3 * GIB),
        "memory.stat": f"anon 1\ninactive_file {2 * GIB}",
        "cpu.max": "50000 100000",
    }
    assert read_limits(*tree(tmp_path, files)) == Limits(4 * GIB, 3 * GIB, 0.5)


def test_cgroup_v1(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": str(4 * GIB),
        "memory/memory.usage_in_bytes": str(GIB),
        "memory/memory.stat": "total_inactive_file 0",
        "cpu/cpu.cfs_quota_us": "100000",
        "cpu/cpu.cfs_period_us": "100000",
    }
    limits = read_limits(*tree(tmp_path, files))
    assert (limits.memory_limit, limits.memory_free, limits.cpus) == (4 * GIB, 3 * GIB, 1.0)


@pytest.mark.parametrize(
    "files",
    [
        {"memory.max": "max", "cpu.max": "max 100000"},
        {"memory/memory.limit_in_bytes": "9223372036854771712", "cpu/cpu.cfs_quota_us": "-1"},
        {},
    ],
)
def test_without_limits_what_is_free_on_the_machine_counts(tmp_path: Path, files: dict[str, str]) -> None:
    limits = read_limits(*tree(tmp_path, files))
    assert (limits.memory_limit, limits.memory_free) == (None, 16 * GIB)
    assert limits.cpus >= 1


def test_a_container_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    files = {"memory.max": str(GIB), "memory.current": str(2 * GIB)}
    assert read_limits(*tree(tmp_path, files)).memory_free == 0


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({"memory.events": "low 0\noom 3\noom_kill 2"}, 2),
        ({"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5"}, 5),
        ({}, 0),
    ],
)
def test_killed_processes_are_counted(tmp_path: Path, files: dict[str, str], kills: int) -> None:
    assert oom_kills(tree(tmp_path, files)[0]) == kills


@pytest.mark.parametrize(
    ("free", "cpus", "targets", "jobs", "threads"),
    [
        (64 * GIB, 16, 1, 16, 1),
        (64 * GIB, 16, 9, 4, 4),
        (6 * GIB, 16, 1, 2, 1),
        (6 * GIB, 16, 9, 1, 2),
        (1 * GIB, 16, 9, 1, 1),
        (64 * GIB, 2, 9, 1, 2),
        (64 * GIB, 0.5, 1, 1, 1),
    ],
)
def test_parallelism(free: int, cpus: float, targets: int, jobs: int, threads: int) -> None:
    found = choose(Limits(None, free, cpus), 3 * GIB, targets)
    assert (found.jobs, found.threads) == (jobs, threads)


@given(st.integers(0, 1 << 42), st.floats(0.1, 256), st.integers(1, 12), st.integers(1 << 28, 1 << 34))
def test_never_more_than_fits_except_the_one_that_must_be(free: int, cpus: float, targets: int, each: int) -> None:
    found = choose(Limits(None, free, cpus), each, targets)
    processes = found.jobs * found.threads
    assert processes == 1 or (processes * each <= free and processes <= cpus)


def test_a_number_that_is_set_is_taken() -> None:
    assert choose(Limits(None, GIB, 2), 3 * GIB, 1, wanted=7).jobs == 7
