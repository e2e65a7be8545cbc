# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What breaks between the controller and the node: sshd, its keys, the shared connection, the node itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from tests.integration.box import Box, Container
from tests.integration.connection.faults.provoke import QUICK, Background, both, cut_links, established, wait_for

pytestmark = pytest.mark.timeout(600)


@both
def test_the_nodes_sshd_dies_in_mid_transfer(
    box: Box, guest: Container, connect: Any, runner: bool, tmp_path: Path
) -> None:
    link = established(connect, guest.vmid, runner)
    source = tmp_path / "big"
    with open(source, "wb") as file:
        file.truncate(2 << 30)
    guest.run("echo old > /root/big")
    task = Background(lambda: link.put(source, "/root/big"))
    wait_for(lambda: guest.attach("ls -A /root | grep -q pct_exec").returncode == 0, "the transfer runs")
    cut_links(box)
    with pytest.raises(AnsibleConnectionFailure, match="ssh link to node .* failed during a transfer"):
        task.result()
    wait_for(lambda: guest.attach("ls -A /root | grep pct_exec").returncode != 0, "the temporary file is gone")
    assert guest.run("cat /root/big") == "old\n"
    assert link.out("echo again") == b"again\n"


@both
def test_the_nodes_sshd_dies_during_a_task_which_is_never_run_twice(
    box: Box, guest: Container, connect: Any, runner: bool
) -> None:
    link = established(connect, guest.vmid, runner)
    task = Background(lambda: link.python("open('/root/ran', 'a').write('x')\nimport time; time.sleep(103)"))
    wait_for(lambda: guest.exists("/root/ran"), "the task runs")
    cut_links(box)
    with pytest.raises(AnsibleConnectionFailure):
        task.result()
    assert guest.run("cat /root/ran") == "x"
    sleeping = "for p in /proc/[0-9]*; do test $(readlink $p/exe) = /usr/bin/python3.11 && cat $p/wchan; done"
    wait_for(lambda: "nanosleep" not in guest.attach(sleeping).stdout, "the task's process is ended")
    assert link.python("print(2)") == (0, b"2\n", b"")


@both
def test_a_control_master_that_was_killed(box: Box, guest: Container, connect: Any, runner: bool) -> None:
    link = established(connect, guest.vmid, runner)
    for path in link.plugin.masters.sockets():
        checked = subprocess.run(["ssh", "-S", path, "-O", "check", "node"], capture_output=True, text=True, check=True)
        os.kill(int(checked.stderr.split("pid=")[1].split(")")[0]), signal.SIGKILL)
    assert link.python("print(2)") == (0, b"2\n", b"")
    assert link.out("echo 3") == b"3\n"


def test_a_stale_control_socket(guest: Container, connect: Any) -> None:
    link = connect(guest.vmid, pct_runner=False)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(link.plugin.masters.socket(0))
    assert link.out("echo 1") == b"1\n"
    assert link.out("echo 2") == b"2\n"


def test_a_host_key_that_changed(guest: Container, connect: Any, box: Box, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    real = (box.layout.client / "known_hosts").read_text().split()[0]
    (tmp_path / "known").write_text(f"{real} {(tmp_path / 'other.pub').read_text()}")
    options = f"-F none -o UserKnownHostsFile={tmp_path}/known -o GlobalKnownHostsFile=/dev/null -o BatchMode=yes"
    with pytest.raises(AnsibleConnectionFailure, match="Host key verification failed"):
        connect(guest.vmid, ansible_ssh_common_args=options).sh("true")


def test_a_wrong_key_never_rides_on_another_logins_connection(guest: Container, connect: Any, tmp_path: Path) -> None:
    assert connect(guest.vmid).out("echo 1") == b"1\n"
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", tmp_path / "wrong"], check=True)
    with pytest.raises(AnsibleConnectionFailure, match="Permission denied"):
        connect(guest.vmid, ansible_ssh_private_key_file=str(tmp_path / "wrong")).sh("true")


def test_a_node_that_is_not_there(guest: Container, connect: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        started = time.monotonic()
        with pytest.raises(AnsibleConnectionFailure, match="Failed to connect to the host via ssh"):
            connect(guest.vmid, ansible_port=unused.getsockname()[1]).sh("true")
        assert time.monotonic() - started < QUICK


def test_a_node_whose_perl_is_gone(box: Box, guest: Container, connect: Any) -> None:
    box.node("mount", "--bind", "/dev/null", "/usr/bin/perl")
    try:
        with pytest.raises(AnsibleConnectionFailure, match="did not run perl to enter container"):
            connect(guest.vmid).sh("true")
    finally:
        box.node("umount", "/usr/bin/perl")
