# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proof's steps and its time: what is said, what ends a stage, and what the watchdog hands over."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import archive
from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.progress import Expired, Progress


def test_each_step_is_said_with_its_stage_and_seconds() -> None:
    stream = io.StringIO()
    progress = Progress(60, stream)
    with progress.stage("right"):
        progress.say("packed sequences")
    lines = stream.getvalue().splitlines()
    assert [line.split("] ")[1] for line in lines] == ["right: begins", "right: packed sequences", "right: ends"]
    assert lines[0].startswith("[   0.")


def test_a_stage_past_its_limit_ends_at_the_next_step_and_names_it() -> None:
    progress = Progress(0.05, grace=60)
    wanted = r"right was not done within its 0 s; it was at: the slow one"
    with pytest.raises(Expired, match=wanted), progress.stage("right"):
        progress.step = "the slow one"
        time.sleep(0.06)
        progress.check()


def test_a_stage_takes_a_share_of_what_is_left_and_the_next_one_the_rest() -> None:
    progress = Progress(100)
    with progress.stage("right", 0.6):
        assert progress.share_s == pytest.approx(60, abs=0.5)
    with progress.stage("fast"):
        assert progress.share_s == pytest.approx(100, abs=0.5)


def test_the_watchdog_hands_over_what_a_hanging_step_leaves() -> None:
    handed: list[str] = []
    barked = threading.Event()

    def give_up(reason: str) -> None:
        handed.append(reason)
        barked.set()

    progress = Progress(0.01, None, give_up, grace=0.01)
    with progress.stage("fast"):
        progress.step = "16384 tokens: training"
        assert barked.wait(10)
    assert handed == ["fast was not done within its 0 s; it was at: 16384 tokens: training"]


def test_the_watchdog_of_a_stage_that_ended_is_silent() -> None:
    handed: list[str] = []
    progress = Progress(0.02, None, handed.append, grace=0.02)
    with progress.stage("binding"):
        pass
    time.sleep(0.1)
    assert handed == []


def test_a_stream_that_is_closed_costs_no_proof() -> None:
    stream = io.StringIO()
    stream.close()
    with Progress(60, stream).stage("right"):
        pass


HANGING = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from _fast_path import binding, cli, progress
progress.GRACE_S = 0.1
progress.Progress.__init__.__defaults__ = (900.0, None, None, 0.1)
binding.observe = lambda config, say: time.sleep(60)
sys.exit(cli.main(["--json", "--limit", "1"]))
"""


def test_a_proof_that_hangs_still_answers_and_says_where_it_stood(tmp_path: Path) -> None:
    (tmp_path / "program.zip").write_bytes(archive.build())
    command = [sys.executable, "-I", "-c", HANGING, str(tmp_path / "program.zip")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 3
    assert '"sentence": "Nothing is known: binding was not done within its 1 s' in done.stdout
    # faulthandler's dump names the function that hangs.
    assert "Timeout" in done.stderr and "in <lambda>" in done.stderr
