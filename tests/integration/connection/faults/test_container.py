# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container that is stopped, restarted, removed, moved or frozen, before a task and during it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from testbed import pve_files
from tests.integration.box import Box, Container
from tests.integration.connection.faults.provoke import (
    QUICK,
    VMID,
    Background,
    both,
    established,
    runs_inside,
    wait_for,
)

pytestmark = pytest.mark.timeout(600)


def test_stopped_before(box: Box, guest: Container, connect: Any) -> None:
    box.node("lxc-stop", "-n", guest.vmid, "-k")
    started = time.monotonic()
    with pytest.raises(AnsibleConnectionFailure, match=f"Container {VMID} on node pve1 is stopped; .*pct start {VMID}"):
        connect(guest.vmid).sh("true")
    assert time.monotonic() - started < QUICK


@both
def test_stopped_before_the_next_task(box: Box, guest: Container, connect: Any, runner: bool) -> None:
    link = established(connect, guest.vmid, runner)
    box.node("lxc-stop", "-n", guest.vmid, "-k")
    with pytest.raises(AnsibleConnectionFailure, match="is stopped"):
        link.python("print(1)")
    with pytest.raises(AnsibleConnectionFailure, match="is stopped"):
        link.put("/etc/hostname", "/tmp/x")


@both
def test_stopped_during_a_task(box: Box, guest: Container, connect: Any, runner: bool) -> None:
    link = established(connect, guest.vmid, runner)
    task = Background(lambda: link.sh("sleep 101"))
    wait_for(lambda: runs_inside(box, "sleep 101"), "the task runs")
    box.node("lxc-stop", "-n", guest.vmid, "-k")
    with pytest.raises(AnsibleConnectionFailure, match=f"{VMID} on node pve1 (was|is) stopped"):
        task.result()


@both
def test_restarted_during_a_task(box: Box, guest: Container, connect: Any, runner: bool) -> None:
    link = established(connect, guest.vmid, runner)
    task = Background(lambda: link.sh("sleep 102"))
    wait_for(lambda: runs_inside(box, "sleep 102"), "the task runs")
    box.node("sh", "-c", f"lxc-stop -n {VMID} -k; lxc-start -n {VMID}")
    with pytest.raises(AnsibleConnectionFailure, match="restarted|lost|stopped"):
        task.result()
    assert link.python("print(2)") == (0, b"2\n", b"")


def test_removed(box: Box, guest: Container, connect: Any) -> None:
    link = established(connect, guest.vmid, True)
    box.testbed("remove", guest.vmid)
    with pytest.raises(AnsibleConnectionFailure, match=f"Container {VMID} does not exist on node pve1"):
        link.sh("true")


@pytest.fixture
def moved(box: Box, guest: Container) -> Iterator[None]:
    """The guest's configuration belongs to node pve2 and nothing of it runs here, as after a migration."""
    box.node("lxc-stop", "-n", guest.vmid, "-k")
    here, there = (box.layout.pve / "nodes" / name / "lxc" / f"{VMID}.conf" for name in ("pve1", "pve2"))
    there.parent.mkdir(parents=True, exist_ok=True)
    here.rename(there)
    pve_files.refresh_vmlist(box.layout.pve)
    hidden = box.node("sh", "-c", f"mv /var/lib/lxc/{VMID}/config /var/lib/lxc/{VMID}/config.away")
    assert hidden.returncode == 0, hidden.stderr
    yield
    box.node("sh", "-c", f"mv /var/lib/lxc/{VMID}/config.away /var/lib/lxc/{VMID}/config")
    there.rename(here)
    there.parent.rmdir()
    there.parent.parent.rmdir()
    pve_files.refresh_vmlist(box.layout.pve)


@pytest.mark.parametrize("login", ["root", "operator", "ansible"])
def test_moved_to_another_node(moved: None, connect: Any, login: str) -> None:
    with pytest.raises(AnsibleConnectionFailure, match=f"Container {VMID} is on node pve2, not on node pve1"):
        connect(VMID, ansible_user=login).sh("true")


def test_a_virtual_machines_id(box: Box, connect: Any) -> None:
    conf = box.layout.pve / "nodes" / "pve1" / "qemu-server" / "399.conf"
    conf.parent.mkdir(exist_ok=True)
    conf.write_text("cores: 1\n")
    vmlist = box.layout.pve / ".vmlist"
    before = vmlist.read_text()
    try:
        text = before.replace('"ids": {', '"ids": {\n"399": { "node": "pve1", "type": "qemu", "version": 1 },', 1)
        pve_files.write_file(vmlist, text, 0o440)
        with pytest.raises(AnsibleConnectionFailure, match="399 is a virtual machine of node pve1, not a container"):
            connect(399).sh("true")
    finally:
        pve_files.write_file(vmlist, before, 0o440)
        conf.unlink()
        conf.parent.rmdir()


def test_no_such_container(box: Box, connect: Any) -> None:
    with pytest.raises(AnsibleConnectionFailure, match="Container 398 does not exist on node pve1"):
        connect(398).sh("true")
    with pytest.raises(AnsibleConnectionFailure, match="Container 398 does not exist on node pve1"):
        connect(398, ansible_user="ansible", pct_method="pct").sh("true")


@both
@pytest.mark.parametrize("login", ["root", "operator"])
def test_frozen_is_noticed_and_nothing_runs_later(
    box: Box, guest: Container, connect: Any, runner: bool, login: str
) -> None:
    link = established(connect, guest.vmid, runner, ansible_user=login)
    box.node("lxc-freeze", "-n", guest.vmid)
    started = time.monotonic()
    with pytest.raises(AnsibleConnectionFailure, match=f"Container {VMID} on node pve1 is frozen; .*lxc-unfreeze"):
        link.sh("touch /tmp/ran_later")
    assert time.monotonic() - started < QUICK
    box.node("lxc-unfreeze", "-n", guest.vmid)
    assert link.sh("sleep 1; test -e /tmp/ran_later")[0] == 1


def test_frozen_behind_pct_ends_in_time(box: Box, guest: Container, connect: Any) -> None:
    link = connect(guest.vmid, ansible_user="ansible", pct_method="pct", pct_attach_timeout=8)
    assert link.out("echo 1") == b"1\n"
    box.node("lxc-freeze", "-n", guest.vmid)
    started = time.monotonic()
    with pytest.raises(AnsibleConnectionFailure, match="is frozen|took no command in time"):
        link.sh("touch /tmp/ran_later")
    assert time.monotonic() - started < 40
    box.node("lxc-unfreeze", "-n", guest.vmid)
    time.sleep(1)
    assert not guest.exists("/tmp/ran_later")


def test_frozen_while_a_task_waits_for_output(box: Box, guest: Container, connect: Any) -> None:
    """A task that is frozen and thawed goes on; the runner's silence alone ends nothing."""
    link = established(connect, guest.vmid, True)
    task = Background(lambda: link.sh("sleep 5; echo woken"))
    wait_for(lambda: runs_inside(box, "sleep 5"), "the task runs")
    box.node("lxc-freeze", "-n", guest.vmid)
    time.sleep(2)
    box.node("lxc-unfreeze", "-n", guest.vmid)
    assert task.result() == (0, b"woken\n", b"")
