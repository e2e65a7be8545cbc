# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: is the fast path of a model bound, right and fast?

The same package is imported by the collection, zipped into the one-file ``fast_path_proof.py``, and handed to the
training interpreter in a child process. Inside it, imports are relative and torch is imported late.
"""
