# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a disk that becomes full, and of a wheelhouse that takes nothing. Real ones: tests/integration."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _extension_job, _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import describe
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_state import JobError, Wish


class Disk:
    def __init__(self, free: int) -> None:
        self.free = free


@pytest.fixture
def job(tmp_path: Path) -> Any:
    made = _extension_job.Job.__new__(_extension_job.Job)
    for name in ("tmp", "logs", "state"):
        (tmp_path / name).mkdir()
    made.wish = Wish(
        describe("tiny-gpu-ops", {"compiled": ["tiny_cuda"]}),
        "1.0",
        ("sm_90",),
        "/opt/training",
        tmpdir=str(tmp_path / "tmp"),
        logs=str(tmp_path / "logs"),
        wheelhouse=str(tmp_path / "house"),
    )
    made.state = str(tmp_path / "state")
    return made


@pytest.mark.parametrize(
    ("full", "ending"),
    [
        ("tmp", "/tmp is on became full: free space, or set cuda_extensions_tmpdir to a larger disk"),
        ("logs", "/logs is on became full: free space, or set cuda_extensions_log_path to a larger disk"),
        ("state", "/state is on became full: free space"),
        ("none by now", "/tmp is on became full: free space, or set cuda_extensions_tmpdir to a larger disk"),
    ],
)
def test_the_disk_that_is_full_is_named(job: Any, full: str, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        _extension_job.shutil, "disk_usage", lambda place: Disk(4096 if place.endswith(f"/{full}") else 1 << 40)
    )
    error = job._full()
    assert error.id == "no_space"
    assert str(error).startswith("tiny-gpu-ops 1.0: the disk that /")
    assert str(error).endswith(ending)


def test_a_wheelhouse_that_takes_no_wheel_is_named(job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_wheelhouse, "publish", full)
    wheel = tmp_path / "tiny.whl"
    wheel.write_bytes(b"x" * (3 << 20))
    with pytest.raises(JobError, match=r"the wheel of 3.0 MiB cannot be put into .*/house: No space left on device;"):
        job._publish(None, str(wheel))
