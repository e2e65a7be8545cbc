# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""How many compiler processes a build may run at once, from the limits of the container and not of the node.

A process in a container sees the node's processors and, without lxcfs, the node's memory; the limits that end it are
in its cgroup. Both versions of cgroups are read, since the node's kernel decides which one there is.
"""

from __future__ import annotations

import dataclasses
import os

GIB = 1 << 30
UNLIMITED = 1 << 60
"""cgroup v1 says "no limit" by a number near the largest one that it can write."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """``memory_limit``: bytes or None for none; ``memory_free``: bytes that a build can take now; ``cpus``: at least
    0.1."""

    memory_limit: int | None
    memory_free: int
    cpus: float


@dataclasses.dataclass(frozen=True)
class Parallel:
    """``jobs``: sources compiled at once (MAX_JOBS); ``threads``: targets of one source at once (nvcc --threads)."""

    jobs: int
    threads: int
    reason: str


def choose(limits: Limits, memory_per_process: int, targets: int, wanted: int | None = None) -> Parallel:
    """The parallelism for a build. ``targets``: GPU targets of one source. ``wanted`` overrides the number of jobs.

    One source for several targets runs a compiler for each, so threads are chosen first: they share the front end's
    work. There is always one job, because a build that may fail for memory tells more than no build.
    """
    cpus = max(1, int(limits.cpus))
    by_memory = max(1, limits.memory_free // memory_per_process)
    room = min(cpus, by_memory)
    threads = max(1, min(targets, 4, room))
    if wanted:
        return Parallel(wanted, threads, "as set")
    jobs = max(1, room // threads)
    free, each = (
        f"{limits.memory_free / GIB:.1f} GiB free",
        f"{memory_per_process / GIB:.1f} GiB for each compiler process",
    )
    return Parallel(jobs, threads, f"{cpus} processors, {free}, {each}")


def read_limits(root: str = "/sys/fs/cgroup", meminfo: str = "/proc/meminfo") -> Limits:
    """The limits of the cgroup that this process is in, as a container sees it."""
    available = _available(meminfo)
    limit = _smallest(_number(f"{root}/memory.max"), _number(f"{root}/memory/memory.limit_in_bytes"))
    used = _number(f"{root}/memory.current") or _number(f"{root}/memory/memory.usage_in_bytes") or 0
    cache = _stat(f"{root}/memory.stat", "inactive_file") or _stat(f"{root}/memory/memory.stat", "total_inactive_file")
    free = available if limit is None else min(available, limit - max(0, used - cache))
    return Limits(limit, max(0, free), _cpus(root))


def oom_kills(root: str = "/sys/fs/cgroup") -> int:
    """How many processes the kernel has killed in this cgroup for its memory limit, ever; 0 when it does not say."""
    return _stat(f"{root}/memory.events", "oom_kill") or _stat(f"{root}/memory/memory.oom_control", "oom_kill")


def _cpus(root: str) -> float:
    usable = float(len(os.sched_getaffinity(0)))
    words = _read(f"{root}/cpu.max").split()
    if len(words) != 2:
        words = [_read(f"{root}/cpu/cpu.cfs_quota_us"), _read(f"{root}/cpu/cpu.cfs_period_us")]
    if words[0].isdigit() and words[1].isdigit() and int(words[1]):
        return max(0.1, min(usable, int(words[0]) / int(words[1])))
    return usable


def _available(path: str) -> int:
    """MemAvailable in bytes: the container's where lxcfs is at work, else the node's."""
    for line in _read(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "MemAvailable:" and words[1].isdigit():
            return int(words[1]) * 1024
    return 0


def _smallest(*values: int | None) -> int | None:
    known = [value for value in values if value is not None and value < UNLIMITED]
    return min(known) if known else None


def _number(path: str) -> int | None:
    text = _read(path)
    return int(text) if text.isdigit() else None


def _stat(path: str, name: str) -> int:
    for line in _read(path).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name and words[1].isdigit():
            return int(words[1])
    return 0


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""
