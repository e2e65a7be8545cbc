# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to the node: logins, sudo and pct, a jump host, the node itself without ssh."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.utils.display import Display

from testbed import state
from tests.integration.box import CHECKOUT, Box, Container
from tests.integration.connection.link import links

pytestmark = pytest.mark.timeout(600)


def test_a_login_without_lxc_attach_falls_back_to_pct_once_and_says_so(
    box: Box, guest: Container, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ansible prints a warning once in a process, whichever test it came from.
    said: list[str] = []
    monkeypatch.setattr(Display, "warning", lambda _self, message, *_more, **_named: said.append(message))
    with links(box) as link:
        one = link(guest.vmid, ansible_user="ansible", pct_runner=False)
        for _time in range(2):
            assert one.out("id -u") == b"0\n"
            assert ["pct exec is used" in message for message in said] == [True]


def test_an_old_pct_without_keep_env(box: Box, guest: Container) -> None:
    settings = box.layout.state / "standin.json"
    before = settings.read_text()
    try:
        box.testbed("standin", "--imitate", "5.0.8", "--startup", "0")
        refused = box.node("pct", "exec", guest.vmid, "--keep-env", "0", "--", "true")
        assert refused.returncode != 0
        with links(box) as link:
            one = link(guest.vmid, ansible_user="ansible", pct_method="pct", pct_runner=False)
            assert b"HOME=/root\n" in one.out("env")
            assert one.out("printf %s 'ünï'").decode() == "ünï"
    finally:
        settings.write_text(before)


@pytest.fixture
def no_sudo(box: Box) -> Iterator[None]:
    """The login named operator, without any sudo rule."""
    box.node("sh", "-c", "cp -p /etc/sudoers /etc/sudoers.kept; sed -i '/^operator /d' /etc/sudoers")
    yield
    box.node("sh", "-c", "mv /etc/sudoers.kept /etc/sudoers")


def test_a_login_without_sudo_is_told_what_to_add(guest: Container, connect: Any, no_sudo: None) -> None:
    with pytest.raises(AnsibleConnectionFailure, match="may not run pct through sudo .* add the sudoers line"):
        connect(guest.vmid, ansible_user="operator", pct_runner=False).sh("true")


def test_through_a_jump_host(box: Box, guest: Container, connect: Any, tmp_path: Path) -> None:
    config = tmp_path / "config"
    folder = box.layout.client
    config.write_text(
        f"IdentityFile {folder}/id_ed25519\nIdentitiesOnly yes\nBatchMode yes\nStrictHostKeyChecking yes\n"
        f"UserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile /dev/null\n"
    )
    port = state.load_ports(box.layout)[box.layout.node("pve2").sshd_port_key]
    link = connect(guest.vmid, ansible_ssh_common_args=f"-F {config} -J root@127.0.0.1:{port}")
    assert link.python("print(1)") == (0, b"1\n", b"")
    assert link.resident
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"-F {config} -J root@127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(AnsibleConnectionFailure, match="via ssh"):
            connect(guest.vmid, ansible_ssh_common_args=nowhere).sh("true")


LOCAL = """\
import sys
from ansible.plugins.loader import connection_loader, init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible.playbook.play_context import PlayContext
for runner in (True, False):
    link = connection_loader.get("proxmox_gpu.training.pct_exec", PlayContext())
    link.set_options(var_options={"pct_vmid": sys.argv[2], "pct_transport": "local", "pct_runner": runner,
        "ansible_ssh_executable": "/nosuch/ssh", "ansible_control_path_dir": "/tmp/pct-local", "ansible_port": 1})
    print(link.exec_command("/bin/sh -c 'hostname; id -u; exit 255'"))
    print(link.exec_command("/bin/sh -c /usr/bin/python3", b"print(6 * 7)"))
    link.put_file("/etc/hostname", "/tmp/local")
    link.fetch_file("/tmp/local", "/tmp/pct-local/back")
    print(open("/tmp/pct-local/back").read() == open("/etc/hostname").read())
    link.reset()
"""


@pytest.fixture
def controller(box: Box) -> Iterator[tuple[str, str]]:
    """ansible-core and the collection in the home of the node's root: a Python that runs them, and their folder."""
    packages = next((CHECKOUT / ".venv-core219" / "lib").glob("python3.*")) / "site-packages"
    python = "/usr/bin/" + packages.parent.name
    if box.node(python, "--version").returncode:
        pytest.skip(f"the node has no {python}, which could use the ansible-core at hand")
    folder = box.layout.nodes[0].folder / "root" / "controller"
    ignored = shutil.ignore_patterns("__pycache__", "ansible_test", "pip", "tests")
    shutil.copytree(packages, folder, ignore=ignored)
    collection = folder / "ansible_collections" / "proxmox_gpu" / "training"
    shutil.copytree(CHECKOUT / "plugins", collection / "plugins", ignore=ignored)
    yield python, "/root/controller"
    shutil.rmtree(folder)


def test_on_the_node_itself_no_ssh_is_needed(box: Box, guest: Container, controller: tuple[str, str]) -> None:
    python, folder = controller
    result = box.node(python, "-c", LOCAL, folder, guest.vmid, environment={"PYTHONPATH": folder})
    name = guest.run("hostname").strip()
    expected = f"(255, b'{name}\\n0\\n', b'')\n(0, b'42\\n', b'')\nTrue\n"
    assert result.stdout == expected * 2, result.stderr
