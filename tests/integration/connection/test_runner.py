# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resident runner: who may use it, when it goes, and what takes the way without it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests import prepared
from tests.integration.box import Box, Container
from tests.integration.connection.link import VMID, Link, links

pytestmark = pytest.mark.timeout(600)


def test_the_runner_is_for_root_alone(guest: Container, connect: Any) -> None:
    resident = connect(guest.vmid)
    resident.python("pass")
    folders = guest.run("ls -d /run/pct_exec-*").split()
    assert folders
    for folder in folders:
        assert guest.run(f"stat -c '%U %a' {folder}") == "root 700\n"
    attempt = "import socket, glob; s = socket.socket(socket.AF_UNIX); s.connect(FOLDER + '/s')"
    command = f'python3 -c "{attempt.replace("FOLDER", repr(folders[0]))}"'
    refused = guest.attach(f"su -s /bin/sh nobody -c {shlex.quote(command)}")
    assert "PermissionError" in refused.stderr


@pytest.fixture
def alone(box: Box) -> Iterator[Link]:
    """A connection with the runner, to a container that no other test uses."""
    container = box.container(VMID + 1).fresh("--from", prepared.snapshot("python"))
    with links(box) as link:
        yield link(container.vmid, pct_runner_idle=2)
    box.testbed("remove", container.vmid)


def runner_goes(box: Box, vmid: str) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if box.attach(vmid, "ls -d /run/pct_exec-* || grep -l ^/usr/bin/python3 /proc/[0-9]*/cmdline").returncode:
            return True
        time.sleep(0.3)
    return False


def test_reset_makes_the_runner_go(box: Box, alone: Link) -> None:
    alone.plugin.set_option("runner_idle", 300)
    alone.python("pass")
    before = alone.resident
    alone.plugin.reset()
    assert (before, alone.resident) == (True, False)
    assert runner_goes(box, alone.vmid)
    assert alone.python("print(1)") == (0, b"1\n", b"")


def test_the_runner_goes_when_nothing_is_asked(box: Box, alone: Link) -> None:
    alone.python("pass")
    assert runner_goes(box, alone.vmid)
    assert alone.python("print(2)") == (0, b"2\n", b"")


def test_an_upgraded_python_is_never_run_by_the_old_one(box: Box, alone: Link) -> None:
    first = alone.python("import os; print(os.getppid())")
    box.attach(alone.vmid, "cp -p /usr/bin/python3.11 /usr/bin/p && mv /usr/bin/p /usr/bin/python3.11")
    second = alone.python("import os; print(os.getppid())")
    assert (first[0], second[0]) == (0, 0)
    assert runner_goes(box, alone.vmid)


def test_a_runner_that_was_killed_is_replaced(box: Box, alone: Link) -> None:
    alone.python("pass")
    box.attach(alone.vmid, "kill -9 $(grep -l '^python3\\|/usr/bin/python3' /proc/[0-9]*/cmdline | cut -d/ -f3)")
    assert alone.python("print(3)") == (0, b"3\n", b"")
    assert alone.out("echo 4") == b"4\n"


def test_a_runner_that_answers_no_more_is_passed_by(box: Box, alone: Link) -> None:
    alone.python("pass")
    box.attach(alone.vmid, "kill -STOP $(grep -l '^/usr/bin/python3' /proc/[0-9]*/cmdline | cut -d/ -f3)")
    started = time.monotonic()
    assert alone.python("print(5)") == (0, b"5\n", b"")
    assert alone.out("echo 6") == b"6\n"
    assert time.monotonic() - started < 40


def test_another_python_takes_the_plain_way(box: Box, alone: Link) -> None:
    alone.python("pass")
    box.attach(alone.vmid, "cp /usr/bin/python3.11 /usr/local/bin/mypython")
    command = "/bin/sh -c /usr/local/bin/mypython"
    assert alone.plugin.exec_command(command, b"import sys; print(sys.executable)")[1] == b"/usr/local/bin/mypython\n"


def test_a_container_without_python_is_reached_all_the_same(box: Box) -> None:
    container = box.container(VMID + 1).fresh()
    try:
        with links(box) as link:
            one = link(container.vmid)
            assert one.python("print(1)")[0] == 127
            assert one.out("echo raw") == b"raw\n"
    finally:
        box.testbed("remove", container.vmid)


def test_a_folder_for_the_socket_that_cannot_be_written_takes_the_plain_way(box: Box, alone: Link) -> None:
    box.attach(alone.vmid, "mount -t tmpfs -o ro none /run; mount -t tmpfs -o ro none /tmp")
    assert alone.python("print(7)") == (0, b"7\n", b"")
