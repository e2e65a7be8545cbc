# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Distribution and machine to NVIDIA's directory: the four supported systems, on both processors."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.filter.cuda_repository import FilterModule

cuda_repository = FilterModule().filters()["cuda_repository"]
NVIDIA = "https://developer.download.nvidia.com/compute/cuda/repos"


def system(name: str, version: str, machine: str = "x86_64") -> dict[str, Any]:
    return {"os": {"id": name, "version_id": version, "pretty_name": f"{name} {version}"}, "machine": machine}


@pytest.mark.parametrize(
    ("name", "version", "machine", "repository", "sha256", "key"),
    [
        ("ubuntu", "22.04", "x86_64", "ubuntu2204/x86_64", "d93190d5", "EB693B30"),
        ("ubuntu", "22.04", "aarch64", "ubuntu2204/sbsa", "36d1aed8", "EB693B30"),
        ("ubuntu", "24.04", "x86_64", "ubuntu2404/x86_64", "d2a6b11c", "EB693B30"),
        ("ubuntu", "24.04", "aarch64", "ubuntu2404/sbsa", "6ea7d273", "EB693B30"),
        ("debian", "12", "x86_64", "debian12/x86_64", "e7f219ea", "EB693B30"),
        ("debian", "12", "aarch64", "debian12/sbsa", "bf2f53b1", "EB693B30"),
        ("debian", "13", "x86_64", "debian13/x86_64", None, "02182E60"),
        ("debian", "13", "aarch64", "debian13/sbsa", None, "02182E60"),
    ],
)
def test_the_supported_systems(
    name: str, version: str, machine: str, repository: str, sha256: str | None, key: str
) -> None:
    found = cuda_repository(system(name, version, machine))
    assert found["error"] is None
    assert found["url"] == f"{NVIDIA}/{repository}/"
    assert found["name"] == repository.replace("/", "-")
    assert found["keyring_url"] == f"{NVIDIA}/{repository}/cuda-keyring_1.1-1_all.deb"
    assert (found["keyring_sha256"] or "")[:8] == (sha256 or "")
    assert [one[:8] for one in found["fingerprints"]] == [key]


def test_a_mirror_and_a_directory_of_one_s_own() -> None:
    found = cuda_repository(system("debian", "13"), mirror="http://mirror.example/nv/", directory="debian12")
    assert found["url"] == "http://mirror.example/nv/debian12/x86_64/"
    assert found["keyring_sha256"].startswith("e7f219ea")
    unknown = cuda_repository(system("linuxmint", "22"), directory="ubuntu9999")
    assert (unknown["error"], unknown["keyring_sha256"], unknown["fingerprints"]) == (None, None, [])
    assert unknown["url"] == f"{NVIDIA}/ubuntu9999/x86_64/"


def test_another_keyring_version_has_no_known_checksum() -> None:
    found = cuda_repository(system("debian", "12"), keyring_version="1.2-1")
    assert found["keyring_url"].endswith("/cuda-keyring_1.2-1_all.deb")
    assert found["keyring_sha256"] is None


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (system("alpine", "3.20"), ["alpine 3.20", "Debian 12", "Ubuntu 24.04"]),
        (system("debian", "11"), ["debian 11", "Debian 13"]),
        (system("debian", "12", "riscv64"), ["riscv64", "sbsa"]),
        ({}, ["None"]),
        ({"os": {}, "machine": "x86_64"}, ["a system without a name"]),
    ],
)
def test_what_is_not_supported_is_one_sentence(base: dict[str, Any], words: list[str]) -> None:
    error = cuda_repository(base)["error"]
    for word in words:
        assert word in error
