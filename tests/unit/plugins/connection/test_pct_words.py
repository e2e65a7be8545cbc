# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ids, quoting and command lines of the connection: any text arrives byte for byte through real shells and Perl."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import (
    _pct_command,
    _pct_runner,
    _pct_supervisor,
    _pct_vmid,
)

BYTES = st.binary(max_size=200).filter(lambda data: b"\0" not in data)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=80)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)


# --- container ids


@given(st.integers(100, 999999999))
def test_ids_are_taken_as_numbers_and_as_digits(vmid: int) -> None:
    assert _pct_vmid.parse_vmid(vmid, "x") == _pct_vmid.parse_vmid(str(vmid), "x") == vmid


@given(st.one_of(TEXT, st.integers(max_value=99), st.floats(), st.booleans(), st.lists(st.integers())))
def test_anything_else_is_refused_with_its_origin(value: object) -> None:
    text = str(value)
    if isinstance(value, str) and text.isascii() and text.isdigit() and 100 <= int(text) <= 999999999:
        return
    with pytest.raises(_pct_vmid.VmidError, match="var: pct_vmid|No container id"):
        _pct_vmid.parse_vmid(value, "var: pct_vmid")


# --- command lines


@given(BYTES)
def test_octal_is_ascii_and_comes_back_byte_for_byte(data: bytes) -> None:
    octal = _pct_command.to_octal(data)
    assert octal.isascii()
    result = subprocess.run(["sh", "-c", 'printf %b "$1"', "sh", octal], capture_output=True, check=True)
    assert result.stdout == data


@given(BYTES)
def test_a_containers_shell_gets_the_command_byte_for_byte(command: bytes) -> None:
    argv = _pct_command.container_argv(b"printf %s " + shlex.quote(command.decode("latin-1")).encode("latin-1"), "mark")
    result = subprocess.run(argv, capture_output=True, check=True)
    assert result.stdout == command
    assert result.stderr.split(b" ")[0] == b"mark"


def test_a_command_without_reader_is_never_run(tmp_path: object) -> None:
    argv = _pct_command.container_argv(f"touch {tmp_path}/ran".encode(), "mark")
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    assert reader.stdin
    subprocess.run(argv, stderr=reader.stdin, check=False)
    reader.stdin.close()
    assert subprocess.run(["ls", f"{tmp_path}/ran"], capture_output=True, check=False).returncode


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        _pct_command.container_argv(b"a\0b", "mark")


@given(st.lists(st.one_of(TEXT, BYTES), max_size=4))
def test_script_parameters_arrive(words: list[str | bytes]) -> None:
    line = _pct_command.script('for word; do printf "%s\\0" "$word"; done', *words)
    out = subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout
    assert out == b"".join((w if isinstance(w, bytes) else w.encode()) + b"\0" for w in words)


@given(st.lists(BYTES, min_size=1, max_size=5))
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_nodes_shell_and_perl_get_every_field(shell: str, argv: list[bytes]) -> None:
    request = _pct_supervisor.Request(200, "auto", tuple(argv), "mark", "end", stdin="null", relay=False, wait=7)
    line = _pct_supervisor.remote_command(request)
    shown = _pct_supervisor._encode(b"print $p")
    result = subprocess.run([shell, "-c", line.replace(_pct_supervisor._CODE, shown)], capture_output=True, check=True)
    assert result.stdout.split(b"\0") == [b"end", b"mark", b"200", b"auto", b"null", b"0", b"0", b"7", *argv]


def test_the_supervisor_is_valid_perl() -> None:
    text = _pct_supervisor._squeeze(_pct_supervisor._PERL)
    result = subprocess.run(["perl", "-wc", "-e", "my $p='';" + text], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_stopping_hits_the_supervisor_with_this_mark_alone() -> None:
    marks = [_pct_supervisor.new_marks()[1] for _ in range(2)]
    sleepers = [subprocess.Popen(["perl", "-e", "sleep 60", mark]) for mark in marks]
    bystander = subprocess.Popen(["sh", "-c", "sleep 60; : $0", marks[0]])
    try:
        subprocess.run(["sh", "-c", _pct_supervisor.stop_command(marks[0])], check=True)
        assert sleepers[0].wait(10) == -15
        assert sleepers[1].poll() is None
        assert bystander.poll() is None
    finally:
        for process in (*sleepers, bystander):
            process.kill()
            process.wait()


# --- what the resident runner may be given


def ansible_writes(environment: dict[str, str], python: str, tail: str) -> str:
    words = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    return "/bin/sh -c " + shlex.quote(" ".join([*words, python]) + tail)


@given(st.dictionaries(NAMES, TEXT, max_size=3), st.sampled_from(["", " && sleep 0"]))
def test_a_pipelined_module_is_recognised(environment: dict[str, str], tail: str) -> None:
    payload = _pct_runner.as_payload(ansible_writes(environment, "/usr/bin/python3", tail))
    if any(name.startswith(_pct_runner._START_ONLY) for name in environment):
        assert payload is None
    else:
        assert payload == _pct_runner.Payload("/usr/bin/python3", environment)


@given(TEXT)
def test_what_is_recognised_is_exactly_what_a_shell_would_do(text: str) -> None:
    for command in (text, f"/bin/sh -c {text}", f"/bin/sh -c {shlex.quote(text)}"):
        payload = _pct_runner.as_payload(command)
        if payload:
            assert command == ansible_writes(payload.environment, shlex.quote(payload.python), "") or command.endswith(
                "sleep 0'"
            )


@pytest.mark.parametrize(
    "inner",
    [
        "python3",
        "/usr/bin/python3 /root/x.py",
        "/usr/bin/python3; id",
        "/usr/bin/python3 && id",
        "/usr/bin/python3 | cat",
        "$(id) /usr/bin/python3",
        "A=$B /usr/bin/python3",
        "A=1  /usr/bin/python3",
        "A=1 A=2 /usr/bin/python3",
        "LC_ALL=C /usr/bin/python3",
        "PYTHONPATH=/x /usr/bin/python3",
        "LD_PRELOAD=/x /usr/bin/python3",
        "TZ=UTC /usr/bin/python3",
        "/usr/bin/python3 # x",
        "~/bin/python",
        "cd /x && /usr/bin/python3",
        "sudo -u nobody /usr/bin/python3",
        "",
    ],
)
def test_anything_unusual_is_left_to_the_plain_way(inner: str) -> None:
    assert _pct_runner.as_payload(f"/bin/sh -c {shlex.quote(inner)}") is None
    assert _pct_runner.as_payload(f"/bin/bash -c {shlex.quote(inner)}") is None
    assert _pct_runner.as_payload(inner) is None
