# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After role cuda_repository apt knows NVIDIA's repository once, verified, and nothing of anybody else's was lost."""

from __future__ import annotations

from testinfra.host import Host


def test_apt_has_nothing_to_say_about_the_repository(host: Host) -> None:
    updated = host.run("apt-get update")
    assert updated.rc == 0 and "cuda" not in updated.stderr, updated.stderr


def test_one_entry_names_the_repository(host: Host) -> None:
    indexes = host.check_output(
        "apt-get indextargets --format '$(SITE) $(REPO_URI)' 'Created-By: Packages'"
    ).splitlines()
    assert len([line for line in indexes if "/compute/cuda/repos/" in line]) == 1


def test_the_entry_is_of_this_distribution(host: Host) -> None:
    indexes = host.check_output("apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages'")
    assert "/compute/cuda/repos/debian12/x86_64/" in indexes


def test_one_key_alone_may_sign_it(host: Host) -> None:
    signed = host.check_output("grep -h '^Signed-By:' $(grep -rl compute/cuda/repos /etc/apt/sources.list.d)")
    assert signed == "Signed-By: /usr/share/keyrings/cuda-archive-keyring.gpg"


def test_nothing_is_trusted_unseen(host: Host) -> None:
    assert host.run("grep -riE '^[^#]*trusted[:=] *yes.*compute/cuda' /etc/apt").rc == 1


def test_the_compiler_can_be_installed(host: Host) -> None:
    assert "Candidate: 13.0.88-1" in host.check_output("apt-cache policy cuda-nvcc-13-0")


def test_the_colleagues_line_is_still_read(host: Host) -> None:
    assert "file:/var/local/packages" in host.check_output("apt-get indextargets --format '$(REPO_URI)'")


def test_what_was_taken_away_can_be_restored(host: Host) -> None:
    assert "debian11" in host.check_output("grep -rh debian11 /var/backups/proxmox_gpu")
