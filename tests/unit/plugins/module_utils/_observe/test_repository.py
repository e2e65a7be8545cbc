# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 5, facts: entries, keys, and what apt holds of an index, with the names that apt itself gives to files."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import network, repository

URL = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
STEM = "/var/lib/apt/lists/developer.download.nvidia.com_compute_cuda_repos_debian12_x86%5f64_"
LINE = f"deb [signed-by={KEYRING}] {URL} /\n"


def observed(machine: Any, **wishes: Any) -> dict[str, Any]:
    return repository.observe(machine.host, wishes)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        # As apt-get update --print-uris (2.6.1) names them.
        ("https://user:pw@developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/", STEM.rpartition("/")[2]),
        (
            "http://127.0.0.1:21007/a~b/compute/cuda/repos/debian12/x86_64",
            "127.0.0.1:21007_a%7eb_compute_cuda_repos_debian12_x86%5f64_",
        ),
        ("file:/var/cuda-repo-debian12-13-0-local", "_var_cuda-repo-debian12-13-0-local_"),
        ("http://h.lan/x+y,z(1)/c", "h.lan_x+y,z(1)_c_"),
    ],
)
def test_list_name(uri: str, name: str) -> None:
    assert repository.list_name(uri) == name


def test_machine_without_any_entry(machine: Any) -> None:
    machine.file("/etc/apt/sources.list", "deb http://deb.debian.org/debian bookworm main\n")
    facts = observed(machine)
    assert (facts["entries"], facts["keyring"], facts["fetched"], facts["malformed"]) == ([], None, False, [])


def test_entries_of_both_formats_and_of_the_files_that_apt_reads(machine: Any) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", LINE)
    machine.file("/etc/apt/sources.list.d/cuda.list.bak", LINE)
    machine.file("/etc/apt/sources.list.d/cuda.sources", f"Types: deb\nURIs: {URL}\nSuites: /\nEnabled: no\n")
    entries = observed(machine)["entries"]
    assert [(item["file"].rpartition("/")[2], item["enabled"]) for item in entries] == [
        ("cuda.list", True),
        ("cuda.sources", False),
    ]


def test_entry_of_a_mirror_is_known_by_the_wish(machine: Any) -> None:
    machine.file("/etc/apt/sources.list.d/x.list", "deb http://mirror.lan/nv/debian12/x86_64/ /\n")
    assert observed(machine)["entries"] == []
    assert len(observed(machine, mirror="http://mirror.lan/nv")["entries"]) == 1


@pytest.mark.parametrize("text", ["debb http://x y\n", f"deb {URL}\n", "<<<<<<< HEAD\n"])
def test_file_that_apt_cannot_read(machine: Any, text: str) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", f"# a comment\n{text}")
    [problem] = observed(machine)["malformed"]
    assert problem["file"] == "/etc/apt/sources.list.d/cuda.list"
    assert "line 2" in problem["problem"]


def test_keyring_that_is_missing_or_no_keyring(machine: Any) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", LINE)
    missing = observed(machine)["keyring"]
    assert (missing["path"], missing["exists"], missing["fingerprints"]) == (KEYRING, False, [])
    machine.file(KEYRING, b"<html>not a key</html>")
    keyring = observed(machine)["keyring"]
    assert keyring["exists"]
    assert keyring["fingerprints"] == []
    assert keyring["problem"]


def test_fingerprint_in_signed_by_counts_as_a_key(machine: Any) -> None:
    fingerprint = "EB693B3035CD5710E231E123A4B469963BF863CC"
    machine.file("/etc/apt/sources.list.d/cuda.list", f"deb [signed-by={fingerprint}] {URL} /\n")
    assert observed(machine)["keyring"]["fingerprints"] == [fingerprint]


@pytest.mark.parametrize(
    ("files", "fetched"),
    [
        ((), False),
        (("InRelease",), False),
        (("Packages",), False),
        (("InRelease", "Packages"), True),
        (("InRelease", "Packages.lz4"), True),
        (("Release", "Release.gpg", "Packages.xz"), True),
    ],
)
def test_fetched_means_a_verified_index_and_packages(machine: Any, files: tuple[str, ...], fetched: bool) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", LINE)
    for name in files:
        machine.file(STEM + name)
    facts = observed(machine)
    assert facts["fetched"] is fetched


def test_index_of_another_architecture_does_not_count(machine: Any) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", LINE)
    for name in ("InRelease", "Packages"):
        machine.file(STEM.replace("x86%5f64", "sbsa") + name)
    assert observed(machine)["fetched"] is False


def test_signature_that_gpgv_refuses(machine: Any) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", LINE)
    machine.file(KEYRING, b"x")
    machine.file(STEM + "InRelease")
    machine.file("/usr/bin/gpgv", "#!/bin/sh\necho 'gpgv: BAD signature from x' >&2\nexit 1\n", 0o755)
    facts = observed(machine)["signature"]
    assert (facts["verified"], facts["problem"]) == (False, "BAD signature from x")


def test_signature_without_gpgv_is_not_known(machine: Any) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", LINE)
    machine.file(KEYRING, b"x")
    machine.file(STEM + "InRelease")
    assert observed(machine)["signature"] == {"verified": None}


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/good/InRelease" else 503)
        self.end_headers()
        self.wfile.write(b"x")

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_network_answers(server: str) -> None:
    assert network.fetch(f"{server}/good/InRelease", None)["error"] is None
    assert network.fetch(f"{server}/bad/InRelease", None)["error"].startswith("it answers 503")
    assert network.fetch(f"{server}/good/InRelease", server)["error"].startswith("it answers 503")


def test_network_that_refuses() -> None:
    assert "refused" in network.fetch("http://127.0.0.1:1/InRelease", None)["error"]


def test_network_is_not_asked_about_files() -> None:
    assert network.fetch("file:/var/cuda-repo/InRelease", None)["error"] is None


def test_nothing_leaves_the_machine_unless_asked(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", LINE)
    monkeypatch.setattr(network, "fetch", lambda *_arguments: pytest.fail("a request was made"))
    assert "network" not in observed(machine)
