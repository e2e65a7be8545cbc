# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes ``ansible_collections.proxmox_gpu.training`` importable from a checkout that lies anywhere.

ansible-core finds a collection only below a folder named ``ansible_collections``, so build/tree holds the
name as a link to this checkout. Under ansible-test the collection already lies where it must, and its own
finder is at work.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def lay_tree(checkout: Path) -> Path:
    """The folder that holds ansible_collections/, made when missing (several pytest workers may do so at once)."""
    tree = checkout / "build" / "tree"
    name = tree / "ansible_collections" / "proxmox_gpu" / "training"
    name.parent.mkdir(parents=True, exist_ok=True)
    if not name.is_symlink():
        with contextlib.suppress(FileExistsError):
            name.symlink_to("../../../..", target_is_directory=True)
    return tree


if "ansible_pytest_collections" not in sys.modules:
    from ansible.plugins.loader import init_plugin_loader

    init_plugin_loader([str(lay_tree(CHECKOUT))])
