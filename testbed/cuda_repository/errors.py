# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong while the stand-in is built."""

from __future__ import annotations

from testbed.errors import TestbedError


class BuildError(TestbedError):
    """The stand-in could not be built; the message is one sentence for the person at the keyboard."""
