# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""A file that is written whole or not at all, so that no reader ever sees half of one."""

from __future__ import annotations

import os
import tempfile


def replace(path: str, text: str, mode: int, folder_mode: int = 0o755) -> None:
    """Write ``text`` under a hidden name in the same folder, which is made where it is missing, and rename it."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, mode=folder_mode, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
