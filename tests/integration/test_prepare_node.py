# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook prepare_node: the login with exactly its lines, used for real, and gone again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.box import Box
from tests.integration.playbook_result import PlaybookResult

LOGIN = "deploy"
FILE = f"/etc/sudoers.d/proxmox_gpu_{LOGIN}"
pytestmark = pytest.mark.timeout(600)


def prepare(box: Box, check: bool = False, **variables: Any) -> PlaybookResult:
    values = {"prepare_node_user": LOGIN, "prepare_node_key": str(box.layout.client / "id_ed25519.pub")}
    merged = values | {f"prepare_node_{name}": value for name, value in variables.items()}
    return box.run_playbook("proxmox_gpu.training.prepare_node", "pve1", merged, check=check)


@pytest.fixture
def node(box: Box) -> Iterator[Box]:
    yield box
    prepare(box, state="absent").ok()


def traces(box: Box) -> str:
    """Every line of the node's accounts and rules, and its homes."""
    return box.node("sh", "-c", "cat /etc/passwd /etc/group /etc/shadow /etc/sudoers /etc/sudoers.d/*; ls /home").stdout


def test_made_used_and_removed(node: Box) -> None:
    before = traces(node)
    prepare(node).ok()
    rules = node.node("sudo", "-l", "-U", LOGIN).stdout
    assert rules.rstrip().endswith("(root) NOPASSWD: /usr/bin/lxc-attach, /usr/bin/lxc-info, /usr/sbin/pct")
    assert node.node_ssh("sudo -n /usr/bin/id", user=LOGIN).returncode != 0

    play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - {name: Who, ansible.builtin.raw: id -un}\n"
    inside = node.run_playbook(play, "ct200", {"ansible_user": LOGIN}).ok()
    assert inside.task("Who").result["stdout"].strip() == "root"
    assert "pct exec is used" not in inside.output  # lxc-attach is allowed

    assert prepare(node).ok().changed("pve1") == 0
    prepare(node, state="absent").ok()
    assert traces(node) == before
    assert prepare(node, state="absent").ok().changed("pve1") == 0


def test_pvesh_and_everything_on_request(node: Box) -> None:
    prepare(node, pvesh=True).ok()
    assert node.node("cat", FILE).stdout.endswith("/usr/sbin/pct, /usr/bin/pvesh\n")
    prepare(node, root=True).ok()
    assert node.node("cat", FILE).stdout.endswith(f"{LOGIN} ALL=(root) NOPASSWD: ALL\n")
    assert node.node_ssh("sudo -n /usr/bin/id -un", user=LOGIN).stdout == "root\n"


def test_a_login_that_it_did_not_make_is_left_alone(node: Box) -> None:
    before = traces(node)
    for state in ("present", "absent"):
        refused = prepare(node, user="operator", state=state)
        assert "has a login operator already that was not made by this playbook" in " ".join(refused.output.split())
    assert traces(node) == before


def test_check_mode_changes_nothing(node: Box) -> None:
    before = traces(node)
    result = prepare(node, check=True)
    assert "Traceback" not in result.output
    assert traces(node) == before


def test_what_cannot_be_meant(node: Box) -> None:
    wrong: list[dict[str, Any]] = [{"user": "root"}, {"state": "gone"}, {"user": "x; rm"}]
    for variables in wrong:
        refused = prepare(node, **variables)
        assert refused.rc != 0 and "prepare_node_user has to be a login name other than root" in refused.output
