# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nightly command: its status is the fleet's, and where there is no whole report of tonight it is unknown."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = Path(__file__).resolve().parents[3] / "roles" / "drift_timer" / "files" / "drift_night.py"
#: What stands for ansible-playbook: it writes the report whose exit is in EXIT, and ends as ansible-playbook would.
FAKE = """#!/usr/bin/env python3
import datetime, json, os, sys, time
print("PLAY [all]"); print("ERROR! the inventory is odd")
state = json.loads(sys.argv[sys.argv.index("--extra-vars") + 1])["drift_check_path"]
time.sleep(float(os.environ.get("SLEEP", "0")))
if os.environ.get("EXIT"):
    made = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    open(state + "/report.txt", "w").write("2 hosts: 1 drifted (ct1), 1 ok.\\n  ct1 ...\\n")
    open(state + "/report.json", "w").write(json.dumps({"exit": int(os.environ["EXIT"]), "generated": made}))
sys.exit(2)
"""


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    path = tmp_path / "ansible-playbook"
    path.write_text(FAKE)
    path.chmod(0o755)
    return path


def command(state: Path, playbook: Path | str, *arguments: str) -> list[str]:
    return [sys.executable, str(COMMAND), "--state", str(state), "--ansible-playbook", str(playbook), *arguments]


def night(state: Path, playbook: Path | str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(state, playbook, *arguments),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("status", [0, 2, 3, 4])
def test_the_status_is_the_reports(tmp_path: Path, playbook: Path, status: int) -> None:
    done = night(tmp_path / "state", playbook, EXIT=str(status))
    assert done.returncode == status
    assert (done.stdout == "") is (status == 0)
    assert done.stderr == ""


@pytest.mark.parametrize("old", [None, "{", '{"exit": 0, "generated": "2020-01-01T00:00:00+00:00"}', '{"exit": 1}'])
def test_no_report_of_tonight_is_unknown(tmp_path: Path, playbook: Path, old: str | None) -> None:
    if old:
        (tmp_path / "report.json").write_text(old)
    done = night(tmp_path, playbook)
    assert done.returncode == 3
    assert "the inventory is odd" in done.stderr
    assert "run.log" in done.stderr


def test_a_check_that_takes_too_long_is_ended(tmp_path: Path, playbook: Path) -> None:
    done = night(tmp_path, playbook, "--timeout", "0.5", SLEEP="20", EXIT="0")
    assert done.returncode == 3
    assert "did not end within 0.5 seconds" in done.stderr


def test_one_at_a_time(tmp_path: Path, playbook: Path) -> None:
    with open(tmp_path / "night.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = night(tmp_path, playbook, EXIT="0")
    assert done.returncode == 3
    assert "Another drift check is running" in done.stderr


def test_what_it_started_ends_with_it(tmp_path: Path, playbook: Path) -> None:
    process = subprocess.Popen(
        command(tmp_path, playbook), env={**os.environ, "SLEEP": "60"}, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 20
    while not (tmp_path / "run.log").exists() or "PLAY" not in _commands(str(playbook)):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 128 + signal.SIGTERM
    assert _commands(str(playbook)) == ""


def _commands(name: str) -> str:
    """ "PLAY" while a process of this program runs."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if name.encode() in words[:2]:
            return "PLAY"
    return ""


def test_arguments_reach_the_playbook(tmp_path: Path) -> None:
    printer = tmp_path / "printer"
    printer.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/words\n")
    printer.chmod(0o755)
    night(tmp_path / "state", printer, "--", "-i", "a b", "-l", "x")
    words = (tmp_path / "words").read_text().splitlines()
    assert words[:4] == ["-i", "a b", "-l", "x"]
    assert json.loads(words[5]) == {"drift_check_path": str(tmp_path / "state")}


@pytest.mark.parametrize(("arguments", "status"), [(["--timeout", "soon"], 64), (["--nonsense"], 64)])
def test_wrong_arguments_are_no_drift(tmp_path: Path, playbook: Path, arguments: list[str], status: int) -> None:
    assert night(tmp_path, playbook, *arguments).returncode == status


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    done = night(tmp_path, "no-such-program")
    assert done.returncode == 3
    assert "name it with --ansible-playbook" in done.stderr
