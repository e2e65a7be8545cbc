# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What breaks between a controller and a container, each fault provoked for real: the right outcome, and no hang."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from testbed import pve_files
from tests import prepared
from tests.integration.box import CHECKOUT, Box, Container
from tests.integration.connection_link import Link, links

VMID = 315
pytestmark = pytest.mark.timeout(600)
QUICK = 30  # seconds, on a loaded machine, for what must not hang: the tasks themselves take 100

both = pytest.mark.parametrize("runner", [True, False], ids=["resident", "plain"])


@pytest.fixture
def guest(box: Box) -> Iterator[Container]:
    container = box.container(VMID)
    yield container.fresh("--from", prepared.snapshot("python"))
    box.node("sh", "-c", f"lxc-unfreeze -n {VMID}")
    box.testbed("up")
    box.testbed("remove", str(VMID), check=False)


@pytest.fixture
def connect(box: Box) -> Iterator[Any]:
    with links(box) as link:
        yield link


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


# --- the container


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


# --- the link


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


# --- room


@both
def test_a_full_node_is_no_obstacle(box: Box, guest: Container, connect: Any, runner: bool, tmp_path: Path) -> None:
    """Nothing is ever put on the node."""
    folders = "/tmp /var/tmp"
    box.node("sh", "-c", f"for d in {folders}; do mount -t tmpfs -o size=4k none $d; cat /dev/zero > $d/x; done")
    try:
        link = established(connect, guest.vmid, runner)
        (tmp_path / "file").write_bytes(os.urandom(3_000_000))
        link.put(tmp_path / "file", "/root/file")
        link.fetch("/root/file", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()
    finally:
        box.node("sh", "-c", f"umount {folders}")


@both
@pytest.mark.parametrize("size", [200_000, 50_000_000])
def test_a_full_container_keeps_the_old_file(
    guest: Container, connect: Any, runner: bool, size: int, tmp_path: Path
) -> None:
    link = established(connect, guest.vmid, runner)
    link.out("mkdir /small && mount -t tmpfs -o size=100k none /small && echo old > /small/file")
    (tmp_path / "file").write_bytes(os.urandom(size))
    with pytest.raises(AnsibleError, match="writing failed .*No space left on device"):
        link.put(tmp_path / "file", "/small/file")
    assert link.out("ls -A /small; cat /small/file") == b"file\nold\n"


# --- time


@both
def test_a_command_that_says_nothing_for_90_seconds(guest: Container, connect: Any, runner: bool) -> None:
    link = established(connect, guest.vmid, runner)
    assert link.sh("sleep 90; echo done") == (0, b"done\n", b"")


TIMED_OUT = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Too slow
      ansible.builtin.command: sleep 104
      timeout: 3
"""


@both
def test_a_task_that_ansible_gives_up_is_ended_inside(box: Box, guest: Container, runner: bool) -> None:
    play = TIMED_OUT if runner else TIMED_OUT.replace("command", "raw")
    result = box.run_playbook(play, limit=guest.host, extra_vars={"pct_runner": runner})
    assert "imed out" in result.output or "timeout" in result.output.lower()
    wait_for(lambda: not runs_inside(box, "sleep 104"), "the task's process is ended")


@both
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_worker_that_dies_leaves_nothing_running(
    box: Box, guest: Container, runner: bool, name: str, tmp_path: Path
) -> None:
    (tmp_path / "play.yml").write_text(TIMED_OUT.replace("timeout: 3", "timeout: 600"))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(box.inventory), "-l", guest.host]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "tree")}
    with open(tmp_path / "log", "w") as log:
        play = subprocess.Popen(
            [*command, "-e", f"pct_runner={runner}", str(tmp_path / "play.yml")],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(lambda: runs_inside(box, "sleep 104"), "the task runs")
            for worker in Path(f"/proc/{play.pid}/task/{play.pid}/children").read_text().split():
                os.kill(int(worker), getattr(signal, name))
            wait_for(lambda: not runs_inside(box, "sleep 104"), "the task's process is ended")
        finally:
            play.kill()
            play.wait()


# --- many at once


@both
def test_twenty_at_once(guest: Container, connect: Any, runner: bool) -> None:
    established(connect, guest.vmid, runner)
    some = [connect(guest.vmid, pct_runner=runner) for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda pair: pair[1].sh(f"sleep 0.5; echo {pair[0]}"), enumerate(some)))
    assert results == [(0, f"{number}\n".encode(), b"") for number in range(20)]


# --- pct


def test_an_old_pct_without_keep_env(box: Box, guest: Container, connect: Any) -> None:
    settings = box.layout.state / "standin.json"
    before = settings.read_text()
    try:
        box.testbed("standin", "--imitate", "5.0.8", "--startup", "0")
        refused = box.node("pct", "exec", guest.vmid, "--keep-env", "0", "--", "true")
        assert refused.returncode != 0
        link = connect(guest.vmid, ansible_user="ansible", pct_method="pct", pct_runner=False)
        assert b"HOME=/root\n" in link.out("env")
        assert link.out("printf %s 'ünï'").decode() == "ünï"
    finally:
        settings.write_text(before)


# --- secrets


def test_nothing_of_the_nodes_environment_is_visible_inside(box: Box, guest: Container, connect: Any) -> None:
    inventory_args = connect(guest.vmid).plugin.get_option("ssh_common_args")
    for method, login in (("lxc-attach", "root"), ("pct", "root"), ("pct", "ansible"), ("lxc-attach", "operator")):
        link = connect(
            guest.vmid,
            pct_method=method,
            ansible_user=login,
            pct_runner=False,
            ansible_ssh_common_args=f"{inventory_args} -o SetEnv=LC_SECRET=hypervisor",
        )
        seen = link.out("cat /proc/self/environ /proc/$PPID/environ 2>/dev/null; env")
        assert b"hypervisor" not in seen
        assert b"SSH_" not in seen
        assert b"SUDO_" not in seen


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """For control sockets, whose names have room for 72 bytes of folder: pytest's own are longer on some machines."""
    with tempfile.TemporaryDirectory(prefix="pct-") as folder:
        yield Path(folder)


def test_no_password_or_key_is_shown(box: Box, guest: Container, tmp_path: Path, short_folder: Path) -> None:
    password = "correct-horse-battery-staple"
    box.node("sh", "-c", f"echo root:{password} | chpasswd; grep ^root: /etc/shadow")
    port = box.layout.first_port + 900
    server = f"/usr/sbin/sshd -p {port} -o PidFile=/run/sshd2.pid -o PasswordAuthentication=yes -o PermitRootLogin=yes"
    assert box.node("sh", "-c", server + " -o UsePAM=no").returncode == 0
    try:
        key = (box.layout.client / "known_hosts").read_text().split(maxsplit=1)[1]
        (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {key}")
        variables: dict[str, object] = {
            "ansible_port": port,
            "ansible_password": password,
            "ansible_ssh_private_key_file": "",
            "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={tmp_path}/known -o IdentityFile=none",
            "ansible_control_path_dir": str(short_folder / "cp"),
            "ansible_ssh_password_mechanism": "sshpass",
        }
        play = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy: {content: "x", dest: /root/by_password}
    - ansible.builtin.shell: sleep 2; id -u
"""
        seen = []
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            (tmp_path / "vars.json").write_text(json.dumps(variables))
            arguments = ["-vvvv", "-e", f"@{tmp_path}/vars.json"]
            running = pool.submit(box.run_playbook, play, limit=guest.host, arguments=arguments)
            while not running.done():
                seen.append(subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout)
                time.sleep(0.1)
        result = running.result()
        assert result.rc == 0, result.output
        assert [line for line in [*result.output.splitlines(), *"".join(seen).splitlines()] if password in line] == []
        assert (box.layout.client / "id_ed25519").read_text().splitlines()[1] not in result.output
    finally:
        box.node("sh", "-c", "kill $(cat /run/sshd2.pid); passwd -l root")
        for path in (short_folder / "cp").glob("pct-*-0"):
            subprocess.run(["ssh", "-S", str(path), "-O", "exit", "node"], capture_output=True, check=False)
