# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's options, and what it needs of the ansible-core at hand."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.playbook.play_context import PlayContext
from ansible.plugins.connection import ssh
from ansible.plugins.loader import connection_loader

CHECKOUT = Path(__file__).resolve().parents[4]

# Of file transfer by sftp and scp, which pct_exec never does.
UNUSED = {"ssh_transfer_method", "sftp_batch_mode", "sftp_executable", "scp_executable"}


@pytest.fixture
def plugin() -> Any:
    plugin = connection_loader.get("proxmox_gpu.training.pct_exec", PlayContext())
    plugin.set_options(var_options={"pct_vmid": 200, "ansible_host": "node"})
    return plugin


def test_every_option_that_the_ssh_plugin_reads_is_ours_too(plugin: Any) -> None:
    read = set(re.findall(r"get_option\(\s*['\"](\w+)['\"]", inspect.getsource(ssh)))
    assert "ssh_args" in read
    for option in read - UNUSED:
        if option != "become_pass":
            plugin.get_option(option)


def test_each_option_can_be_set_by_variable_environment_and_file(plugin: Any) -> None:
    ours = {"vmid", "method", "transport", "runner", "runner_idle", "attach_timeout", "transfer_timeout"}
    ours |= {"sessions_per_connection", "parallel_logins"}
    definitions = plugin.option_definitions
    assert ours <= set(definitions)
    for name in ours:
        assert definitions[name]["description"]
        for source in ("vars", "env", "ini"):
            assert definitions[name][source], (name, source)


def test_pct_vmid_wins_over_the_other_variable(plugin: Any) -> None:
    plugin.set_options(var_options={"proxmox_vmid": "300", "pct_vmid": 200})
    assert plugin.get_option_and_origin("vmid") == (200, "var: pct_vmid")
    plugin.set_options(var_options={"proxmox_vmid": "300"})
    assert plugin.get_option_and_origin("vmid") == ("300", "var: proxmox_vmid")


def test_pipelining_is_on_and_a_terminal_never(plugin: Any) -> None:
    assert plugin.is_pipelining_enabled()
    command = plugin._build_command("ssh", "ssh", "node", "true")
    assert command[-3:] == [b"-T", b"node", b"true"]
    assert b"-tt" not in command


def test_modules_see_the_containers_root_and_ssh_the_nodes_login(plugin: Any) -> None:
    plugin.set_options(var_options={"pct_vmid": 200, "ansible_host": "node", "ansible_user": "operator"})
    assert plugin.get_option("remote_user") == "root"
    assert b'User="operator"' in plugin._build_command("ssh", "ssh", "node", "true")


def test_a_users_own_control_path_is_left_alone(plugin: Any) -> None:
    assert plugin.masters is not None
    for variables in (
        {"ansible_control_path": "/x/%%h"},
        {"ansible_ssh_common_args": "-o ControlPath=/x"},
        {"ansible_ssh_args": "-C"},
        {"pct_transport": "local"},
    ):
        other = connection_loader.get("proxmox_gpu.training.pct_exec", PlayContext())
        other.set_options(var_options={"pct_vmid": 200, **variables})
        assert other.masters is None


def test_a_folder_too_deep_for_sockets_is_named(plugin: Any, tmp_path: Any) -> None:
    plugin.set_options(var_options={"pct_vmid": 200, "ansible_control_path_dir": str(tmp_path / ("x" * 100))})
    with pytest.raises(AnsibleError, match="too long for ssh's control sockets"):
        plugin.masters  # noqa: B018


def test_different_keys_and_logins_never_share_a_connection(tmp_path: Any) -> None:
    sockets = set()
    for variables in (
        {},
        {"ansible_user": "a"},
        {"ansible_ssh_private_key_file": "/k"},
        {"ansible_port": 23},
        {"ansible_host": "other"},
        {"ansible_ssh_common_args": "-J jump"},
    ):
        one = connection_loader.get("proxmox_gpu.training.pct_exec", PlayContext())
        base = {"pct_vmid": 200, "ansible_host": "node", "ansible_control_path_dir": str(tmp_path)}
        one.set_options(var_options={**base, **variables})
        sockets.add(one.masters.socket(0))
    assert len(sockets) == 6


def test_a_new_process_finds_every_part_compiled(tmp_path: Path) -> None:
    """Ansible loads the plugin anew for each task."""
    program = (
        "import sys\n"
        "from ansible.plugins.loader import connection_loader, init_plugin_loader\n"
        "from ansible.playbook.play_context import PlayContext\n"
        "init_plugin_loader([sys.argv[1]])\n"
        "connection_loader.get('proxmox_gpu.training.pct_exec', PlayContext())\n"
        "print(*(name.rpartition('.')[2] for name in sys.modules if '.plugin_utils._pct_' in name))\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(
        [sys.executable, "-c", program, str(CHECKOUT / "build" / "tree")],
        env=environment | {"PYTHONPYCACHEPREFIX": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    parts = set(result.stdout.split())
    assert "_pct_container" in parts
    assert {path.name.split(".")[0] for path in tmp_path.rglob("_pct_*.pyc")} == parts


def test_synchronize_names_what_to_use_instead(plugin: Any) -> None:
    """ansible.posix.synchronize puts the connection's transport into the sentence with which it refuses."""
    assert "use ansible.builtin.copy" in plugin.transport
