# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception of the testbed: its text is the sentence that the person at the keyboard reads."""

from __future__ import annotations


class TestbedError(Exception):
    """Something that the user can act on. ``__main__`` prints the sentence and exits 1, without a traceback."""

    __test__ = False  # pytest must not collect it
