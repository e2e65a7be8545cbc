# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 10, facts: the record of the last proof on a GPU, and the lock that a good provision leaves. Nothing is run."""

from __future__ import annotations

from typing import Any

from .host import STATE, Host

RECORD = f"{STATE}/proof.json"
LOCK = "/etc/proxmox_gpu/training.lock.json"


def observe(host: Host, wishes: dict[str, Any]) -> dict[str, Any]:
    return {"record": host.read_json(RECORD), "record_file": RECORD, "lock": host.read_json(LOCK), "lock_file": LOCK}
