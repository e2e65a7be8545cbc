# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What apt reads is what we read, and what we take out is all that goes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._apt_sources import (
    Entry,
    concerns_cuda,
    format_of,
    normalise_uri,
    parse,
    same_place,
    without,
)

CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"


# --- known texts ------------------------------------------------------------------------------------------------------


def test_the_line_that_nvidia_s_keyring_package_brings() -> None:
    (entry,) = parse("/etc/apt/sources.list.d/cuda-debian12-x86_64.list", f"deb [signed-by={KEYRING}] {CUDA}/ /\n")
    assert entry.as_dict() == {
        "file": "/etc/apt/sources.list.d/cuda-debian12-x86_64.list",
        "format": "list",
        "types": ["deb"],
        "uri": CUDA + "/",
        "suites": ["/"],
        "components": [],
        "signed_by": KEYRING,
        "enabled": True,
        "line": 1,
        "last_line": 1,
        "options": {},
    }


@pytest.mark.parametrize(
    ("line", "uri", "options", "signed_by"),
    [
        (f"deb [ arch=amd64  trusted=yes ] {CUDA} /", CUDA, {"arch": "amd64", "trusted": "yes"}, None),
        (f"\tdeb\t[arch=amd64 signed-by=/x#y]\t{CUDA}\t/ # note\r\n", CUDA, {"arch": "amd64"}, "/x#y"),
        (f"deb [arch=amd64]{CUDA} /", CUDA, {"arch": "amd64"}, None),
        ('deb "file:/srv/a b" ./', "file:/srv/a b", {}, None),
        ("deb file:/srv/a%20b ./", "file:/srv/a b", {}, None),
        ("deb-src http://deb.debian.org/debian bookworm main contrib", "http://deb.debian.org/debian", {}, None),
        (f"deb {CUDA}", CUDA, {}, None),  # apt refuses it, and it concerns us all the more
    ],
)
def test_one_line_forms(line: str, uri: str, options: dict[str, str], signed_by: str | None) -> None:
    (entry,) = parse("x.list", line)
    assert (entry.uri, entry.options, entry.signed_by) == (uri, options, signed_by)


@pytest.mark.parametrize("line", ["", "# deb http://a/ /", "deb", "deb [arch=amd64]", "rpm http://a/ /", "deb x y z"])
def test_lines_that_are_no_entry(line: str) -> None:
    assert parse("x.list", line) == []


def test_a_stanza_with_everything() -> None:
    text = (
        "# ours\n"
        "Types: deb deb-src\n"
        "URIs: http://a.example/x\n"
        "# a comment inside\n"
        " https://b.example/y\n"
        "suites: stable\n"
        " testing\n"
        "Components: main\n"
        "Architectures: amd64 arm64\n"
        "Enabled: No\n"
        "Signed-By:\n"
        " -----BEGIN PGP PUBLIC KEY BLOCK-----\n"
        " .\n"
        " mQENBFYxxxx\n"
    )
    first, second = parse("x.sources", text)
    assert (first.uri, second.uri) == ("http://a.example/x", "https://b.example/y")
    assert first.types == ("deb", "deb-src")
    assert first.suites == ("stable", "testing")
    assert first.options == {"arch": "amd64 arm64"}
    assert first.enabled is False
    assert first.signed_by == "-----BEGIN PGP PUBLIC KEY BLOCK-----\n.\nmQENBFYxxxx"
    assert (first.line, first.last_line) == (2, 14)


def test_only_an_empty_line_ends_a_stanza() -> None:
    """As apt does: a line of blanks continues the field, a comment is nothing, and a field given twice is the last."""
    stanza = "Types: deb\nURIs: http://{}/\nSuites: /\n"
    for between, hosts in (("\n", "ab"), ("\r\n", "ab"), (" \n", "b"), ("#\n", "b"), ("", "b")):
        text = stanza.format("a") + between + stanza.format("b")
        assert [entry.uri for entry in parse("x.sources", text)] == [f"http://{host}/" for host in hosts], repr(between)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("/etc/apt/sources.list", "list"),
        ("cuda.list", "list"),
        ("cuda-debian12-x86_64.sources", "deb822"),
        ("cuda.list.save", None),
        ("cuda.list.disabled", None),
        ("my cuda.list", None),
        (".cuda.list", None),
    ],
)
def test_which_files_apt_reads(name: str, known: str | None) -> None:
    assert format_of(name) == known


@pytest.mark.parametrize(
    "uri",
    [
        CUDA,
        CUDA + "/",
        CUDA + "//",
        CUDA.replace("https", "http"),
        CUDA.replace("https", "HTTP"),
        CUDA.replace("developer", "Developer"),
        CUDA.replace(".com", ".com:443"),
        CUDA.replace("repos/", "repos//"),
        CUDA.replace("https://", "https://user:secret@"),
    ],
)
def test_spellings_of_one_place(uri: str) -> None:
    assert same_place(uri, CUDA)
    (entry,) = parse("x.list", f"deb {uri} /")
    assert concerns_cuda(entry)


def test_normalised_uri_keeps_what_differs() -> None:
    assert normalise_uri("HTTPS://Example.com:443//A/b/") == "example.com/A/b"
    assert normalise_uri("http://example.com:443/a") == "example.com:443/a"
    assert normalise_uri("file:///srv/x/") == normalise_uri("file:/srv/x") == "file:/srv/x"
    assert not same_place(CUDA, CUDA.replace("debian12", "debian13"))


@pytest.mark.parametrize(
    ("uri", "urls", "concerned"),
    [
        ("http://127.0.0.1:8000/compute/cuda/repos/debian12/x86_64", [], True),
        ("http://mirror.example/nv/debian12/x86_64", [], False),
        ("http://mirror.example/nv/debian12/x86_64", ["https://mirror.example/nv/"], True),
        ("http://mirror.example/nvidia/debian12/x86_64", ["https://mirror.example/nv"], False),
        ("file:///var/cuda-repo-ubuntu2204-12-8-local", [], True),
        ("https://nvidia.github.io/libnvidia-container/stable/deb/amd64", [], False),
        ("https://developer.download.nvidia.com/compute/machine-learning/repos/ubuntu2004/x86_64", [], False),
    ],
)
def test_which_entries_concern_us(uri: str, urls: list[str], concerned: bool) -> None:
    (entry,) = parse("x.list", f"deb {uri} /")
    assert concerns_cuda(entry, urls) is concerned


# --- taking out -------------------------------------------------------------------------------------------------------


def _cuda(path: str, text: str) -> list[Entry]:
    return [entry for entry in parse(path, text) if concerns_cuda(entry)]


def test_foreign_lines_stay_byte_for_byte() -> None:
    text = (
        "# my sources\r\n"
        "deb http://deb.debian.org/debian bookworm main\n"
        f"deb {CUDA} / # old\n"
        "\n"
        "#deb http://off.example/ /\n"
        f"  deb [signed-by=/old.gpg] {CUDA.replace('https', 'http')}/ /\n"
        "deb http://x.example/\x0b y z"
    )
    assert without("x.list", text, _cuda("x.list", text)) == (
        "# my sources\r\n"
        "deb http://deb.debian.org/debian bookworm main\n"
        "\n"
        "#deb http://off.example/ /\n"
        "deb http://x.example/\x0b y z"
    )


def test_a_shared_stanza_keeps_its_other_uris() -> None:
    text = f"Types: deb\nURIs: {CUDA} http://a.example/\n# note\n  {CUDA}/\n http://b.example/ \nSuites: /\n\n# end\n"
    assert without("x.sources", text, _cuda("x.sources", text)) == (
        "Types: deb\nURIs: http://a.example/\n# note\n http://b.example/ \nSuites: /\n\n# end\n"
    )


def test_a_stanza_of_its_own_goes_whole_and_leaves_its_comments() -> None:
    stanza = f"Types: deb\n# where\nURIs: {CUDA}\nSuites: /\nSigned-By: /k\n"
    text = "Types: deb\nURIs: http://a/\nSuites: /\n\n# why\n" + stanza
    assert without("x.sources", text, _cuda("x.sources", text)) == (
        "Types: deb\nURIs: http://a/\nSuites: /\n\n# why\n# where\n"
    )


# --- any text ---------------------------------------------------------------------------------------------------------

_hosts = st.sampled_from(["http://a.example/x", "http://b.example/", "https://c.example:8080/d", CUDA, CUDA + "/"])
_noise = st.sampled_from(["", "# note", "#deb http://off.example/ /", "   ", "\t# x"])
_one_line = st.builds(
    "{}deb {}{} {}{}".format,
    st.sampled_from(["", " ", "\t"]),
    st.sampled_from(["", "[arch=amd64] ", "[ trusted=yes arch=amd64 ]", "[allow-insecure=yes]  "]),
    _hosts,
    st.sampled_from(["/", "./", "stable main", "stable main contrib"]),
    st.sampled_from(["", " # why", "#why", "\r"]),
)
_list_text = st.lists(st.one_of(_one_line, _noise), max_size=6).map("\n".join)

_uris = st.lists(_hosts, min_size=1, max_size=3).flatmap(
    lambda uris: st.sampled_from([" ".join(uris), "\n " + "\n# c\n  ".join(uris), "\t" + "\n\t".join(uris) + "  "])
)


def _stanza(uris: str, suites: str, enabled: str, note: str, order: list[int]) -> str:
    lines = ["Types: deb", f"uris: {uris}", f"Suites: {suites}", note, enabled]
    return "\n".join(lines[index] for index in order if lines[index])


_stanza_text = st.builds(
    _stanza,
    _uris,
    st.sampled_from(["/", "stable\nComponents: main", "./ /"]),
    st.sampled_from(["", "Enabled: yes", "Enabled: no", "Architectures: amd64"]),
    st.sampled_from(["", "# note", "Trusted: yes"]),
    st.permutations(range(5)),
)
_separator = st.sampled_from(["\n\n", "\n\n\n", "\n\n# alone\n\n", "\n#\n", "\n \n"])
_sources_text = st.lists(st.tuples(_stanza_text, _separator), max_size=4).map(
    lambda pairs: "".join(stanza + separator for stanza, separator in pairs)
)
_file = st.one_of(
    st.tuples(st.just("x.list"), _list_text),
    st.tuples(st.just("x.sources"), _sources_text),
    st.tuples(st.sampled_from(["x.list", "x.sources"]), st.text()),
)


def _core(entry: Entry) -> tuple[object, ...]:
    return entry.uri, entry.types, entry.suites, entry.components, entry.signed_by, entry.enabled, entry.options


@given(_file)
def test_taking_out_leaves_exactly_the_others(file: tuple[str, str]) -> None:
    path, text = file
    unwanted = _cuda(path, text)
    rest = without(path, text, unwanted)
    assert [_core(entry) for entry in parse(path, rest)] == [
        _core(entry) for entry in parse(path, text) if entry not in unwanted
    ]
    assert without(path, rest, _cuda(path, rest)) == rest
    if not unwanted:
        assert rest == text


@given(_file)
def test_nothing_is_invented(file: tuple[str, str]) -> None:
    """What remains is a subsequence of what was there, character by character."""
    path, text = file
    remaining = iter(text)
    assert all(character in remaining for character in without(path, text, _cuda(path, text)))


@pytest.fixture(scope="module")
def apt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("apt-get") is None:
        pytest.skip("apt-get is the oracle of this test, and this machine has none")
    root = tmp_path_factory.mktemp("apt")
    for name in ("parts", "state/lists/partial", "cache/archives/partial", "etc"):
        (root / name).mkdir(parents=True)
    return root


def _apt_reads(root: Path, name: str, text: str) -> set[str] | None:
    """The InRelease addresses that the machine's own apt would fetch; None if it refuses the file."""
    file = root / "parts" / name
    file.write_bytes(text.encode())
    command = ["apt-get", "update", "--print-uris", "-o", "Dir::Etc::sourcelist=/dev/null"]
    for option, folder in (("Etc::sourceparts", "parts"), ("State", "state"), ("Cache", "cache"), ("Etc", "etc")):
        command += ["-o", f"Dir::{option}={root / folder}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    file.unlink()
    if done.returncode:
        return None
    return {line.split("'")[1] for line in done.stdout.splitlines() if "InRelease" in line}


def _we_read(name: str, text: str) -> set[str]:
    addresses = set()
    for entry in parse(name, text):
        for suite in entry.suites if entry.enabled else ():
            folder = suite.lstrip("/") if suite.endswith("/") else f"dists/{suite}/"
            addresses.add(f"{entry.uri.rstrip('/')}/{folder}InRelease")
    return addresses


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.tuples(st.just("x.list"), _list_text), st.tuples(st.just("x.sources"), _sources_text)))
def test_apt_reads_the_same(apt: Path, file: tuple[str, str]) -> None:
    name, text = file
    addresses = _apt_reads(apt, name, text)
    if addresses is not None:
        assert _we_read(name, text) == addresses
    rest = without(name, text, _cuda(name, text))
    addresses_after = _apt_reads(apt, name, rest)
    if addresses is not None:
        assert addresses_after is not None, "taking an entry out made the file unreadable for apt"
        assert addresses_after == {one for one in addresses if "nvidia" not in one}
