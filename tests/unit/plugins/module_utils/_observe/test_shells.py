# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a login shell is told, and what of it leads a training job astray."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import shells

SITE = "/opt/training/lib/python3.11/site-packages"


def test_lines_are_found_in_the_order_of_a_login(machine: Any) -> None:
    machine.file("/root/.bashrc", "# CUDA_HOME=/commented\n  export CUDA_HOME=/b # mine\n")
    machine.file("/etc/environment", "CUDA_HOME='/a'\nOTHER=1\n")
    found = [(item["file"], item["value"]) for item in shells.assignments(machine.host, "CUDA_HOME")]
    assert found == [("/etc/environment", "/a"), ("/root/.bashrc", "/b")]


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("PYTHONPATH=/srv/old", "fla"),
        ("PYTHONPATH=/srv/project:/srv/old", "fla"),
        ("PYTHONPATH=/srv/project", None),
        (f"PYTHONPATH={SITE}", None),
        ("PYTHONHOME=/usr", "the standard library"),
        ("LD_LIBRARY_PATH=/srv/lib", "libcublas.so.13"),
        ("LD_LIBRARY_PATH=/srv/same:/srv/none", None),
    ],
)
def test_what_comes_before_the_environment(machine: Any, line: str, holds: str | None) -> None:
    machine.file("/srv/old/fla/__init__.py")
    machine.file("/srv/project/mine.py")
    machine.file(f"{SITE}/fla/__init__.py")
    for folder, size in ((f"{SITE}/nvidia/cu13/lib", 9), ("/srv/lib", 7), ("/srv/same", 9)):
        machine.file(f"{folder}/libcublas.so.13", "x" * size)
    machine.file("/etc/profile.d/mine.sh", f"export {line}\n")
    assert [item["holds"] for item in shells.astray(machine.host, SITE)] == ([holds] if holds else [])
