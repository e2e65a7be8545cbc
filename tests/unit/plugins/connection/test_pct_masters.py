# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions are dealt out among processes so that sshd's limits are kept."""

from __future__ import annotations

import collections
import multiprocessing
import os
import socket
import time
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _pct_masters

# Each process does one thing and ends; pytest-timeout's thread is of no concern to it.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

FORK = multiprocessing.get_context("fork")
LISTENERS: list[socket.socket] = []


def masters(folder: Path, sessions: int = 8, starts: int = 4) -> _pct_masters.Masters:
    return _pct_masters.Masters(str(folder), "0123456789", "9876543210", sessions, starts)


def listen(path: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(100)
    LISTENERS.append(listener)


def worker(folder: Path, log: Path, go: object, done: object) -> None:
    def start(path: str) -> None:
        begin = time.monotonic()
        time.sleep(0.05)
        listen(path)
        write(log, f"start {os.path.basename(path)} {begin} {time.monotonic()}")

    with masters(folder).session(start) as path:
        write(log, f"session {os.path.basename(path)}")
        done.wait(30)  # type: ignore[attr-defined]


def write(log: Path, line: str) -> None:
    with open(log, "a") as file:
        file.write(line + "\n")


def test_fifty_at_once_use_seven_masters_and_each_is_started_once(tmp_path: Path) -> None:
    barrier = FORK.Barrier(51)
    done = FORK.Event()
    log = tmp_path / "log"
    workers = [FORK.Process(target=worker, args=(tmp_path, log, barrier, done)) for _ in range(50)]
    for one in workers:
        one.start()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and (not log.exists() or log.read_text().count("session") < 50):
        time.sleep(0.05)
    lines = log.read_text().splitlines()
    done.set()
    for one in workers:
        one.join(30)
    sessions = collections.Counter(line.split()[1] for line in lines if line.startswith("session"))
    starts = [line.split() for line in lines if line.startswith("start")]
    assert sum(sessions.values()) == 50
    assert max(sessions.values()) == 8
    assert len(sessions) == len(starts) == len({start[1] for start in starts}) == 7
    times = [(float(start[2]), float(start[3])) for start in starts]
    assert max(sum(a <= begin < b for a, b in times) for begin, _end in times) <= 4


def test_one_after_the_other_share_one_master(tmp_path: Path) -> None:
    started: list[str] = []

    def start(path: str) -> None:
        started.append(path)
        listen(path)

    for _ in range(5):
        with masters(tmp_path).session(start) as path:
            assert path == masters(tmp_path).socket(0)
    assert started == [masters(tmp_path).socket(0)]
    assert masters(tmp_path).sockets() == started


def test_a_stale_socket_is_started_again(tmp_path: Path) -> None:
    path = masters(tmp_path).socket(0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
    assert not _pct_masters.is_alive(path)

    def start(path: str) -> None:
        os.unlink(path)
        listen(path)

    with masters(tmp_path).session(start):
        assert _pct_masters.is_alive(path)


def failing(folder: Path, results: object) -> None:
    def start(path: str) -> None:
        time.sleep(0.5)
        raise ConnectionError("no route to the node")

    began = time.monotonic()
    try:
        with masters(folder).session(start):
            pass
    except _pct_masters.StartFailed as error:
        results.put(("waited", str(error), time.monotonic() - began))  # type: ignore[attr-defined]
    except ConnectionError as error:
        results.put(("tried", str(error), time.monotonic() - began))  # type: ignore[attr-defined]


def test_those_who_wait_for_a_login_that_fails_fail_with_it(tmp_path: Path) -> None:
    results = FORK.Queue()
    workers = [FORK.Process(target=failing, args=(tmp_path, results)) for _ in range(8)]
    for one in workers:
        one.start()
    found = [results.get(timeout=30) for _ in workers]
    for one in workers:
        one.join(30)
    assert {message for _kind, message, _time in found} == {"no route to the node"}
    assert sum(kind == "tried" for kind, _message, _time in found) < 8
    with pytest.raises(ConnectionError), masters(tmp_path).session(_raise):
        pass


def _raise(path: str) -> None:
    raise ConnectionError("later ones try for themselves")
