# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bare container has after role bootstrap: all that the next links need of the operating system."""

from __future__ import annotations

from testinfra.host import Host


def test_python_runs(host: Host) -> None:
    assert host.run("/usr/bin/python3 -c 'import sys; assert sys.version_info >= (3, 9)'").rc == 0
