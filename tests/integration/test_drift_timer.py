# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role drift_timer: systemd reads the units, the service's own command line makes a check, all goes again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from tests import prepared
from tests.integration.box import Box, Container
from tests.integration.playbook_result import PlaybookResult

UNITS = "/etc/systemd/system/proxmox-gpu-drift"
STATE = "/var/lib/proxmox_gpu/drift"
#: What stands for ansible-playbook in the container: it writes down its words, and the report of a fleet that drifted.
PROGRAM = "/opt/ansible/bin/ansible-playbook"
STAND_IN = f"""\
#!/bin/sh
printf '%s\\n' "$@" > {STATE}/words
printf '{{"exit": 2, "generated": "%s"}}' "$(date --iso-8601=seconds)" > {STATE}/report.json
echo 'one line' > {STATE}/report.txt
exit 2
"""
PLAY = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: Role
      ansible.builtin.include_role: {name: proxmox_gpu.training.drift_timer}
"""
pytestmark = pytest.mark.timeout(600)


def play(container: Container, check: bool = False, **variables: Any) -> PlaybookResult:
    values = {
        "inventory": ["/etc/ansible/hosts.yml"],
        "ansible_playbook": PROGRAM,
        "arguments": ["--limit", "a b%$c"],
        "environment": {"TOKEN": 'a "secret" $HOME'},
        "vault_password_file": "/etc/ansible/vault",
    }
    merged = {f"drift_timer_{name}": value for name, value in (values | variables).items()}
    return container.box.run_playbook(PLAY, container.host, merged, check=check)


@pytest.fixture(scope="module")
def control(box: Box) -> Iterator[Container]:
    """A container that stands for a control node: with systemd's programs, but not run by it."""
    container = box.container(360)
    container.fresh("--from", prepared.snapshot("python"))
    container.run("apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd", timeout=300)
    container.write("/etc/ansible/hosts.yml", "all: {}\n")
    container.write("/etc/ansible/vault", "password\n")
    container.write(PROGRAM, STAND_IN)
    container.run(f"chmod 755 {PROGRAM}")
    play(container).ok()
    yield container
    box.testbed("remove", "360")


def test_a_second_run_changes_nothing(control: Container) -> None:
    assert play(control).ok().changed(control.host) == 0
    assert play(control, check=True).ok().changed(control.host) == 0


def test_the_next_boot_starts_the_timer(control: Container) -> None:
    wanted = "/etc/systemd/system/timers.target.wants/proxmox-gpu-drift.timer"
    assert control.run(f"readlink -f {wanted}").strip() == f"{UNITS}.timer"
    assert "Persistent=true" in control.run(f"cat {UNITS}.timer")


def test_systemd_finds_it_hardened(control: Container) -> None:
    said = control.run(f"systemd-analyze security --offline=true {UNITS}.service")
    level = re.search(r"Overall exposure level[^:]*: ([\d.]+)", said)
    assert level, said
    assert float(level.group(1)) < 5.0


def test_secrets_are_for_their_reader_alone(control: Container) -> None:
    assert control.run("stat -c '%a %U' /etc/proxmox_gpu/drift.env").strip() == "400 root"
    assert 'TOKEN="a \\"secret\\" $HOME"' in control.run("cat /etc/proxmox_gpu/drift.env")
    assert "secret" not in play(control, environment={"TOKEN": "another secret"}).ok().output
    play(control).ok()


def test_the_services_command_makes_a_check(control: Container) -> None:
    unit = control.run(f"cat {UNITS}.service")
    [line] = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart=")]
    # systemd's own quoting: %% and $$ are one character each, and ${NAME} is a variable.
    words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]
    shown = [word.replace("${CREDENTIALS_DIRECTORY}", "/run/credentials/x") for word in words]
    done = control.attach(shlex.join(shown))
    assert (done.returncode, done.stdout) == (2, "one line\n"), done.stderr
    given = control.run(f"cat {STATE}/words").splitlines()
    assert given[:4] == ["--inventory", "/etc/ansible/hosts.yml", "--extra-vars", "@/etc/proxmox_gpu/drift.yml"]
    assert given[4:6] == ["--limit", "a b%$c"]
    assert given[6:8] == ["--vault-password-file", "/run/credentials/x/vault"]
    assert given[-1] == "proxmox_gpu.training.drift_check"


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
def test_what_is_wrong_is_said(control: Container, wrong: dict[str, Any], word: str) -> None:
    result = play(control, **wrong)
    assert result.rc != 0
    assert word in " ".join(result.output.split())


def test_it_is_removed_without_a_trace(control: Container) -> None:
    play(control, state="absent").ok()
    left = control.run("find /etc/systemd /usr/local/sbin /etc/proxmox_gpu -name '*drift*'")
    assert left == ""
    assert play(control, state="absent").ok().changed(control.host) == 0
    play(control).ok()
