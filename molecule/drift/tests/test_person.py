# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from a drift: a person accepts what is wanted, or hands it to provision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

LOCK = "/etc/proxmox_gpu/training.lock.json"
pytestmark = pytest.mark.timeout(300)


def test_what_is_wanted_is_locked_and_the_old_lock_kept(control: Any, tmp_path: Path) -> None:
    before = control.inside(687, f"cat {LOCK}")
    done = control.check(tmp_path, "-l", "ct687", "-e", "drift_accept=true")
    assert done.returncode == 0, done.stdout
    assert json.loads(control.inside(687, f"cat {LOCK}"))["distributions"]["transformers"] == "5.99.0"
    assert control.inside(687, "cat /var/backups/proxmox_gpu/training.lock.json.*") == before


def test_a_host_that_does_not_hold_keeps_its_lock(control: Any, tmp_path: Path) -> None:
    before = control.inside(688, f"cat {LOCK}")
    done = control.check(tmp_path, "-l", "ct688", "-e", "drift_accept=true")
    assert done.returncode == 2
    assert "ct688 keeps its lock, because its chain does not hold" in done.stdout
    assert control.inside(688, f"cat {LOCK}") == before


def test_repair_hands_what_drifted_to_provision(control: Any, tmp_path: Path) -> None:
    done = control.check(tmp_path, "-l", "ct680,ct689", "--tags", "repair")
    assert done.returncode == 0, done.stdout
    assert "cuda-nvcc-13-0" in control.inside(689, "apt-mark showhold")
    provision = done.stdout.partition("PLAY [Provision training hosts]")[2].partition("PLAY ")[0]
    assert "ct689" in provision
    assert "ct680" not in provision
    assert control.night(tmp_path, "-l", "ct680,ct689").returncode == 0
