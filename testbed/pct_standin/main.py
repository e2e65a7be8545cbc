# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry of the stand-in: start-up cost, then the command. Facts: pve-container 6.1.10 as it was measured."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    """Run one pct command line; returns the exit code (``exec`` replaces the process instead)."""
    from testbed.pct_standin import commands

    return commands.run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
