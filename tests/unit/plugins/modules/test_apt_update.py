# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting, stopping and cleaning up around apt-get, which is a stand-in here; integration tests run the real one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.proxmox_gpu.training.plugins.modules import apt_update

LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (unattended-upgr)"


class Apt:
    """A stand-in for apt-get on PATH that does what a shell script says, and notes how it was called."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.lists, self._root, self._capsys = root / "lists", root, capsys
        (self.lists / "partial").mkdir(parents=True)

    def says(self, script: str) -> None:
        program = self._root / "apt-get"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {self._root}/calls\n{script}\n')
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        file = self._root / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def run(self, status: int = 0, **arguments: Any) -> dict[str, Any]:
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            apt_update.main()
        assert ended.value.code == status
        return json.loads(self._capsys.readouterr().out)


@pytest.fixture
def apt(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Apt:
    stand_in = Apt(tmp_path, capsys)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(apt_update, "LISTS", str(stand_in.lists))
    monkeypatch.setattr(apt_update, "LOCK_POLL_SECONDS", 0.01)
    return stand_in


def test_errors_are_asked_for_and_one_source_is_used_alone(apt: Apt) -> None:
    apt.says(f"for word; do case $word in *.sources) cat ${{word#*=}} > {apt.lists.parent}/entry; esac; done")
    assert apt.run(entry="Types: deb\nURIs: http://m/\nSuites: /\n", proxy="http://p:1/")["changed"] is False
    assert (apt.lists.parent / "entry").read_text() == "Types: deb\nURIs: http://m/\nSuites: /\n"
    (call,) = apt.calls
    for words in (
        "update --error-on=any",
        "-o Dir::Etc::sourcelist=/",
        "-o Dir::Etc::sourceparts=-",
        "-o APT::Get::List-Cleanup=0",
        "-o Acquire::https::Proxy=http://p:1/",
    ):
        assert words in call


def test_a_change_is_a_change_of_the_lists(apt: Apt) -> None:
    apt.says(f"echo new > {apt.lists}/example_InRelease")
    assert apt.run()["changed"] is True
    apt.says("exit 0")
    assert apt.run()["changed"] is False


BADSIG = """Err:1 http://m/debian12 InRelease
  The following signatures were invalid: BADSIG 28A26D13906D9B87 somebody
E: The repository 'http://m/debian12  InRelease' is not signed."""


def test_an_index_that_was_damaged_here_is_fetched_anew(apt: Apt) -> None:
    kept, other = apt.lists / "m_debian12_InRelease", apt.lists / "other_InRelease"
    kept.write_text("tampered with")
    other.write_text("fine")
    apt.says(f"[ ! -e {kept} ] || {{ cat <<'END'\n{BADSIG}\nEND\nexit 100; }}")
    assert apt.run(entry="Types: deb\nURIs: http://m/debian12/\nSuites: /\n")["changed"] is True
    assert (kept.exists(), other.exists(), len(apt.calls)) == (False, True, 2)


def test_a_bad_signature_of_the_server_s_own_is_said_after_one_more_try(apt: Apt) -> None:
    kept = apt.lists / "m_debian12_InRelease"
    kept.write_text("the last good one")
    apt.says(f"cat <<'END'\n{BADSIG}\nEND\nexit 100")
    entry = "Types: deb\nURIs: http://m/debian12/\nSuites: /\n"
    assert apt.run(1, entry=entry)["kind"] == "bad_signature"
    assert (len(apt.calls), kept.read_text()) == (2, "the last good one")


def test_check_mode_fetches_nothing(apt: Apt) -> None:
    apt.says("exit 1")
    assert apt.run(_ansible_check_mode=True)["changed"] is False
    assert apt.calls == []


def test_a_lock_is_waited_for(apt: Apt) -> None:
    apt.says(f'[ "$(wc -l < {apt.lists.parent}/calls)" -gt 3 ] && exit 0; echo "{LOCKED}"; exit 100')
    apt.run(lock_timeout=30)
    assert len(apt.calls) == 4


def test_the_holder_of_a_lock_is_named_when_the_time_is_over(apt: Apt) -> None:
    apt.says(f'echo "{LOCKED}"; exit 100')
    failed = apt.run(status=1, lock_timeout=0)
    assert failed["kind"] == "locked"
    assert "process 7 (unattended-upgr) holds /var/lib/apt/lists/lock" in failed["msg"]


def test_apt_and_its_children_are_stopped_in_time(apt: Apt) -> None:
    apt.says("sleep 60 & sleep 60")
    started = time.monotonic()
    failed = apt.run(status=1, timeout=1, mirror_variable="cuda_repository_mirror")
    assert time.monotonic() - started < 10
    assert failed["kind"] == "timeout"
    assert "did not finish in 1 s; check cuda_repository_mirror" in failed["msg"]


def test_a_failure_names_the_caller_s_variables(apt: Apt) -> None:
    apt.says("echo \"E: Failed to fetch http://m/InRelease  Could not resolve 'm'\"; exit 100")
    failed = apt.run(status=1, mirror_variable="cuda_repository_mirror", proxy_variable="cuda_repository_proxy")
    assert (failed["kind"], failed["transient"]) == ("unreachable", True)
    assert "check the container's network, cuda_repository_mirror and cuda_repository_proxy" in failed["msg"]


def test_a_failure_without_words_is_told_as_such(apt: Apt) -> None:
    apt.says("exit 100")
    assert apt.run(status=1)["msg"] == "apt-get update failed with status 100 and did not say why"


def test_nothing_is_left_of_a_repository_that_is_being_published(apt: Apt) -> None:
    """apt refuses everything while a list that it cannot read is there."""
    unreadable = apt.lists / "mirror_Packages.lz4"
    for file in (unreadable, apt.lists / "debian_Packages", apt.lists / "partial" / "mirror_Packages"):
        file.write_text("x")
    apt.says(f'echo "E: Problem with MergeList {unreadable}"; exit 100')
    assert apt.run(status=1)["kind"] == "upstream_publishing"
    assert {path.name for path in apt.lists.rglob("*") if path.is_file()} == {"debian_Packages"}


def test_without_apt_it_is_one_sentence(apt: Apt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(apt.lists))
    assert apt.run(status=1)["msg"] == "cannot run apt-get update: No such file or directory: apt-get"
