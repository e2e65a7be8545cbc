# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node of a container, asked by pvesh over ssh."""

from __future__ import annotations

from ansible_collections.proxmox_gpu.training.plugins.filter.node_ssh import node_ssh


def test_the_connections_own_login() -> None:
    found = node_ssh(
        {
            "ansible_host": "pve1",
            "ansible_port": 2222,
            "ansible_user": "ansible",
            "ansible_ssh_private_key_file": "/keys/pve",
            "ansible_ssh_common_args": "-o 'UserKnownHostsFile=/a b'",
        }
    )
    assert (found["api_host"], found["api_user"], found["api_sudo"]) == ("pve1", "ansible", True)
    assert found["api_ssh_arguments"] == ["-p", "2222", "-i", "/keys/pve", "-o", "UserKnownHostsFile=/a b"]


def test_root_needs_no_sudo_and_the_node_itself_no_ssh() -> None:
    assert node_ssh({"ansible_host": "pve1", "ansible_user": "root"})["api_sudo"] is False
    assert node_ssh({"pct_transport": "local"}) == {"api_backend": "pvesh"}
