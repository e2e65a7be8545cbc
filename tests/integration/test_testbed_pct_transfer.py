# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pct push and pct pull of the stand-in: why nobody should build on them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.integration.box import Box, Completed, Container

pytestmark = pytest.mark.usefixtures("quick_pct")


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
