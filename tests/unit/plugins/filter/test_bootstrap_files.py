# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Certificates are told apart by content alone; proxies become apt's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.filter.bootstrap_files import FilterModule

bootstrap_files = FilterModule().filters()["bootstrap_files"]
ONE = "-----BEGIN CERTIFICATE-----\nMIIB\nAAAA\n-----END CERTIFICATE-----"
TWO = ONE.replace("AAAA", "BBBB")


def test_a_bundle_is_cut_and_its_comments_are_dropped(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(f"# one\n{ONE}\n\nsubject=two\n{TWO}\n{ONE}\n")
    found = bootstrap_files([str(bundle)])["certificates"]
    assert list(found.values()) == [ONE, TWO]
    assert all(name.startswith("proxmox-gpu-") and len(name) == len("proxmox-gpu-") + 16 + 4 for name in found)


def test_the_name_depends_on_the_content_alone(tmp_path: Path) -> None:
    for name, text in (("a.pem", ONE), ("b.crt", "x\r\n" + ONE.replace("\n", "\r\n") + "\r\n")):
        (tmp_path / name).write_bytes(text.encode())
    assert len(bootstrap_files([str(tmp_path / "a.pem"), str(tmp_path / "b.crt")])["certificates"]) == 1


def test_no_certificates_and_no_proxy() -> None:
    made = bootstrap_files([])
    assert (made["certificates"], made["empty"], made["apt_proxy"]) == ({}, [], "")


def test_a_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text(ONE)
    (tmp_path / "b.pem").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    found = bootstrap_files([str(tmp_path / "a.pem"), str(tmp_path / "b.pem")])
    assert found["empty"] == [str(tmp_path / "b.pem")]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bootstrap_files([str(tmp_path / "none.pem")])


def test_proxies_in_apt_s_words() -> None:
    text = bootstrap_files([], http_proxy="http://p:3128", no_proxy="a.example, ,b.example")["apt_proxy"]
    assert text.splitlines() == [
        "// Managed by the role proxmox_gpu.training.bootstrap.",
        'Acquire::http::Proxy "http://p:3128";',
        'Acquire::http::Proxy::a.example "DIRECT";',
        'Acquire::http::Proxy::b.example "DIRECT";',
    ]
    both = bootstrap_files([], http_proxy="http://p:1", https_proxy="http://q:2")["apt_proxy"]
    assert 'Acquire::https::Proxy "http://q:2";' in both.splitlines()
