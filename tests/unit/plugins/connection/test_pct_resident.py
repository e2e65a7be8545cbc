# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resident runner and its controller's half with this machine's Python, without a node or a container."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _pct_command, _pct_residence, _pct_runner

TOKEN = "0123456789abcdef"
HOME = os.path.expanduser("~root" if not os.getuid() else "~")
ENVIRONMENT = {**_pct_command.ENVIRONMENT, "HOME": HOME}


def hold_on() -> None:
    raise AssertionError("the runner said nothing for long")


class Runner:
    """A running one."""

    def __init__(self) -> None:
        program = _pct_runner.program(TOKEN, 30)
        result = subprocess.run(
            [sys.executable], input=program, capture_output=True, env=ENVIRONMENT, check=True, timeout=30
        )
        self.path = json.loads(result.stdout)["path"]

    @contextlib.contextmanager
    def conversation(self, token: str = TOKEN) -> Iterator[_pct_runner.Conversation]:
        channel = _pct_residence.SocketChannel(self.path)
        try:
            conversation = _pct_runner.Conversation(channel)
            conversation.greet(token, 20)
            yield conversation
        finally:
            channel.close()

    def python(self, source: str) -> tuple[int, bytes, bytes]:
        with self.conversation() as conversation:
            return conversation.run(b"", _pct_runner.Payload(sys.executable, {}), source.encode(), hold_on)

    def sh(self, command: bytes, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        with self.conversation() as conversation:
            return conversation.run(command, None, stdin, hold_on)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    one = Runner()
    yield one
    with one.conversation() as conversation:
        conversation.dismiss()
    deadline = time.monotonic() + 30
    while Path(one.path).parent.exists():
        assert time.monotonic() < deadline, "a runner that was dismissed stayed"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "source",
    [
        "print('héllo', __name__, __file__)",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('because')",
        "import sys; sys.exit(None)",
        "def f():\n    raise ValueError('no')\nf()",
        "x = = 1",
        "import os; os.write(1, bytes(range(256))); os.write(2, b'\\x80'); os._exit(7)",
        "import atexit; atexit.register(print, 'bye'); print('hi', end='')",
        "import subprocess, sys; sys.exit(subprocess.call(['sh', '-c', 'cat; exit 9']))",
        "import sys; print(repr(sys.stdin.read()), sys.argv, sys.flags)",
        "import signal; print([(n, str(signal.getsignal(n))) for n in sorted(signal.valid_signals())])",
        "import ctypes, decimal, argparse; print(decimal.getcontext(), ctypes.c_int(3))",
    ],
)
def test_a_script_does_what_it_does_in_a_fresh_python(runner: Runner, source: str) -> None:
    fresh = subprocess.run(
        [sys.executable], input=source.encode(), capture_output=True, cwd=HOME, env=ENVIRONMENT, check=False
    )
    assert runner.python(source) == (fresh.returncode, fresh.stdout, fresh.stderr)


def test_a_command_gets_its_stdin_and_its_bytes_come_back(runner: Runner) -> None:
    data = bytes(range(256)) * 5000
    assert runner.sh(b"cat; printf '\\377' >&2; exit 5", data) == (5, data, b"\xff")


def test_what_it_cannot_start_was_not_run(runner: Runner) -> None:
    with pytest.raises(_pct_runner.NoRunner, match="could not start"):
        runner.sh(b"true " + b"x" * 200_000)
    assert runner.sh(b"echo still here") == (0, b"still here\n", b"")


def test_another_runner_is_not_ours(runner: Runner) -> None:
    with pytest.raises(_pct_runner.NoRunner, match="not our runner's"), runner.conversation("another"):
        pass


def test_a_peer_that_goes_away_ends_what_it_started(runner: Runner, tmp_path: Path) -> None:
    with runner.conversation() as conversation:
        request = {"kind": "command", "command": f"echo $$ > {tmp_path}/pid; exec sleep 100"}
        conversation._write(_pct_runner._frame(b"r", json.dumps(request).encode()) + _pct_runner._frame(b"i", b""))
        deadline = time.monotonic() + 30
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    pid = (tmp_path / "pid").read_text().strip()
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "the command goes on"
        time.sleep(0.05)
