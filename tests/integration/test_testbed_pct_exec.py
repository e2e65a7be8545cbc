# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pct exec of the stand-in behaves as the real one was measured to: exit codes, texts, arguments, environment.

Where the real lxc tools answer (the codes, say) these tests hold the tools themselves to what was measured.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable

import pytest

from testbed import up
from tests.integration.box import Box, Completed, Container

pytestmark = pytest.mark.usefixtures("quick_pct")

UTF8 = {"LC_ALL": "C.UTF-8"}
CLEAR_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


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
