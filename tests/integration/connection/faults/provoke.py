# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of faults share: a task in the background, what runs where, and cutting the links."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.box import Box
from tests.integration.connection.link import Link

VMID = 315
QUICK = 30  # seconds, on a loaded machine, for what must not hang: the tasks themselves take 100

both = pytest.mark.parametrize("runner", [True, False], ids=["resident", "plain"])


def established(connect: Any, vmid: int | str, runner: bool, **variables: object) -> Link:
    link: Link = connect(vmid, pct_runner=runner, **variables)
    assert link.python("print(1)") == (0, b"1\n", b"")
    return link


class Background:
    """A call in another thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._future = self._pool.submit(call)

    def result(self, timeout: float = QUICK) -> Any:
        try:
            return self._future.result(timeout)
        finally:
            self._pool.shutdown(wait=False)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = QUICK) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def runs_inside(box: Box, words: str) -> bool:
    """Whether a process whose command line holds these words runs in the container."""
    script = f"for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -q '^{words}' && echo yes; done"
    return "yes" in box.attach(VMID, script).stdout


def session_processes(box: Box) -> list[str]:
    """The node's sshd processes that serve a connection."""
    listener = box.node("cat", "/run/sshd.pid").stdout.strip()
    return box.node("cat", f"/proc/{listener}/task/{listener}/children").stdout.split()


def cut_links(box: Box) -> None:
    for pid in session_processes(box):
        box.node("kill", "-9", pid)
