# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Wait for a lock, but not for ever. It goes with the processes that hold the open file, however they end."""

from __future__ import annotations

import fcntl
import time
from typing import Callable, TextIO

POLL = 1.0  # seconds between two tries


def acquired(file: TextIO, limit: float, on_wait: Callable[[], None] = lambda: None) -> bool:
    """Lock an open file; False if somebody else held it for ``limit`` seconds. ``on_wait()`` comes before each wait."""
    give_up = time.monotonic() + limit
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= give_up:
                return False
            on_wait()
            time.sleep(POLL)
