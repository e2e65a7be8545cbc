# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that the tests of the inventory list: two nodes, and containers with a GPU in each of the two forms."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from testbed import pve_files
from tests.integration.box import Box

FIRST, SECOND, NAMELESS = "310", "311", "312"
RAW = [
    ("lxc.cgroup2.devices.allow", "c 195:* rwm"),
    ("lxc.cgroup2.devices.allow", "c 511:* rwm"),
    ("lxc.mount.entry", "/dev/nvidia0 dev/nvidia0 none bind,optional,create=file"),
]


@contextlib.contextmanager
def made(box: Box) -> Iterator[Box]:
    """A container with a GPU by devN on pve1; one by raw lines, and one that nothing is heard of, on pve2."""
    box.testbed("create", FIRST, "--stopped")
    box.testbed("create", f"{SECOND},{NAMELESS}", "--stopped", "--node", "pve2")
    write_conf(box, "pve1", FIRST, tags="b,a;b", dev0="/dev/nvidia0,gid=44,mode=0660", dev1="path=/dev/nvidiactl")
    write_conf(box, "pve2", SECOND, raw=RAW, tags="{{ 7 * 7 }}", description="{{ lookup('pipe', 'id') }}")
    yield box
    box.testbed("remove", f"{FIRST},{SECOND},{NAMELESS}")


def write_conf(box: Box, node: str, vmid: str, raw: list[tuple[str, str]] | None = None, **keys: str) -> None:
    path = box.layout.node(node).pve_containers / f"{vmid}.conf"
    conf = pve_files.parse_conf(path.read_text()) | keys
    pve_files.write_file(path, pve_files.format_conf(conf, raw))
