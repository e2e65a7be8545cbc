# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 5, facts: entries, keys, and what apt holds of an index, with the names that apt itself gives to files."""

from __future__ import annotations

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


ENTRY = {"uri": "http://mirror.lan/debian12/x86_64/", "suites": ["/"], "components": [], "signed_by": KEYRING}
FETCH = "E: Failed to fetch http://mirror.lan/debian12/x86_64/InRelease  "


def asked(machine: Any, prints: str, status: int = 100, proxy: str = "") -> dict[str, Any]:
    """What is made of these words of apt."""
    machine.program("/usr/bin/apt-get", prints, status)
    machine.program("/usr/bin/apt-config", f"P1='{proxy}'" if proxy else "")
    return network.fetch(machine.host, ENTRY)


def test_network_where_apt_fetches_the_index(machine: Any) -> None:
    answer = asked(machine, "Get:1 http://mirror.lan/debian12/x86_64 InRelease", status=0)
    assert (answer["error"], answer["kind"]) == (None, None)


@pytest.mark.parametrize(
    ("prints", "proxy", "kind", "transient", "words"),
    [
        (f"{FETCH}503  Service Unavailable [IP: 1.2.3.4 80]", "", "server_error", True, "503"),
        (
            f"{FETCH}407  Proxy Authentication Required [IP: 10.0.0.9 3142]",
            "http://me:secret@proxy.lan:3142",
            "proxy",
            False,
            "the proxy proxy.lan:3142 refused the request",
        ),
        (f"{FETCH}Could not connect to proxy.lan:3142 (10.0.0.9). - connect (111: Connection refused)\n",
         "http://proxy.lan:3142", "proxy", True, "the proxy proxy.lan:3142 cannot be reached"),
        (f"{FETCH}Temporary failure resolving 'mirror.lan'\n", "", "unreachable", True, "cuda_repository_mirror"),
        (f"{FETCH}Certificate verification failed: The certificate is NOT trusted. [IP: 1.2.3.4 443]\n", "", "tls",
         False, "bootstrap_ca_certificates"),
        ("W: GPG error: http://mirror.lan x: NO_PUBKEY A4B469963BF863CC", "", "missing_key", False, "A4B469963BF863CC"),
        ("nothing that anybody knows", "", "other", False, "status 100"),
    ],
)  # fmt: skip
def test_network_that_refuses(machine: Any, prints: str, proxy: str, kind: str, transient: bool, words: str) -> None:
    answer = asked(machine, prints, proxy=proxy)
    assert (answer["kind"], answer["transient"]) == (kind, transient)
    assert words in answer["error"]
    assert "secret" not in answer["error"]


def test_network_that_does_not_end(machine: Any) -> None:
    machine.file("/usr/bin/apt-get", "#!/bin/sh\nexec sleep 30\n", 0o755)
    answer = network.fetch(machine.host, ENTRY, seconds=0.2)
    assert (answer["kind"], answer["transient"]) == ("timeout", True)


def test_network_is_not_asked_about_files(machine: Any) -> None:
    assert network.fetch(machine.host, {**ENTRY, "uri": "file:/var/cuda-repo"})["error"] is None


def test_an_embedded_key_stays_a_key() -> None:
    text = network.stanza({**ENTRY, "signed_by": "-----BEGIN PGP\n\nabc"})
    assert text.endswith("Signed-By: -----BEGIN PGP\n .\n abc\n")


def test_nothing_leaves_the_machine_unless_asked(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", LINE)
    monkeypatch.setattr(network, "fetch", lambda *_arguments: pytest.fail("a request was made"))
    assert "network" not in observed(machine)


def test_a_keyring_that_only_root_may_read(machine: Any) -> None:
    machine.file("/etc/apt/sources.list.d/cuda.list", LINE)
    path = machine.file(KEYRING, b"x")
    assert observed(machine)["keyring"]["private"] is None
    path.chmod(0o600)
    assert observed(machine)["keyring"]["private"] == "it has mode 0600"
    path.chmod(0o644)
    path.parent.chmod(0o700)
    assert observed(machine)["keyring"]["private"] == "its folder has mode 0700"
