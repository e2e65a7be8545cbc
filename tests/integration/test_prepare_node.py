# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook prepare_node: the login with exactly its lines, used for real, and gone again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed import state
from tests.integration.box import Box
from tests.integration.playbook_result import PlaybookResult

pytestmark = pytest.mark.timeout(600)
# One node under several names, each of which is to get a login of its own.
MADE: dict[str, dict[str, Any]] = {"plain": {}, "asking": {"pvesh": True}, "mighty": {"root": True}}
REFUSED: dict[str, dict[str, Any]] = {
    "taken": {"user": "operator"},
    "superuser": {"user": "root"},
    "quoted": {"user": "x; rm"},
    "undecided": {"state": "gone"},
    "careless": {"key": "id_ed25519"},
}


@pytest.fixture(scope="module")
def source(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Path:
    port = state.load_ports(box.layout)["sshd pve1"]
    hosts = {
        host: {
            "ansible_port": port,
            "prepare_node_user": f"login-{host}",
            "prepare_node_key": str(box.layout.client / options.get("key", "id_ed25519.pub")),
            **{f"prepare_node_{name}": value for name, value in options.items() if name != "key"},
        }
        for host, options in {**MADE, **REFUSED}.items()
    }
    path = tmp_path_factory.mktemp("prepare") / "nodes.yml"
    path.write_text(json.dumps({"all": {"children": {"nodes": {"hosts": hosts}}}}))
    return path


def prepare(box: Box, source: Path, hosts: Iterable[str], *, check: bool = False, **variables: Any) -> PlaybookResult:
    """One after the other: they are one node."""
    return box.run_playbook(
        "proxmox_gpu.training.prepare_node",
        ",".join(hosts),
        {f"prepare_node_{name}": value for name, value in variables.items()},
        check=check,
        arguments=["-i", str(source)],
        environment={"ANSIBLE_FORKS": "1", "ANSIBLE_PIPELINING": "1"},
    )


def traces(box: Box) -> str:
    """Every line of the node's accounts and rules, and its homes."""
    return box.node("sh", "-c", "cat /etc/passwd /etc/group /etc/shadow /etc/sudoers /etc/sudoers.d/*; ls /home").stdout


@dataclass
class Done:
    result: PlaybookResult
    traces: str  # of the node, after it


@pytest.fixture(scope="module")
def done(box: Box, source: Path) -> Iterator[Done]:
    """Logins made; those that are not to be made refused; all gone again, and the node as it was."""
    before = traces(box)
    result = prepare(box, source, [*MADE, *REFUSED])
    yield Done(result, traces(box))
    gone = prepare(box, source, [*MADE, "taken"], state="absent")
    assert "was not made by this playbook" in " ".join(gone.output.split())
    assert traces(box) == before
    assert prepare(box, source, ["plain"], state="absent").ok().changed("plain") == 0


def test_check_mode_changes_nothing(box: Box, source: Path) -> None:
    before = traces(box)
    result = prepare(box, source, ["plain"], check=True)
    assert "Traceback" not in result.output
    assert traces(box) == before


def test_exactly_its_lines(box: Box, done: Done) -> None:
    rules = box.node("sudo", "-l", "-U", "login-plain").stdout
    assert rules.rstrip().endswith("(root) NOPASSWD: /usr/bin/lxc-attach, /usr/bin/lxc-info, /usr/sbin/pct")
    assert box.node_ssh("sudo -n /usr/bin/id", user="login-plain").returncode != 0
    file = "/etc/sudoers.d/proxmox_gpu_login-"
    assert box.node("cat", f"{file}asking").stdout.endswith("/usr/sbin/pct, /usr/bin/pvesh\n")
    assert box.node("cat", f"{file}mighty").stdout.endswith("login-mighty ALL=(root) NOPASSWD: ALL\n")
    assert box.node_ssh("sudo -n /usr/bin/id -un", user="login-mighty").stdout == "root\n"


def test_the_login_is_enough_for_a_container(box: Box, done: Done) -> None:
    play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - {name: Who, ansible.builtin.raw: id -un}\n"
    inside = box.run_playbook(play, "ct200", {"ansible_user": "login-plain"}).ok()
    assert inside.task("Who").result["stdout"].strip() == "root"
    assert "pct exec is used" not in inside.output  # lxc-attach is allowed


def test_a_second_run_changes_nothing(box: Box, source: Path, done: Done) -> None:
    assert prepare(box, source, ["plain"]).ok().changed("plain") == 0


def test_what_cannot_be_meant_is_refused(done: Done) -> None:
    said = {one.host: " ".join(one.message.split()) for one in done.result.failures()}
    assert set(said) == set(REFUSED)
    assert "has a login operator already that was not made by this playbook" in said.pop("taken")
    assert "is a private key, which belongs on no node" in said.pop("careless")
    assert all("prepare_node_user has to be a login name other than root" in text for text in said.values())
    made = set(re.findall(r"^(login-[a-z]+|operator):x", done.traces, re.MULTILINE))
    assert made == {"login-plain", "login-asking", "login-mighty", "operator"}
