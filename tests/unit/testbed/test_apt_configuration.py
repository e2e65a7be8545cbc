# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading the machine's apt configuration in both of its formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import apt_configuration as apt
from testbed.errors import TestbedError

LIST = """\
# deb http://commented.example/debian bookworm main
deb http://mirror.example/debian bookworm main contrib # a comment
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] https://other.example/apt bookworm-pgdg main
 deb http://mirror.example/security bookworm-security main
not a source
"""
DEB822 = """\
Types: deb deb-src
# a comment in between
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Types: deb-src
URIs: http://source.example
Suites: trixie
Components: main

Types: deb
Enabled: no
URIs: http://off.example
Suites: trixie
Components: main
"""


def test_one_line_format() -> None:
    sources = apt.parse_list(LIST)
    assert [source.uris[0] for source in sources] == [
        "http://mirror.example/debian",
        "https://other.example/apt",
        "http://mirror.example/security",
    ]
    assert sources[0].components == ("main", "contrib")
    assert (sources[1].signed_by, sources[1].options) == ("/usr/share/keyrings/x.gpg", {"arch": "amd64"})


def test_deb822_format() -> None:
    (source,) = apt.parse_deb822(DEB822)
    assert source.suites == ("trixie", "trixie-updates")
    assert source.signed_by.startswith("\n-----BEGIN")


def test_only_debians_own_entries_are_taken(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(LIST)
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/x.sources").write_text(DEB822)
    (tmp_path / "sources.list.d/x.sources.bak").write_text(DEB822)
    found = apt.debian_sources(apt.read_sources(tmp_path), "bookworm")
    assert [(source.uris, source.suites) for source in found] == [
        (("http://mirror.example/debian",), ("bookworm",)),
        (("http://mirror.example/security",), ("bookworm-security",)),
    ]


@pytest.mark.parametrize("name", ["stable", "testing"])
def test_a_machine_may_name_its_release_by_an_alias(name: str) -> None:
    (source,) = apt.debian_sources([apt.Source(("http://m",), (name,), ("main",))], "bookworm")
    assert source.suites == (name,)


def test_without_debian_the_sentence_says_what_to_add() -> None:
    with pytest.raises(TestbedError, match="no entry for Debian bookworm with the component main"):
        apt.debian_sources([apt.Source(("http://m",), ("nodistro",), ("main",))], "bookworm")


def test_the_containers_sources_list() -> None:
    source = apt.Source(
        ("http://a", "http://b"), ("x", "x-updates"), ("main", "contrib"), "/key.gpg", {"arch": "amd64"}
    )
    assert apt.one_line_format([source]).splitlines() == [
        "deb [signed-by=/key.gpg arch=amd64] http://a x main contrib",
        "deb [signed-by=/key.gpg arch=amd64] http://a x-updates main contrib",
        "deb [signed-by=/key.gpg arch=amd64] http://b x main contrib",
        "deb [signed-by=/key.gpg arch=amd64] http://b x-updates main contrib",
    ]
    assert apt.parse_list(apt.one_line_format([source]))[0].options == {"arch": "amd64"}
