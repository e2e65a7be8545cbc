# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver libraries: versions, exact candidates, and what is said where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _gpu_libraries as libraries

DRIVER = "580.126.20"
MADISON = """\
  libcuda1 | 580.126.20-1 | https://mirror.example debian12 Packages
  libcuda1 | 580.126.2-1 | https://mirror.example debian12 Packages
libnvidia-ml1 | 1:580.126.20-1~deb12u1 | https://mirror.example debian12 Packages
nvidia-smi | 590.44.01-1 | https://mirror.example debian12 Packages
"""


def test_the_exact_version_alone() -> None:
    found = libraries.exact(MADISON, DRIVER)
    assert found == {"libcuda1": "580.126.20-1", "libnvidia-ml1": "1:580.126.20-1~deb12u1"}
    assert libraries.exact(MADISON, "580.126") == {}
    assert libraries.exact("libcuda1 | 580.126.20-1 | x\n", DRIVER) == {}  # half of it is none
    assert libraries.exact("libnvidia-compute-580 | 580.126.20-0ubuntu1 | x", DRIVER)


def test_a_runfile(tmp_path: Path) -> None:
    path = tmp_path / f"NVIDIA-Linux-x86_64-{DRIVER}.run"
    with pytest.raises(libraries.LibraryError, match="There is no runfile"):
        libraries.runfile_command(str(path), DRIVER)
    path.write_text("")
    assert "--no-kernel-modules" in libraries.runfile_command(str(path), DRIVER)
    with pytest.raises(libraries.LibraryError, match="must be equal to the last digit"):
        libraries.runfile_command(str(path), "580.126.2")
    with pytest.raises(libraries.LibraryError, match="gpu_passthrough_runfile is not set"):
        libraries.runfile_command(None, DRIVER)


def test_node_upgraded_and_container_behind_are_told_apart() -> None:
    said = libraries.refuse(["590.44.01"], DRIVER, "590.44.01")
    assert said and "reboot is pending" in said
    assert libraries.refuse([DRIVER], "590.44.01", "590.44.01") is None  # the container is behind
    assert libraries.refuse([], DRIVER, "590.44.01") is None
    assert libraries.refuse(["590.44.01"], DRIVER, None) is None
