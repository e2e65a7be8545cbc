# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must not be seen: the node's environment inside, passwords and keys anywhere."""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.box import Box, Container

pytestmark = pytest.mark.timeout(600)


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
