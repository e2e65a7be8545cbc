# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _lock


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lock, "POLL", 0.01)


def test_a_lock_that_stays_taken_is_given_up(tmp_path: Path) -> None:
    waits: list[None] = []
    with open(tmp_path / "lock", "a") as one, open(tmp_path / "lock", "a") as other:
        assert _lock.acquired(one, 0.0)
        assert not _lock.acquired(other, 0.05, lambda: waits.append(None))
    assert waits


def test_a_lock_is_taken_over_when_its_holder_is_gone(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "a") as other:
        one = open(tmp_path / "lock", "a")  # noqa: SIM115
        assert _lock.acquired(one, 0.0)
        assert _lock.acquired(other, 20.0, one.close)
