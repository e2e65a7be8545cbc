# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No room on the node, which needs none, and none in the container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError

from tests.integration.box import Box, Container
from tests.integration.connection.faults.provoke import both, established

pytestmark = pytest.mark.timeout(600)


@both
def test_a_full_node_is_no_obstacle(box: Box, guest: Container, connect: Any, runner: bool, tmp_path: Path) -> None:
    """Nothing is ever put on the node."""
    folders = "/tmp /var/tmp"
    box.node("sh", "-c", f"for d in {folders}; do mount -t tmpfs -o size=4k none $d; cat /dev/zero > $d/x; done")
    try:
        link = established(connect, guest.vmid, runner)
        (tmp_path / "file").write_bytes(os.urandom(3_000_000))
        link.put(tmp_path / "file", "/root/file")
        link.fetch("/root/file", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()
    finally:
        box.node("sh", "-c", f"umount {folders}")


@both
@pytest.mark.parametrize("size", [200_000, 50_000_000])
def test_a_full_container_keeps_the_old_file(
    guest: Container, connect: Any, runner: bool, size: int, tmp_path: Path
) -> None:
    link = established(connect, guest.vmid, runner)
    link.out("mkdir /small && mount -t tmpfs -o size=100k none /small && echo old > /small/file")
    (tmp_path / "file").write_bytes(os.urandom(size))
    with pytest.raises(AnsibleError, match="writing failed .*No space left on device"):
        link.put(tmp_path / "file", "/small/file")
    assert link.out("ls -A /small; cat /small/file") == b"file\nold\n"
