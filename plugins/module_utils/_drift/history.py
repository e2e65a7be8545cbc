# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The nights that were: one JSON line a run in one file, each complete or not there. Pruned by age.

A line that was cut off by a crash, or that another release wrote, is passed over; what is appended next begins a line
of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from typing import Any

from .. import _whole_file

SCHEMA = 1
#: Reports name hosts and versions: not for everybody on the control node.
FILE_MODE, FOLDER_MODE = 0o640, 0o750
Record = dict[str, Any]


def parse(text: str) -> list[Record]:
    """The records of a history's text, oldest first."""
    found = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("schema") == SCHEMA and isinstance(record.get("hosts"), Mapping):
            found.append(record)
    return sorted(found, key=lambda record: float(record["when"]))


def read(path: str) -> list[Record]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse(file.read())
    except FileNotFoundError:
        return []


def append(path: str, record: Record, oldest: float) -> None:
    """Add a run, and drop those before ``oldest``. One writer at a time; a reader never sees half a file."""
    os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
    line = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    with open(f"{path}.lock", "a", encoding="utf-8") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        kept = read(path)
        if kept and float(kept[0]["when"]) < oldest:
            lines = [json.dumps(one, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for one in kept]
            young = [text + "\n" for one, text in zip(kept, lines) if float(one["when"]) >= oldest]
            _whole_file.replace(path, "".join(young) + line, FILE_MODE, FOLDER_MODE)
            return
        with open(path, "ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
