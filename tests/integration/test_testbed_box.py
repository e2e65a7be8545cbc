# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The box itself: up, down, repair after kill -9, several side by side, resets and snapshots. In boxes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed import cgroups, client, namespaces, services, state
from testbed.layout import layout
from tests.integration import machine_traces
from tests.integration.box import Box

SELF = f"{layout().state.name}-selftest"  # boxes beside the session's own, so that two sessions do not meet


@pytest.fixture(scope="module")
def own() -> Iterator[Box]:
    """A box that these tests may break."""
    mine = Box(SELF)
    mine.testbed("down")
    mine.testbed("up")
    yield mine
    mine.testbed("down")


@pytest.fixture
def up_again(own: Box) -> Iterator[Box]:
    """The box, and up again for the next test whatever this one did."""
    yield own
    own.testbed("up")


def sshd_pid(box: Box) -> int:
    """Of the listening sshd, as this machine counts processes."""
    node = box.layout.nodes[0]
    port = state.load_ports(box.layout)[node.sshd_port_key]
    pids = cgroups.processes(f"{node.cgroup}/services")
    listening = [pid for pid in pids if b"[listener]" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert services.sshd_runs(node, port)
    return listening[0]


# --- up


def test_up_brings_three_containers_and_a_node(own: Box) -> None:
    status = own.status()
    assert status["up"] is True
    assert {vmid: one["running"] for vmid, one in status["containers"].items()} == {
        "200": True,
        "201": True,
        "202": False,
    }
    assert own.node_ssh("hostname; whoami; echo $HOME").stdout.split() == ["pve1", "root", "/root"]


def test_up_is_idempotent(own: Box) -> None:
    before = (sshd_pid(own), own.attach(200, "cat /proc/sys/kernel/random/boot_id; stat -c %Z /proc/1").stdout)
    inventory = own.inventory.read_text()
    own.testbed("up")
    assert (sshd_pid(own), own.attach(200, "cat /proc/sys/kernel/random/boot_id; stat -c %Z /proc/1").stdout) == before
    assert own.inventory.read_text() == inventory


def test_the_machine_has_no_proxmox_paths(own: Box) -> None:
    assert own.node("ls", "/etc/pve/nodes/pve1/lxc", "/usr/sbin/pct").returncode == 0
    assert not Path("/etc/pve").exists()
    assert not Path("/usr/sbin/pct").exists()
    assert not list(Path("/var/lib/lxc").glob("20[0-2]"))


def test_containers_are_bare(own: Box) -> None:
    missing = own.attach(
        200, "for name in python3 curl wget gpg sudo; do command -v $name; done; ls /usr/share/ca-certificates"
    )
    assert missing.stdout == ""
    assert own.attach(200, "test -x /usr/bin/apt-get && getent passwd root").returncode == 0


def test_containers_start_without_start_up_files_on_the_node(own: Box) -> None:
    assert own.node_ssh("ls -A /root").stdout.split() == [".hushlogin", ".ssh"]


def test_the_inventory_is_ansibles(own: Box) -> None:
    import sys

    tool = Path(sys.executable).parent / "ansible-inventory"
    shown = subprocess.run(
        [str(tool), "-i", str(own.inventory), "--host", "ct200"], capture_output=True, text=True, timeout=60, check=True
    )
    variables = json.loads(shown.stdout)
    assert variables["pct_vmid"] == 200
    assert variables["ansible_connection"] == "proxmox_gpu.training.pct_exec"
    assert variables["cuda_repository_mirror"].startswith("http://127.0.0.1:")
    assert all(
        Path(path).read_text().startswith("-----BEGIN") for path in variables.get("bootstrap_ca_certificates", [])
    )


def test_containers_reach_apt_and_the_machines_pip_folders(own: Box) -> None:
    machine = json.loads((own.layout.state / "machine.json").read_text())
    for folder in machine["local_folders"]:
        inside = own.attach(201, f"ls '{folder}' | head -n 3; touch '{folder}/x' 2>&1").stdout
        assert os.listdir(folder)[0] is not None
        assert "Read-only file system" in inside
    assert (
        own.attach(201, "apt-get -qq update 2>&1 && apt-cache policy python3", timeout=120).stdout.count("Candidate")
        == 1
    )


def test_sshd_has_openssh_defaults(own: Box) -> None:
    shown = own.node("/usr/sbin/sshd", "-T", "-f", "/etc/ssh/sshd_config").stdout
    assert "maxsessions 10\n" in shown
    assert "maxstartups 10:30:100\n" in shown


# --- down


def test_down_leaves_nothing_behind() -> None:
    before = machine_traces.of_machine()
    box = Box(SELF + "-down")
    box.testbed("up", "--containers", "3", "--sshd")
    ports = state.load_ports(box.layout)
    assert machine_traces.of(box.layout, ports), "the traces must be found while it is up"
    # clients of all kinds: a master connection, a command that hangs, a frozen container, a prepared snapshot
    config = ["ssh", "-F", str(box.layout.client / "ssh_config")]
    subprocess.run(
        [*config, "-o", "ControlMaster=yes", "-o", "ControlPersist=300", "-fN", "pve1"], timeout=30, check=True
    )
    hanging = subprocess.Popen([*config, "pve1", "lxc-attach -n 200 -- sleep 1000"], stdin=subprocess.DEVNULL)
    box.node("lxc-freeze", "-n", "201")
    box.testbed("snapshot", "210", "kept")
    box.testbed("down")
    assert hanging.wait(timeout=10) == 255
    assert machine_traces.of(box.layout, ports) == []
    assert machine_traces.of_machine() == before
    assert box.testbed("status", check=False).stdout == f"box {box.layout.state.name}: down\n"
    assert box.testbed("down").returncode == 0, "down is idempotent"


@pytest.mark.parametrize("victim", ["init", "state", "half"])
def test_down_works_from_any_wreck(victim: str) -> None:
    box = Box(SELF + "-wreck")
    box.testbed("up")
    ports = state.load_ports(box.layout)
    if victim == "init":
        pid = namespaces.init_pid(box.layout.nodes[0])
        assert pid
        os.kill(pid, signal.SIGKILL)
    elif victim == "state":  # somebody cleaned up by hand
        subprocess.run(["rm", "-rf", str(box.layout.state)], check=True, timeout=60)
    else:
        (box.layout.state / "ports.json").write_text('{"sshd pve1"')
        os.kill(sshd_pid_by_name(box), signal.SIGKILL)
    box.testbed("down")
    assert machine_traces.of(box.layout, ports) == []


def sshd_pid_by_name(box: Box) -> int:
    pids = cgroups.processes(f"{box.layout.nodes[0].cgroup}/services")
    return next(pid for pid in pids if b"[listener]" in Path(f"/proc/{pid}/cmdline").read_bytes())


# --- repair


def kill_sshd(box: Box) -> None:
    os.kill(sshd_pid(box), signal.SIGKILL)


def kill_init(box: Box) -> None:
    pid = namespaces.init_pid(box.layout.nodes[0])
    assert pid
    os.kill(pid, signal.SIGKILL)


def kill_web(box: Box) -> None:
    for pid in cgroups.processes(f"{box.layout.cgroup}/web"):
        os.kill(pid, signal.SIGKILL)


def kill_container(box: Box) -> None:
    for pid in cgroups.processes(f"{box.layout.nodes[0].cgroup}/lxc/200"):
        os.kill(pid, signal.SIGKILL)


def kill_monitor(box: Box) -> None:
    for pid in cgroups.processes(f"{box.layout.nodes[0].cgroup}/monitor/200"):
        os.kill(pid, signal.SIGKILL)


def start_the_stopped(box: Box) -> None:
    box.node("pct", "start", "202")


def remove_its_config(box: Box) -> None:
    (box.layout.nodes[0].lxc / "200/config").unlink()
    box.node("lxc-stop", "-k", "-n", "201")


@pytest.mark.parametrize(
    "damage", [kill_sshd, kill_init, kill_web, kill_container, kill_monitor, start_the_stopped, remove_its_config]
)
def test_up_repairs(up_again: Box, damage: Callable[[Box], None]) -> None:
    up_again.attach(200, "echo kept > /root/kept")
    damage(up_again)
    deadline = time.monotonic() + 10
    while up_again.is_up():
        assert time.monotonic() < deadline, "the damage must be seen"
    assert up_again.testbed("status", check=False).returncode == 1
    up_again.testbed("up")
    assert up_again.is_up()
    assert up_again.attach(200, "cat /root/kept").stdout == "kept\n"
    assert up_again.node_ssh("pct exec 200 -- hostname").stdout == "ct200\n"


def test_up_takes_another_port_when_its_own_was_taken(up_again: Box) -> None:
    import socket

    node = up_again.layout.nodes[0]
    port = state.load_ports(up_again.layout)[node.sshd_port_key]
    os.kill(sshd_pid(up_again), signal.SIGKILL)
    time.sleep(0.3)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", port))
        thief.listen()
        up_again.testbed("up")
        assert state.load_ports(up_again.layout)[node.sshd_port_key] != port
        assert up_again.node_ssh("hostname").stdout == "pve1\n"


# --- side by side


def test_two_boxes_with_the_same_ids(own: Box) -> None:
    other = Box(SELF + "-other")
    try:
        other.testbed("up")
        own.attach(200, "echo own > /root/whose")
        other.attach(200, "echo other > /root/whose")
        assert own.node_ssh("lxc-attach -n 200 -- cat /root/whose").stdout == "own\n"
        assert other.node_ssh("lxc-attach -n 200 -- cat /root/whose").stdout == "other\n"
        crossed = ["ssh", *client.ssh_options(other.layout), "-p", str(own.status()["node"]["port"])]
        known = ["-o", f"UserKnownHostsFile={own.layout.client / 'known_hosts'}"]
        for options, reason in (([], "Host key verification failed"), (known, "Permission denied")):
            command = [crossed[0], *options, *crossed[1:], "root@127.0.0.1", "true"]
            refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            assert refused.returncode == 255
            assert reason in refused.stderr
    finally:
        other.testbed("down")
    assert own.is_up()


# --- containers


def test_fifty_containers_are_up_in_seconds(own: Box) -> None:
    started = time.monotonic()
    own.testbed("up", "--containers", "50")
    assert time.monotonic() - started < 30
    running = [vmid for vmid, one in own.status()["containers"].items() if one["running"]]
    assert len(running) == 52
    own.testbed("remove", "210-259")
    assert len(own.status()["containers"]) == 3


def test_fresh_takes_everything_back_in_a_second(own: Box) -> None:
    own.attach(200, "echo x > /etc/motd; rm -r /usr/share/doc; mkdir -p /opt/x; echo y > /opt/x/y")
    started = time.monotonic()
    own.testbed("fresh", "200")
    assert time.monotonic() - started < 3
    assert own.attach(200, "ls -d /usr/share/doc /opt/x; cat /etc/motd").stdout.startswith("/usr/share/doc\n")
    assert own.attach(200, "test -e /opt/x").returncode == 1


def test_a_snapshot_starts_others_and_stays_as_it_was(own: Box) -> None:
    own.testbed("fresh", "200")
    own.attach(200, "echo prepared > /root/state; rm /etc/motd")
    own.testbed("snapshot", "200", "prepared")
    assert own.attach(200, "cat /root/state").stdout == "prepared\n", "the container itself goes on"
    own.attach(200, "echo changed > /root/state")
    own.testbed("fresh", "201", "--from", "prepared")
    assert own.attach(201, "cat /root/state; ls /etc/motd").stdout == "prepared\n"
    own.attach(201, "rm /root/state")
    own.testbed("snapshot", "201", "further")
    own.testbed("create", "300", "--from", "further")
    assert own.attach(300, "ls /root/state /etc/motd").stdout == ""
    own.testbed("fresh", "300", "--from", "prepared")
    assert own.attach(300, "cat /root/state; hostname").stdout == "prepared\nct300\n"
    own.testbed("remove", "300")


def test_a_snapshot_that_is_not_there_is_named(own: Box) -> None:
    result = own.testbed("fresh", "201", "--from", "nosuch", check=False)
    assert result.returncode == 1
    assert "There is no snapshot 'nosuch' in this testbed" in result.stderr


def test_a_container_without_network(own: Box) -> None:
    port = own.status()["web"]["port"]
    probe = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
    assert own.attach(201, f"bash -c '{probe}'").returncode == 0
    own.testbed("create", "300", "--no-network")
    assert own.attach(300, f"bash -c '{probe}'").returncode != 0
    assert own.attach(300, "cat /proc/net/dev").stdout.count(":") <= 1
    own.testbed("remove", "300")


def test_a_container_with_its_own_sshd(own: Box) -> None:
    own.testbed("create", "300", "--sshd")
    command = ["ssh", "-F", str(own.layout.client / "ssh_config"), "ssh300", "hostname"]
    deadline = time.monotonic() + 10
    while (result := subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)).returncode:
        assert time.monotonic() < deadline, result.stderr
        time.sleep(0.2)
    assert result.stdout == "ct300\n"
    own.testbed("remove", "300")


def test_orphans_are_reaped(own: Box) -> None:
    own.attach(201, "(sleep 0.1 &) ; true")
    time.sleep(0.5)
    assert "Z" not in own.attach(201, "cat /proc/[0-9]*/stat | cut -d' ' -f3").stdout


# --- refusals


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fresh", "12x"], "is no list of container ids"),
        (["create", "99-101"], "Proxmox counts its containers from 100 on"),
        (["snapshot", "200", "a/b"], "use letters, digits, - and _ only"),
        (["snapshot", "999", "x"], "There is no container 999 in this testbed"),
    ],
)
def test_wrong_arguments_are_one_sentence(own: Box, arguments: list[str], sentence: str) -> None:
    result = own.testbed(*arguments, check=False)
    assert result.returncode != 0
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_only_root_may(own: Box) -> None:
    for verb in ("up", "down", "status", "fresh"):
        arguments = [verb, "200"] if verb == "fresh" else [verb]
        result = subprocess.run(
            ["/usr/bin/python3", "-m", "testbed", *arguments],
            cwd=own.layout.checkout,
            user=65534,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert result.returncode == 1
        assert result.stderr.count("\n") == 1
        assert "root" in result.stderr


def test_a_real_node_is_refused(own: Box) -> None:
    """The box's node looks like a real one, so the testbed must refuse to run in it."""
    result = own.node("sh", "-c", "cd /run/testbed/code && PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m testbed up")
    assert result.returncode == 1
    assert "This machine is a real Proxmox node (/usr/sbin/pct exists)" in result.stderr
