# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any text arrives in a container byte for byte, on every way in: as argument, command, file name, environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.loader import become_loader
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.integration.box import Box, Container
from tests.integration.connection.link import Link, links

pytestmark = pytest.mark.timeout(600)
BYTES = st.binary(max_size=120).map(lambda data: data.replace(b"\0", b"0"))
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
NASTY = [
    b"",
    b" ",
    b"'",
    b'"',
    b"\\",
    b"$HOME `id` $(id)",
    b"-n",
    b"--",
    b"*",
    b"~root",
    b"a\nb\n\n",
    b"\r\n",
    b"%s%b",
    b"!!",
]
NASTY += [
    "ünï ☃ 𝔘".encode(),
    b"\xff\xfe\x80",
    b"\x81\x82\x88",
    b"\x1b[0m\t\x7f",
    b"#x",
    b"&& exit 3;",
    b"EOF",
    b"{a,b}[x]",
]
SOME = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def connect(box: Box) -> Iterator[Any]:
    settings_file = box.layout.state / "standin.json"
    before = settings_file.read_text()
    box.testbed("standin", "--startup", "0")
    with links(box) as link:
        yield link
    settings_file.write_text(before)


WAYS: dict[str, dict[str, object]] = {
    "runner": {},
    "lxc-attach": {"pct_runner": False},
    "lxc-attach by sudo": {"ansible_user": "operator", "pct_runner": False},
    "runner by sudo": {"ansible_user": "operator"},
    "pct": {"pct_method": "pct", "pct_runner": False},
    "pct by sudo": {"ansible_user": "ansible", "pct_method": "pct", "pct_runner": False},
}


@pytest.fixture(scope="module", params=WAYS)
def link(request: pytest.FixtureRequest, guest: Container, connect: Any) -> Link:
    one: Link = connect(guest.vmid, **WAYS[request.param])
    assert one.python("pass")[0] == 0
    return one


def joined(words: list[bytes]) -> bytes:
    return b"".join(word + b"\0" for word in words)


def quoted(data: bytes) -> str:
    """As Ansible holds it: text, with what is not UTF-8 as surrogates."""
    return shlex.quote(os.fsdecode(data))


@SOME
@given(words=st.lists(BYTES, max_size=6))
@example(words=NASTY)
def test_arguments(link: Link, words: list[bytes]) -> None:
    line = "".join(f" {quoted(word)}" for word in words)
    assert link.sh(f"for word in{line}; do printf '%s\\0' \"$word\"; done") == (0, joined(words), b"")


@SOME
@given(words=st.lists(BYTES, max_size=6))
@example(words=NASTY)
def test_commands_and_their_errors(link: Link, words: list[bytes]) -> None:
    text = b"\n".join(words) + b"\n"
    assert link.sh(f"printf %s {quoted(text)} >&2") == (0, b"", text)


@SOME
@given(words=st.lists(BYTES, min_size=1, max_size=6))
@example(words=NASTY)
def test_environment_values(link: Link, words: list[bytes]) -> None:
    names = [f"VALUE{number}" for number in range(len(words))]
    values = " ".join(f"{name}={quoted(word)}" for name, word in zip(names, words))
    shown = " ".join(f'"${name}"' for name in names)
    assert link.sh(f"{values} sh -c 'printf \"%s\\0\" {shown}'") == (0, joined(words), b"")


@SOME
@given(value=TEXT)
@example(value="a 'b' \"c\" $HOME\n\\ ünï")
def test_environment_values_of_modules(link: Link, value: str) -> None:
    source = "import os; os.write(1, os.environb[b'VALUE'])"
    assert link.python(source, f"VALUE={shlex.quote(value)}") == (0, value.encode(), b"")


@SOME
@given(words=st.lists(BYTES, max_size=6))
@example(words=NASTY)
def test_stdin(link: Link, words: list[bytes]) -> None:
    data = b"\0".join(words)
    assert link.sh("cat", data) == (0, data, b"")


@settings(SOME, max_examples=5)
@given(data=BYTES)
@example(data=b"-rf ' \" $HOME `id` \\ * \n\n")
@example(data="~ ünï ☃".encode() + b"\xff\x81\n")
def test_file_names_and_contents(link: Link, tmp_path: Path, data: bytes) -> None:
    name = data.replace(b"/", b"_")[:100]
    if name in (b"", b".", b".."):
        name += b"x"
    folder = b"/root/d-" + name
    path = os.fsdecode(folder + b"/" + name)
    (tmp_path / "source").write_bytes(data)
    link.out(f"mkdir -p -- {quoted(folder)}")
    link.put(tmp_path / "source", path)
    link.fetch(path, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data
    assert link.out(f"cat -- {shlex.quote(path)}; ls -A -- {quoted(folder)}; rm -r -- {quoted(folder)}").startswith(
        data
    )


# --- become, inside the container


@pytest.fixture(scope="module", params=["sudo", "su"])
def as_nobody(request: pytest.FixtureRequest, guest: Container, connect: Any) -> Callable[[str], Any]:
    one: Link = connect(guest.vmid)
    become = become_loader.get(request.param)
    flags = {"become_flags": "-s /bin/sh"} if request.param == "su" else {}
    become.set_options(direct={"become_user": "nobody", **flags})
    one.plugin.set_become_plugin(become)

    def run(command: str) -> tuple[int, bytes, bytes]:
        whole = become.build_become_command(command, one.plugin._shell)
        result: tuple[int, bytes, bytes] = one.plugin.exec_command(f"/bin/sh -c {shlex.quote(whole)}")
        return result

    return run


def test_become_is_the_containers_user(as_nobody: Callable[[str], Any]) -> None:
    assert as_nobody("id -un")[:2] == (0, b"nobody\n")


@SOME
@given(words=st.lists(BYTES, max_size=6))
@example(words=NASTY)
def test_arguments_through_become(as_nobody: Callable[[str], Any], words: list[bytes]) -> None:
    line = "".join(f" {quoted(word)}" for word in words)
    rc, out, _err = as_nobody(f"for word in{line}; do printf '%s\\0' \"$word\"; done")
    assert (rc, out) == (0, joined(words))
