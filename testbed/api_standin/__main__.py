# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve a box's API: ``python3 -m testbed.api_standin STATE CACHE``, started by `up` in the box's state folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from testbed.api_standin.server import serve
from testbed.layout import Layout

if __name__ == "__main__":
    os.chdir(sys.argv[1])  # the socket's path is relative: an absolute one may be longer than a socket's may be
    serve(Layout(Path(sys.argv[1]), Path(sys.argv[2])))
