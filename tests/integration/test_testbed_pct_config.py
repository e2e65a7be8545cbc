# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in says about containers and how it changes them: status, list, config, start, stop, set, locks."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable

import pytest

from testbed import namespaces, up
from tests.integration.box import Box, Completed, Container

pytestmark = pytest.mark.usefixtures("quick_pct")


# --- status, list, config, start, stop


def test_start_stop_and_what_they_refuse(pct: Callable[..., Completed], fresh: Callable[..., Container]) -> None:
    vmid = fresh(301).vmid
    assert pct("status", vmid).stdout == "status: running\n"
    assert (pct("start", vmid).returncode, pct("start", vmid).stderr) == (255, f"CT {vmid} already running\n")
    assert pct("stop", vmid).returncode == 0
    assert pct("status", vmid).stdout == "status: stopped\n"
    assert (pct("stop", vmid).returncode, pct("stop", vmid).stderr) == (255, f"CT {vmid} not running\n")
    assert pct("start", vmid).returncode == 0
    assert pct("exec", vmid, "--", "hostname").stdout == f"ct{vmid}\n"


def test_a_start_that_fails_says_so(box: Box, pct: Callable[..., Completed], fresh: Callable[..., Container]) -> None:
    vmid = fresh(301, "--stopped").vmid
    with open(box.layout.nodes[0].pve_containers / f"{vmid}.conf", "a") as conf:
        conf.write("lxc.mount.entry: /no/such/place mnt none bind 0 0\n")
    result = pct("start", vmid)
    assert result.returncode == 255
    assert result.stderr.endswith(f"startup for container '{vmid}' failed\n")


def test_list_and_config(pct: Callable[..., Completed], guest: Container) -> None:
    lines = pct("list").stdout.splitlines()
    assert lines[0] == "VMID       Status     Lock         Name                "
    assert f"{guest.vmid:<10} running    {'':<12} ct{guest.vmid:<18}" in lines
    assert any(line.startswith("202        stopped ") for line in lines)
    config = pct("config", guest.vmid).stdout.splitlines()
    assert config == sorted(config)
    assert f"hostname: ct{guest.vmid}" in config


# --- set: limits that the container sees, devN


def limit_inside(container: Container) -> int:
    return int(
        container.run("cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; true")
    )


def test_memory_and_cores_take_effect_at_once(pct: Callable[..., Completed], fresh: Callable[..., Container]) -> None:
    container = fresh(301, "--memory", "700", "--cores", "1")
    assert limit_inside(container) == 700 * 2**20
    assert container.run("nproc") == "1\n"
    assert pct("set", container.vmid, "--memory", "512").returncode == 0
    assert limit_inside(container) == 512 * 2**20
    pct("stop", container.vmid)
    pct("start", container.vmid)
    assert limit_inside(container) == 512 * 2**20


def test_a_device_is_plugged_in_and_changes_wait(
    pct: Callable[..., Completed], fresh: Callable[..., Container]
) -> None:
    container = fresh(301)
    show = "stat -c '%F %t:%T %a %u:%g' /dev/net/tun"
    assert container.attach("test -e /dev/net/tun").returncode == 1
    given = "/dev/net/tun,uid=33,gid=44,mode=0640,deny-write=1"
    assert pct("set", container.vmid, "--dev0", given).returncode == 0
    assert container.run(show) == "character special file a:c8 640 33:44\n"
    assert pct("set", container.vmid, "--dev0", "/dev/net/tun").returncode == 0
    assert container.run(show) == "character special file a:c8 640 33:44\n"
    assert f"dev0: {given}" in pct("config", container.vmid, "--current").stdout
    assert "dev0: /dev/net/tun\n" in pct("config", container.vmid).stdout
    pct("stop", container.vmid)
    assert pct("start", container.vmid).returncode == 0
    assert container.run(show) == "character special file a:c8 660 0:0\n"
    assert pct("set", container.vmid, "--delete", "dev0").returncode == 0
    assert container.exists("/dev/net/tun")
    pct("stop", container.vmid)
    pct("start", container.vmid)
    assert not container.exists("/dev/net/tun")


def test_an_older_version_plugs_nothing_in(
    box: Box, pct: Callable[..., Completed], fresh: Callable[..., Container]
) -> None:
    container = fresh(301)
    up.write_standin_settings(box.layout, startup=0, version="5.2.0")
    pct("set", container.vmid, "--dev0", "/dev/net/tun")
    assert not container.exists("/dev/net/tun")
    assert "[pve:pending]\ndev0: /dev/net/tun\n" in box.node("cat", f"/etc/pve/lxc/{container.vmid}.conf").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--dev0", "/dev/nosuch"], 255, "Device /dev/nosuch does not exist"),
        (["--dev0", "/dev/net/tun,mode=660"], 2, "dev0.mode: value does not match the regex pattern"),
        (["--dev0", "/etc/passwd"], 2, "dev0.path: Path must be a valid path beginning with /dev/"),
        (["--memory", "lots"], 2, "memory: type check ('integer') failed - got 'lots'"),
        (["--nosuch", "1"], 2, "Unknown option: nosuch"),
        (["--delete", "dev5"], 0, "cannot delete 'dev5' - not set in current configuration!"),
    ],
)
def test_set_refuses(
    pct: Callable[..., Completed], guest: Container, arguments: list[str], code: int, text: str
) -> None:
    result = pct("set", guest.vmid, *arguments)
    assert result.returncode == code
    assert text in result.stderr


# --- locks


def test_a_lock_in_the_config_stops_set_but_not_exec(
    box: Box, pct: Callable[..., Completed], fresh: Callable[..., Container]
) -> None:
    vmid = fresh(301).vmid
    with open(box.layout.nodes[0].pve_containers / f"{vmid}.conf", "a") as conf:
        conf.write("lock: backup\n")
    refused = pct("set", vmid, "--memory", "900")
    assert (refused.returncode, refused.stderr) == (255, "CT is locked (backup)\n")
    assert pct("exec", vmid, "--", "true").returncode == 0
    assert pct("push", vmid, "/etc/hostname", "/root/x").returncode == 0
    assert pct("status", vmid).stdout == "status: running\n"
    assert f"{vmid:<10} running    backup " in pct("list").stdout
    assert pct("unlock", vmid).returncode == 0
    assert pct("set", vmid, "--memory", "900").returncode == 0


def test_push_waits_ten_seconds_for_the_flock_and_exec_does_not(
    box: Box, pct: Callable[..., Completed], guest: Container
) -> None:
    path = f"/run/lock/lxc/pve-config-{guest.vmid}.lock"
    holder = subprocess.Popen(
        namespaces.enter_command(box.layout.nodes[0], ["flock", path, "cat"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=namespaces.ENVIRONMENT,
    )
    try:
        while box.node("flock", "-n", path, "true").returncode == 0:
            time.sleep(0.05)
        assert pct("exec", guest.vmid, "--", "true").returncode == 0
        started = time.monotonic()
        result = pct("push", guest.vmid, "/etc/hostname", "/root/x")
        assert 9.5 < time.monotonic() - started < 15
        assert result.returncode == 4
        assert result.stderr == f"trying to acquire lock...\ncan't lock file '{path}' - got timeout\n"
    finally:
        holder.communicate(timeout=10)  # cat ends with its input, and the lock with it


# --- .vmlist and who may


def test_vmlist_tells_where_each_guest_is(box: Box, guest: Container) -> None:
    shown = box.node("sh", "-c", "stat -c '%a %U:%G' /etc/pve/.vmlist; cat /etc/pve/.vmlist").stdout
    rights, text = shown.split("\n", 1)
    assert rights == "440 root:www-data"
    vmlist = json.loads(text)
    assert vmlist["ids"][guest.vmid].keys() == {"node", "type", "version"}
    assert vmlist["ids"][guest.vmid]["node"] == "pve1"
    assert vmlist["ids"][guest.vmid]["type"] == "lxc"
    assert vmlist["version"] >= vmlist["ids"][guest.vmid]["version"]


def test_the_unprivileged_login_may_pct_by_sudo_and_nothing_else(box: Box, guest: Container) -> None:
    def ssh(command: str) -> Completed:
        return box.node_ssh(command, user="ansible")

    assert ssh(f"sudo -n pct exec {guest.vmid} -- id -u").stdout == "0\n"
    for command in (
        "sudo -n id",
        f"sudo -n lxc-attach -n {guest.vmid} -- true",
        "cat /etc/shadow",
        "cat /etc/pve/.vmlist",
    ):
        assert ssh(command).returncode != 0, command
    assert ssh(f"/usr/sbin/pct exec {guest.vmid} -- true").stderr == "please run as root\n"


def test_the_operator_may_attach_by_sudo(box: Box, guest: Container) -> None:
    command = f"sudo -n lxc-attach -n {guest.vmid} --clear-env -- sh -c {shlex.quote('echo $container')}"
    assert box.node_ssh(command, user="operator").stdout == "lxc\n"
