# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`down`: leave nothing behind, from whatever state: nothing up, half up, or after `kill -9` of anything."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

from testbed import cgroups, state
from testbed.layout import Layout


def down(box: Layout) -> int:
    """Remove the box; returns how many processes were ended.

    Mounts go with the nodes' namespaces, ports with the processes.
    """
    with state.locked(box):
        ended = cgroups.end(box.cgroup)
        ended += _end_masters(box.control_path)
        shutil.rmtree(box.control_path, ignore_errors=True)
        if box.state.exists():
            shutil.rmtree(box.state)
    (box.state.parent / f".{box.state.name}.lock").unlink(missing_ok=True)
    for folder in (box.state.parent, box.state.parent.parent):  # build/testbed and build, when nothing else is in them
        with contextlib.suppress(OSError):
            folder.rmdir()
    return ended


def _end_masters(control_path: Path) -> int:
    """End the ssh masters that clients left on the box's control path: they would keep a dead node's connection."""
    needle = f"{control_path}/"
    ended = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ProcessLookupError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            if words.startswith("ssh: ") and needle in words and "[mux]" in words:
                os.kill(int(folder.name), signal.SIGTERM)
                ended += 1
    return ended
