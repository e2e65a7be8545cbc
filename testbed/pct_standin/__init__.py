# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""STAND-IN for Proxmox's ``pct``: the texts, exit codes and faults of the real one, over the real lxc tools.

Runs on the box's node as /usr/sbin/pct, by the system's python3, with the standard library only.
"""
