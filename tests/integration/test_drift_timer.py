# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role drift_timer on a node: systemd reads the units, the service's own command line makes a check, all goes again."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.box import Box
from tests.integration.playbook_result import PlaybookResult

CHECKOUT = Path(__file__).resolve().parents[2]
UNITS = "/etc/systemd/system/proxmox-gpu-drift"
STATE = "/var/lib/proxmox_gpu/drift"
PLAY = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: Role
      ansible.builtin.include_role: {name: proxmox_gpu.training.drift_timer}
"""
pytestmark = pytest.mark.timeout(600)


def play(box: Box, check: bool = False, **variables: Any) -> PlaybookResult:
    values = {
        "inventory": [str(box.inventory)],
        "ansible_playbook": str(Path(sys.executable).parent / "ansible-playbook"),
        "collections_path": str(CHECKOUT / "build" / "tree"),
        "arguments": ["--limit", "ct202"],
        "variables": {"drift_check_keep_days": 30},
        "environment": {"TOKEN": 'a "secret" $HOME'},
        "path": STATE,
    }
    merged = {f"drift_timer_{name}": value for name, value in (values | variables).items()}
    return box.run_playbook(PLAY, "pve1", merged, check=check)


@pytest.fixture(scope="module")
def node(box: Box) -> Iterator[Box]:
    play(box).ok()
    yield box
    play(box, state="absent").ok()
    box.node("rm", "-rf", STATE)


def test_a_second_run_changes_nothing(node: Box) -> None:
    assert play(node).ok().changed("pve1") == 0
    assert play(node, check=True).ok().changed("pve1") == 0


def test_the_next_boot_starts_the_timer(node: Box) -> None:
    wanted = "/etc/systemd/system/timers.target.wants/proxmox-gpu-drift.timer"
    assert node.node("readlink", "-f", wanted).stdout.strip() == f"{UNITS}.timer"
    assert "Persistent=true" in node.node("cat", f"{UNITS}.timer").stdout


def test_systemd_finds_it_hardened(node: Box) -> None:
    done = node.node("systemd-analyze", "security", "--offline=true", f"{UNITS}.service")
    level = re.search(r"Overall exposure level[^:]*: ([\d.]+)", done.stdout)
    assert level, done.stdout + done.stderr
    assert float(level.group(1)) < 5.0


def test_secrets_are_for_their_reader_alone(node: Box) -> None:
    assert node.node("stat", "-c", "%a %U", "/etc/proxmox_gpu/drift.env").stdout.strip() == "400 root"
    assert 'TOKEN="a \\"secret\\" $HOME"' in node.node("cat", "/etc/proxmox_gpu/drift.env").stdout
    assert "secret" not in play(node, environment={"TOKEN": "another secret"}).ok().output
    play(node).ok()


def test_the_services_command_makes_a_check(node: Box) -> None:
    unit = node.node("cat", f"{UNITS}.service").stdout
    [line] = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart=")]
    environment = dict(re.findall(r'^Environment="([^=]+)=(.*)"$', unit, re.MULTILINE))
    assert environment["ANSIBLE_HOME"] == f"{STATE}/ansible"
    environment["ANSIBLE_CONFIG"] = str(CHECKOUT / "ansible.cfg")
    done = node.node(*shlex.split(line), environment=environment, timeout=120)
    assert done.returncode == 3, done.stdout + done.stderr  # 202 is stopped
    assert "1 host: 1 unknown (ct202)." in done.stdout
    report = json.loads(node.node("cat", f"{STATE}/report.json").stdout)
    assert report["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"inventory": []}, "drift_timer_inventory is empty"),
        ({"inventory": ["/no/such/file"]}, "/no/such/file is not there"),
        ({"ansible_playbook": "/no/such/program"}, "install Ansible there"),
        ({"user": "nobody-here"}, "has no account nobody-here"),
        ({"calendar": "sometimes"}, "systemd does not understand"),
    ],
)
def test_what_is_wrong_is_said(node: Box, wrong: dict[str, Any], word: str) -> None:
    result = play(node, **wrong)
    assert result.rc != 0
    assert word in " ".join(result.output.split())
    if "calendar" in wrong:
        play(node).ok()
