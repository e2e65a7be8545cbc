# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""STAND-IN for the Proxmox API: https as pveproxy answers it, and `pvesh`, over the box's own containers and files.

Shapes, privileges, reason phrases, delays and faults are those measured on pve-manager 9.2; nothing here is Proxmox
software. ``api.json`` in the box's folder (see `settings`) holds its accounts and the faults that a test wants.
"""
