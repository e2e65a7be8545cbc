# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests' own way to run playbooks tells what happened: results, recap, failures."""

from __future__ import annotations

import pytest

from tests.integration.box import Box

PLAY = """\
- hosts: pve1
  gather_facts: false
  tasks:
    - name: Say the name
      ansible.builtin.raw: hostname
      changed_when: true
    - name: Loop
      ansible.builtin.raw: "echo {{ item }}"
      loop: [a, b]
      changed_when: false
    - name: Fail and go on
      ansible.builtin.fail:
        msg: on purpose
      ignore_errors: true
    - name: Maybe
      ansible.builtin.raw: "true"
      when: maybe | default(false)
"""


def test_results_are_read_as_data(box: Box) -> None:
    result = box.run_playbook(PLAY, limit="pve1").ok()
    assert result.task("Say the name").result["stdout_lines"] == ["pve1"]
    assert result.task("Say the name").changed
    assert [one.result["item"] for one in result.tasks if one.item] == ["a", "b"]
    assert (result.task("Fail and go on").status, result.task("Fail and go on").message) == ("ignored", "on purpose")
    assert result.task("Maybe").status == "skipped"
    assert result.changed("pve1") == 1
    assert result.failures() == []


def test_variables_and_arguments_reach_it(box: Box) -> None:
    result = box.run_playbook(PLAY, limit="pve1", extra_vars={"maybe": True}, check=True, arguments=["-t", "nosuch"])
    assert result.rc == 0
    assert result.tasks == []
    assert box.run_playbook(PLAY, limit="pve1", extra_vars={"maybe": True}).task("Maybe").status == "ok"


def test_failures_are_told_apart(box: Box) -> None:
    failing = PLAY.replace("      ignore_errors: true\n", "")
    result = box.run_playbook(failing, limit="pve1")
    assert result.rc == 2
    assert [(one.status, one.message) for one in result.failures()] == [("failed", "on purpose")]
    result = box.run_playbook(PLAY, limit="pve1", extra_vars={"ansible_port": 1})
    assert result.rc == 4
    assert [one.status for one in result.failures()] == ["unreachable"]
    with pytest.raises(AssertionError, match="UNREACHABLE"):
        result.ok()
