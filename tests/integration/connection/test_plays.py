# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole plays through the connection, on each supported ansible-core, in the shape of core's own connection tests."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.box import CHECKOUT, Box, Container
from tests.integration.cores import PYTHONS, commands_of

pytestmark = pytest.mark.timeout(600)

SUITE = """
- name: The shape of ansible-core's own connection tests
  hosts: all
  gather_facts: false
  vars:
    local_file: "{{ work }}/lôcal-汉语-{{ inventory_hostname }}"
    remote_file: "/tmp/rémote-汉语/汉语.txt"
  tasks:
    - ansible.builtin.wait_for_connection: {timeout: 30}

    - name: Raw with unicode arg and output
      ansible.builtin.raw: echo 汉语
      register: command
    - ansible.builtin.assert: {that: "'汉语' in command.stdout"}

    - name: Raw with a failing command
      ansible.builtin.raw: exit 255
      register: command
      failed_when: command.rc != 255

    - name: Copy a local file with unicode name
      ansible.builtin.copy: {dest: "{{ local_file }}", content: "汉语\\n", mode: "0644"}
      delegate_to: localhost
      connection: local
      vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}"}
    - ansible.builtin.raw: rm -rf /tmp/rémote-汉语 && mkdir /tmp/rémote-汉语
    - ansible.builtin.copy: {src: "{{ local_file }}", dest: "{{ remote_file }}", mode: "0600"}
      register: first
    - ansible.builtin.copy: {src: "{{ local_file }}", dest: "{{ remote_file }}", mode: "0600"}
      register: second
    - ansible.builtin.assert: {that: [first is changed, second is not changed]}
    - ansible.builtin.fetch: {src: "{{ remote_file }}", dest: "{{ local_file }}.back", flat: true}
    - ansible.builtin.raw: cat {{ remote_file }}
      register: content
    - ansible.builtin.assert:
        that:
          - content.stdout == "汉语\\n"
          - lookup('ansible.builtin.file', local_file ~ '.back') == "汉语"
    - ansible.builtin.copy: {content: "", dest: /tmp/empty, mode: "0600"}
    - ansible.builtin.stat: {path: /tmp/empty}
      register: empty
    - ansible.builtin.assert: {that: empty.stat.size == 0}

    - name: A module with an environment
      ansible.builtin.shell: echo "$WORD"; pwd; umask
      environment: {WORD: "it's $HOME"}
      register: command
    - ansible.builtin.assert: {that: "command.stdout_lines == [\\"it's $HOME\\", '/root', '0022']"}

    - name: Become another user of the container
      ansible.builtin.command: id -un
      become: true
      become_user: nobody
      register: command
      vars: {ansible_remote_tmp: /tmp/of-nobody}
    - ansible.builtin.assert: {that: command.stdout == "nobody"}
    - name: Become another user by su
      ansible.builtin.command: id -un
      become: true
      become_method: ansible.builtin.su
      become_flags: -s /bin/sh
      become_user: daemon
      register: command
      vars: {ansible_remote_tmp: /tmp/of-daemon}
    - ansible.builtin.assert: {that: command.stdout == "daemon"}
    - name: Become root, who we are
      ansible.builtin.command: id -un
      become: true
      register: command
    - ansible.builtin.assert: {that: command.stdout == "root"}

    - ansible.builtin.setup: {gather_subset: ["!all", min]}
      register: facts
    - ansible.builtin.assert: {that: facts.ansible_facts.ansible_user_dir == "/root"}

    - name: In the background
      ansible.builtin.command: sh -c 'sleep 2; echo late'
      async: 60
      poll: 1
      register: late
    - ansible.builtin.assert: {that: late.stdout == "late"}
    - name: In the background, looked at later
      ansible.builtin.command: sh -c 'sleep 1; echo later'
      async: 60
      poll: 0
      register: job
    - ansible.builtin.async_status: {jid: "{{ job.ansible_job_id }}"}
      register: later
      until: later is finished
      retries: 30
      delay: 1
    - ansible.builtin.assert: {that: later.stdout == "later"}

    - ansible.builtin.script: "{{ work }}/script.sh 'an argument'"
      register: script
    - ansible.builtin.assert: {that: "script.stdout_lines == ['script an argument /root']"}

    - ansible.builtin.meta: reset_connection
    - ansible.builtin.ping:

    - name: A failing module is failed and not unreachable
      ansible.builtin.command: sh -c 'echo out; echo err >&2; exit 255'
      register: failed
      ignore_errors: true
    - ansible.builtin.assert: {that: ["failed.rc == 255", "failed.stdout == 'out'", "failed.stderr == 'err'"]}
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    script = tmp_path / "script.sh"
    script.write_text('#!/bin/sh\necho script "$1" $(pwd)\n')
    return tmp_path


WAYS: dict[str, dict[str, Any]] = {
    "resident": {},
    "plain": {"pct_runner": False},
    "without pipelining": {"ansible_pipelining": False},
    "without both": {"ansible_pipelining": False, "pct_runner": False},
}


@pytest.mark.parametrize(
    ("release", "way"),
    [(release, way) for release in PYTHONS for way in WAYS if release == "2.21" or way != "without both"],
)
def test_the_connection_suite(box: Box, guest: Container, work: Path, release: str, way: str) -> None:
    commands = commands_of(release)
    (work / "play.yml").write_text(SUITE)
    (work / "ansible.cfg").touch()
    variables = {**WAYS[way], "work": str(work), "ansible_control_path_dir": f"/tmp/pct-{release}"}
    result = subprocess.run(
        [str(commands / "ansible-playbook"), "-i", str(box.inventory), "-l", guest.host]
        + ["-e", json.dumps(variables), str(work / "play.yml")],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "tree"),
            "ANSIBLE_HOME": str(work / "home"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "unreachable=0    failed=0" in result.stdout
    assert "retry" not in result.stderr


RESTART = """
- name: A container that is restarted in mid-play
  hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.ping:
    - name: Restart at the node
      # Once the next task's process is there. The brackets keep grep from finding itself.
      ansible.builtin.shell: >-
        until grep -qzx '20[.]25' /proc/[0-9]*/cmdline; do sleep 0.1; done;
        pct stop {{ pct_vmid }}; sleep 3; pct start {{ pct_vmid }}
      args: {executable: /bin/sh}
      delegate_to: pve1
      async: 60
      poll: 0
    - name: Sleep into the restart
      ansible.builtin.command: sleep 20.25
      ignore_unreachable: true
      register: slept
    - ansible.builtin.wait_for_connection: {delay: 1, sleep: 1, timeout: 60}
    - ansible.builtin.command: echo back
      register: back
    - ansible.builtin.assert: {that: [slept.unreachable, "back.stdout == 'back'"]}
"""


@pytest.mark.parametrize("runner", [True, False], ids=["resident", "plain"])
def test_a_container_that_is_restarted_in_mid_play(box: Box, guest: Container, runner: bool) -> None:
    result = box.run_playbook(RESTART, limit=f"{guest.host},pve1", extra_vars={"pct_runner": runner})
    assert "failed=0" in result.output and result.recap[guest.host]["failures"] == 0, result.output


def test_fifty_containers_behind_one_node(box: Box) -> None:
    """sshd's default limits (MaxSessions 10, MaxStartups 10:30:100), forks 50, from no connection at all."""
    ids = "400-449"
    box.testbed("create", ids, timeout=300)
    try:
        play = "- hosts: all\n  gather_facts: false\n  tasks:\n" + "    - ansible.builtin.raw: echo $$\n" * 5
        for _ in range(2):
            result = box.run_playbook(
                play,
                limit=",".join(f"ct{number}" for number in range(400, 450)),
                arguments=["--forks", "50", "-vvv"],
                extra_vars={"ansible_control_path_dir": f"/tmp/pct-{time.time_ns()}"},
            )
            assert result.rc == 0, result.output[-3000:]
            assert all(host["unreachable"] == 0 and host["ok"] == 5 for host in result.recap.values())
            assert len(result.recap) == 50
            for word in ("ssh_retry", "Session open refused", "mux_client", "Connection reset", "closed by remote"):
                assert word not in result.output
    finally:
        box.testbed("remove", ids, timeout=300)
