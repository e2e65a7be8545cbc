# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on their way into a container and back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible.errors import AnsibleError, AnsibleFileNotFound

from tests.integration.box import Container
from tests.integration.connection.link import VMID, Link

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("size", [0, 1, 65, 4096, 1_000_003, 7 * 1024 * 1024])
def test_a_file_goes_in_and_comes_out(link: Link, guest: Container, tmp_path: Path, size: int) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(size))
    name = f'/root/it\'s a "file" $HOME ünï *{size}'
    link.put(source, name)
    link.fetch(name, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert guest.attach("ls -A /root | grep pct_exec").stdout == ""


def test_a_new_file_has_the_sources_mode_within_the_umask(root_link: Link, guest: Container, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    for mode, expected in ((0o600, "600"), (0o777, "755"), (0o644, "644"), (0o4755, "755")):
        source.chmod(mode)
        guest.run("rm -f /tmp/mode")
        root_link.put(source, "/tmp/mode")
        assert guest.run("stat -c %a /tmp/mode").strip() == expected


def test_an_old_file_keeps_its_owner_and_mode(root_link: Link, guest: Container, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    guest.run("rm -f /tmp/old; echo old > /tmp/old; chown 33:8 /tmp/old; chmod 640 /tmp/old")
    root_link.put(tmp_path / "source", "/tmp/old")
    assert guest.run("cat /tmp/old; stat -c '%u:%g %a' /tmp/old") == "new33:8 640\n"


def test_a_symbolic_link_is_followed(root_link: Link, guest: Container, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    guest.run("rm -rf /tmp/l /tmp/t; mkdir /tmp/t; echo old > /tmp/t/real; ln -s t/real /tmp/l")
    root_link.put(tmp_path / "source", "/tmp/l")
    assert guest.run("cat /tmp/t/real; readlink /tmp/l") == "newt/real\n"


def test_a_device_is_written_and_not_replaced(root_link: Link, guest: Container, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    root_link.put(tmp_path / "source", "/dev/null")
    assert guest.run("stat -c %F /dev/null").strip() == "character special file"


@pytest.mark.parametrize(
    ("destination", "reason"),
    [("/etc", "it is a directory"), ("/nosuch/x", "its folder does not exist"), ("/proc/sys/x", "writing failed")],
)
def test_a_copy_that_cannot_be_is_one_sentence(root_link: Link, tmp_path: Path, destination: str, reason: str) -> None:
    (tmp_path / "source").write_bytes(b"new")
    with pytest.raises(AnsibleError, match=f"Could not copy .* to {destination} in container {VMID}: {reason}"):
        root_link.put(tmp_path / "source", destination)


def test_what_is_missing_here_or_there(root_link: Link, tmp_path: Path) -> None:
    with pytest.raises(AnsibleFileNotFound):
        root_link.put(tmp_path / "nosuch", "/tmp/x")
    with pytest.raises(AnsibleFileNotFound):
        root_link.fetch("/nosuch", tmp_path / "x")
    with pytest.raises(AnsibleError, match="it is a directory"):
        root_link.fetch("/etc", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["~/x", "relative", "", "~root/.ansible/x"])
def test_a_path_that_is_not_absolute_is_refused(root_link: Link, tmp_path: Path, path: str) -> None:
    (tmp_path / "source").write_bytes(b"x")
    with pytest.raises(AnsibleError, match="not an absolute path"):
        root_link.put(tmp_path / "source", path)
    with pytest.raises(AnsibleError, match="not an absolute path"):
        root_link.fetch(path, tmp_path / "x")


def test_a_file_without_a_size_is_read_to_its_end(root_link: Link, guest: Container, tmp_path: Path) -> None:
    root_link.fetch("/proc/version", tmp_path / "version")
    assert (tmp_path / "version").read_text() == guest.run("cat /proc/version")


def test_a_file_that_grows_is_fetched_as_it_was_at_the_start(root_link: Link, guest: Container, tmp_path: Path) -> None:
    guest.run("rm -f /tmp/log; for i in $(seq 2000); do echo line $i; done > /tmp/log")
    guest.run("(for i in $(seq 50); do echo more; sleep 0.02; done) >> /tmp/log 2>&1 </dev/null &")
    root_link.fetch("/tmp/log", tmp_path / "log")
    assert (tmp_path / "log").read_text().startswith("line 1\n")
