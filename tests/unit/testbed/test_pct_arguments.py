# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pct stand-in's command line, as Getopt::Long and Proxmox's parameter check read it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.pct_standin.arguments import BadParameters, Command, decode, parse

EXEC = Command("exec", ("vmid", "extra-args"), {"keep-env": "boolean"}, lambda: 0)
SET = Command("set", ("vmid",), {"memory": "integer", "cpulimit": "number", "dev[n]": "string"}, lambda: 0)


@given(st.lists(st.text()))
def test_everything_after_two_dashes_is_the_commands(words: list[str]) -> None:
    assert parse(EXEC, ["200", "--", *words]) == {"vmid": "200", "extra-args": words}


@pytest.mark.parametrize(
    ("words", "keep", "rest"),
    [
        (["200", "--keep-env", "0", "--", "env"], False, ["env"]),
        (["--keep-env=0", "200", "env"], False, ["env"]),
        (["200", "env", "-keep", "1"], True, ["env"]),
        (["200", "--keep-env", "--", "env"], True, ["env"]),
    ],
)
def test_options_are_taken_from_anywhere_before(words: list[str], keep: bool, rest: list[str]) -> None:
    assert parse(EXEC, words) == {"vmid": "200", "extra-args": rest, "keep-env": keep}


def test_an_optional_value_swallows_the_id() -> None:
    with pytest.raises(BadParameters, match="keep-env: type check"):
        parse(EXEC, ["200", "--keep-env", "300", "--", "env"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["abc"], "vmid: type check \\('integer'\\) failed - got 'abc'"),
        (["99"], "vmid: value must have a minimum value of 100"),
        ([], "400 not enough arguments"),
        (["200", "x"], "400 too many arguments"),
        (["200", "--memory", "x"], "memory: type check"),
        (["200", "--memory"], "400 unable to parse option"),
        (["200", "--dev", "x"], "400 unable to parse option"),
        (["200", "--nosuch"], "400 unable to parse option"),
    ],
)
def test_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(BadParameters, match=sentence):
        parse(SET, words)


def test_numbered_options_and_numbers() -> None:
    assert parse(SET, ["0200", "--dev12", "/dev/x", "-memory", "5", "--cpulimit", "1.5"]) == {
        "vmid": "200",
        "dev12": "/dev/x",
        "memory": 5,
        "cpulimit": 1.5,
    }


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({}, "a��"),
        ({b"LC_ALL": b"C.UTF-8"}, "aé"),
        ({b"LC_ALL": b"", b"LANG": b"C.UTF-8"}, "aé"),
        ({b"LC_ALL": b"C", b"LANG": b"C.UTF-8"}, "a��"),
        ({b"LC_ALL": b"no_SUCH.UTF-8"}, "a��"),
    ],
)
def test_arguments_are_decoded_in_the_callers_locale(environment: dict[bytes, bytes], text: str) -> None:
    assert decode("aé".encode(), environment) == text
