# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writing files that somebody may be reading at this moment: whole, at once, and only when something changed."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Make the file hold exactly this text with this mode; a symbolic link in its place is replaced, not followed."""
    if not path.is_symlink() and path.is_file() and path.stat().st_mode & 0o7777 == mode and path.read_text() == text:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.chmod(mode)
    draft.replace(path)
