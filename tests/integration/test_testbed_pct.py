# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pct stand-in behaves as the real pct was measured to: texts, exit codes, environment, damage to arguments.

Where the real lxc tools answer (exec's codes, say) these tests hold the tools themselves to what was measured.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from testbed import namespaces, up
from tests.integration.box import Box, Completed, Container

pytestmark = pytest.mark.usefixtures("quick_pct")

UTF8 = {"LC_ALL": "C.UTF-8"}
CLEAR_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="module")
def guest(box: Box) -> Iterator[Container]:
    """One running container for the tests that leave it as it was."""
    yield box.fresh(300)
    box.testbed("remove", "300")


@pytest.fixture
def pct(box: Box) -> Callable[..., Completed]:
    def run(*arguments: str, **options: object) -> Completed:
        return box.node("pct", *arguments, **options)  # type: ignore[arg-type]

    return run


# --- exec: exit codes and texts


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_exec_passes_exit_codes_through(pct: Callable[..., Completed], guest: Container, code: int) -> None:
    assert pct("exec", guest.vmid, "--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize(("signal", "code"), [("KILL", 137), ("TERM", 143), ("ABRT", 134)])
def test_exec_shows_signals_as_a_shell_does(
    pct: Callable[..., Completed], guest: Container, signal: str, code: int
) -> None:
    assert pct("exec", guest.vmid, "--", "sh", "-c", f"kill -{signal} $$").returncode == code


@pytest.mark.parametrize(("command", "code"), [("nosuch", 127), ("/etc", 126), ("/etc/passwd", 126)])
def test_exec_of_what_cannot_run_is_one_line_of_lxc_attach(
    pct: Callable[..., Completed], guest: Container, command: str, code: int
) -> None:
    result = pct("exec", guest.vmid, "--", command)
    assert result.returncode == code
    line = rf'lxc-attach: {guest.vmid}: .*lxc_attach_run_command: \d+ .* - Failed to exec "{command}"\n'
    assert re.fullmatch(line, result.stderr)


def test_exec_in_a_stopped_container_collides_with_ssh(pct: Callable[..., Completed]) -> None:
    result = pct("exec", "202", "--", "true")
    assert (result.returncode, result.stderr) == (255, "container '202' not running!\n")


def test_no_container_a_machine_and_another_node_look_the_same(box: Box, pct: Callable[..., Completed]) -> None:
    pve = box.layout.pve
    others = {"401": pve / "nodes/pve1/qemu-server/401.conf", "402": pve / "nodes/pve9/lxc/402.conf"}
    try:
        for path in others.values():
            path.parent.mkdir(parents=True)
            path.write_text("memory: 512\n")
        for vmid in ("999", *others):
            for command in (["exec", vmid, "--", "true"], ["status", vmid], ["config", vmid], ["start", vmid]):
                result = pct(*command)
                assert result.returncode == 2
                assert result.stderr == f"Configuration file 'nodes/pve1/lxc/{vmid}.conf' does not exist\n"
    finally:
        for path in others.values():
            path.unlink()
            path.parent.rmdir()
        (pve / "nodes/pve9").rmdir()


def test_exec_without_a_command(pct: Callable[..., Completed], guest: Container) -> None:
    assert pct("exec", guest.vmid).returncode == 255


def test_an_id_that_is_no_number(pct: Callable[..., Completed]) -> None:
    result = pct("exec", "abc", "--", "true")
    assert result.returncode == 2
    assert result.stderr.startswith(
        "400 Parameter verification failed.\nvmid: type check ('integer') failed - got 'abc'\npct exec <vmid>"
    )


def test_options_are_eaten_without_two_dashes(pct: Callable[..., Completed], guest: Container) -> None:
    result = pct("exec", guest.vmid, "ls", "-la")
    assert result.returncode == 2
    assert result.stderr.startswith("Unknown option: la\n")


# --- exec: arguments


@pytest.mark.parametrize("words", [["a b", "$HOME", "*", "", "x\ny", "'", '"', "\\"], ["--", "-la", "--keep-env"]])
def test_arguments_after_two_dashes_pass_exactly(
    pct: Callable[..., Completed], guest: Container, words: list[str]
) -> None:
    result = pct("exec", guest.vmid, "--", "sh", "-c", 'printf "%s\\0" "$@"', "sh", *words)
    assert result.stdout.split("\0")[:-1] == words


@pytest.mark.parametrize(
    ("environment", "given", "seen"),
    [
        (UTF8, "é", "é".encode()),
        ({}, "é", b"\xef\xbf\xbd" * 2),
        ({"LC_ALL": "C"}, "é", b"\xef\xbf\xbd" * 2),
        ({"LC_ALL": "C", "LANG": "C.UTF-8"}, "é", b"\xef\xbf\xbd" * 2),
        (UTF8, "a\udcff", b"a\xef\xbf\xbd"),
    ],
    ids=["utf-8", "no locale", "C", "C over LANG", "invalid bytes even in utf-8"],
)
def test_arguments_are_damaged_outside_utf8(
    pct: Callable[..., Completed], guest: Container, environment: dict[str, str], given: str, seen: bytes
) -> None:
    result = pct("exec", guest.vmid, "--", "printf", "%s", given, environment=environment)
    assert result.stdout.encode("utf-8", "surrogateescape") == seen


def test_lxc_attach_is_exact_to_the_byte(box: Box, guest: Container) -> None:
    result = box.node("lxc-attach", "-n", guest.vmid, "--", "printf", "%s", "a\udcffé")
    assert result.stdout == "a\udcffé"


def test_an_argument_over_128_kib_is_refused_by_the_kernel(box: Box, guest: Container) -> None:
    script = f'pct exec {guest.vmid} -- true "$(head -c 131073 /dev/zero | tr "\\0" x)"'
    result = box.node("bash", "-c", script)
    assert result.returncode == 126
    assert "Argument list too long" in result.stderr


def test_five_megabytes_go_in_and_out_unchanged(box: Box, guest: Container) -> None:
    script = (
        "head -c 5000000 /dev/urandom > /tmp/blob && pct exec {} -- cat < /tmp/blob | cmp - /tmp/blob; rm /tmp/blob"
    )
    assert box.node("bash", "-c", script.format(guest.vmid)).stdout == ""


# --- exec: environment


def test_the_nodes_environment_leaks_in_by_default(pct: Callable[..., Completed], guest: Container) -> None:
    environment = {"SECRET": "x", "HOME": "/home/somebody", "SSL_CERT_FILE": "/a", "SSL_CERT_DIR": "/b"}
    seen = dict(
        line.split("=", 1) for line in pct("exec", guest.vmid, "--", "env", environment=environment).stdout.split()
    )
    assert (seen["SECRET"], seen["HOME"], seen["PATH"]) == ("x", "/home/somebody", "/sbin:/bin:/usr/sbin:/usr/bin")
    assert not seen.keys() & {"SSL_CERT_FILE", "SSL_CERT_DIR", "LC_CTYPE"}


@pytest.mark.parametrize("option", [["--keep-env", "0"], ["--keep-env=0"], ["-keep", "0"]])
def test_a_clear_environment_on_request(pct: Callable[..., Completed], guest: Container, option: list[str]) -> None:
    result = pct("exec", guest.vmid, *option, "--", "env", environment={"SECRET": "x", "HOME": "/root"})
    seen = dict(line.split("=", 1) for line in result.stdout.split())
    assert seen.pop("PATH") == CLEAR_PATH
    assert seen.keys() <= {"container", "TERM"}


def test_an_old_version_knows_no_keep_env(box: Box, pct: Callable[..., Completed], guest: Container) -> None:
    up.write_standin_settings(box.layout, startup=0, version="5.0.8")
    refused = pct("exec", guest.vmid, "--keep-env", "0", "--", "true")
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (2, "Unknown option: keep-env")
    kept = pct("exec", guest.vmid, "--", "env", environment={"SECRET": "x"})
    assert "SECRET=x" in kept.stdout


def test_working_folder_and_umask_are_inherited(box: Box, guest: Container) -> None:
    inside = f"pct exec {guest.vmid} --"
    script = f"cd /usr && umask 077 && {inside} sh -c 'pwd; umask'; cd /etc/pve; {inside} pwd"
    assert box.node("bash", "-c", script).stdout.split() == ["/usr", "0077", "/"]


def test_start_up_costs_what_the_settings_say(box: Box, pct: Callable[..., Completed], guest: Container) -> None:
    up.write_standin_settings(box.layout)
    started = time.monotonic()
    pct("exec", guest.vmid, "--", "true")
    assert 0.7 <= time.monotonic() - started < 3


# --- a frozen container


def test_exec_in_a_frozen_container_hangs(box: Box, pct: Callable[..., Completed], guest: Container) -> None:
    box.node("lxc-freeze", "-n", guest.vmid)
    try:
        assert pct("status", guest.vmid).stdout == "status: running\n"
        assert box.node("lxc-info", "-n", guest.vmid, "-s", "-H").stdout == "FROZEN\n"
        with pytest.raises(subprocess.TimeoutExpired):
            pct("exec", guest.vmid, "--", "true", timeout=2)
    finally:
        box.node("lxc-unfreeze", "-n", guest.vmid)
    assert pct("exec", guest.vmid, "--", "true").returncode == 0


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


# --- push and pull: why nobody should build on them


def test_push_sets_nothing_but_what_is_asked_for(box: Box, pct: Callable[..., Completed], guest: Container) -> None:
    box.node("sh", "-c", "echo hello > /tmp/file; chmod 751 /tmp/file; chown 33 /tmp/file")
    assert pct("push", guest.vmid, "/tmp/file", "/root/plain").returncode == 0
    assert guest.run("stat -c '%a %u:%g' /root/plain; cat /root/plain") == "644 0:0\nhello\n"
    options = ["--perms", "640", "--user", "www-data", "--group", "44"]
    assert pct("push", guest.vmid, "/tmp/file", "/root/owned", *options).returncode == 0
    assert guest.run("stat -c '%a %u:%g' /root/owned") == "640 33:44\n"


def test_push_overwrites_in_place(box: Box, pct: Callable[..., Completed], guest: Container) -> None:
    guest.run("echo old > /root/kept && chmod 600 /root/kept")
    before = guest.run("stat -c '%i %a' /root/kept")
    assert pct("push", guest.vmid, "/etc/hostname", "/root/kept").returncode == 0
    assert guest.run("stat -c '%i %a' /root/kept; cat /root/kept") == f"{before}pve1\n"


def test_a_relative_destination_means_the_root(pct: Callable[..., Completed], guest: Container) -> None:
    assert pct("push", guest.vmid, "/etc/hostname", "relative").returncode == 0
    assert guest.exists("/relative")


@pytest.mark.parametrize(
    ("source", "destination", "options", "text"),
    [
        ("/etc/hostname", "/root/a", ["--user", "nosuch"], "failed to get uid for: nosuch"),
        ("/etc/hostname", "/root/a", ["--perms", "9z"], "invalid mode: '09z'"),
        (
            "/etc/hostname",
            "/no/such/folder/a",
            [],
            "failed to create file: /no/such/folder/a: No such file or directory",
        ),
        ("/nosuch", "/root/a", [], "failed to open /nosuch for reading"),
    ],
)
def test_push_reports_success_on_failure(
    pct: Callable[..., Completed], guest: Container, source: str, destination: str, options: list[str], text: str
) -> None:
    result = pct("push", guest.vmid, source, destination, *options)
    assert (result.returncode, result.stderr) == (0, f"{text}\n")
    assert not guest.exists(destination)


def test_push_to_a_read_only_file_system_reports_success(pct: Callable[..., Completed], guest: Container) -> None:
    guest.run("mkdir -p /mnt/ro && mount -t tmpfs -o ro tmpfs /mnt/ro")
    result = pct("push", guest.vmid, "/etc/hostname", "/mnt/ro/a")
    assert (result.returncode, result.stderr) == (0, "failed to create file: /mnt/ro/a: Read-only file system\n")
    guest.run("umount /mnt/ro")


def test_push_to_a_full_disk_truncates_silently(box: Box, pct: Callable[..., Completed], guest: Container) -> None:
    guest.run("mkdir -p /mnt/small && mount -t tmpfs -o size=64k tmpfs /mnt/small")
    box.node("sh", "-c", "head -c 200000 /dev/zero > /tmp/big")
    result = pct("push", guest.vmid, "/tmp/big", "/mnt/small/big")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert guest.run("stat -c %s /mnt/small/big") == "65536\n"
    guest.run("umount /mnt/small")
    box.node("rm", "/tmp/big")


def test_pull_of_a_missing_file_leaves_an_empty_one(box: Box, pct: Callable[..., Completed], guest: Container) -> None:
    result = pct("pull", guest.vmid, "/nosuch", "/tmp/pulled")
    assert (result.returncode, result.stderr) == (0, "failed to open /nosuch: No such file or directory\n")
    assert box.node("sh", "-c", "stat -c %s /tmp/pulled; rm /tmp/pulled").stdout == "0\n"


def test_pull_brings_a_file(box: Box, pct: Callable[..., Completed], guest: Container) -> None:
    assert pct("pull", guest.vmid, "/etc/hostname", "/tmp/pulled").returncode == 0
    assert box.node("sh", "-c", "cat /tmp/pulled; rm /tmp/pulled").stdout == f"ct{guest.vmid}\n"


def test_push_needs_a_running_container(pct: Callable[..., Completed]) -> None:
    result = pct("push", "202", "/etc/hostname", "/root/x")
    assert (result.returncode, result.stderr) == (255, "can only push files to a running CT\n")


def test_each_push_makes_noise_in_the_task_log(box: Box, pct: Callable[..., Completed], guest: Container) -> None:
    pct("push", guest.vmid, "/etc/hostname", "/root/noise")
    last = box.node("tail", "-n1", "/var/log/pve/tasks/index").stdout
    assert re.fullmatch(rf"UPID:pve1:[0-9A-F]{{8}}:\S+:push_file:{guest.vmid}:root@pam: [0-9A-F]{{8}} OK\n", last)


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
