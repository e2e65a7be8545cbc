# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that steers the API stand-in: accounts, privileges, and faults. Read anew for each request."""

from __future__ import annotations

import json
import secrets
import uuid
from pathlib import Path
from typing import Any

from testbed import files

AUDITOR = ["VM.Audit", "Sys.Audit", "Pool.Audit", "Datastore.Audit"]
DEFAULTS: dict[str, Any] = {
    "unauthorized_delay": 3.0,  # seconds before a 401, as pveproxy waits
    "certificate": "good",  # or expired, or foreign (of another CA)
    "offline": [],  # nodes that do not answer the one asked: 595
    "no_broadcast": [],  # ids (strings) that no statistics were heard of
    "slow": {},  # regular expression of "METHOD /path" → seconds before the answer
    "broken": {},  # the same → cut, html, empty, close, 595, 596, half (a list that lost keys)
    "unable_storages": ["dir"],  # rootfs on these has no snapshots
    "pools": {},  # name → [ids]
    "crowd": 0,  # so many containers more, from id 10000 on, that only this stand-in knows
}


def ensure(path: Path) -> None:
    """Write the file with accounts of this box's own when there is none."""
    if path.exists():
        return
    accounts = {
        "root@pam": {"password": secrets.token_hex(12), "tokens": {"all": _token(privsep=0)}},
        "reader@pve": {"password": secrets.token_hex(12), "tokens": {"inventory": _token()}},
        "keeper@pve": {"password": secrets.token_hex(12), "tokens": {"snapshots": _token()}},
        "nobody@pve": {"password": secrets.token_hex(12), "tokens": {"none": _token()}},
    }
    snapshots = ["VM.Audit", "VM.Snapshot", "VM.PowerMgmt"]
    acl = [
        *({"path": "/", "who": who, "privileges": AUDITOR} for who in ("reader@pve", "reader@pve!inventory")),
        *({"path": "/vms", "who": who, "privileges": snapshots} for who in ("keeper@pve", "keeper@pve!snapshots")),
    ]
    files.write(path, json.dumps({"users": accounts, "acl": acl}, indent=2) + "\n", 0o600)


def _token(privsep: int = 1) -> dict[str, object]:
    return {"secret": str(uuid.UUID(bytes=secrets.token_bytes(16), version=4)), "privsep": privsep}


def load(path: Path) -> dict[str, Any]:
    return DEFAULTS | json.loads(path.read_text())


def change(path: Path, **values: object) -> None:
    """Set some of them; None takes one back to its default."""
    kept = json.loads(path.read_text()) | values
    text = json.dumps({key: value for key, value in kept.items() if value is not None}, indent=2)
    files.write(path, text + "\n", 0o600)
