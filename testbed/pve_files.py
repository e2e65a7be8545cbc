# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of /etc/pve that a node offers: ``nodes/NODE/lxc/ID.conf`` and ``.vmlist``, in their real shapes.

Used by the testbed (which writes them) and by the pct stand-in (which reads and edits them), so it stays small and
free of both.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

WWW_DATA = 33  # gid of www-data in every Debian


def parse_conf(text: str) -> dict[str, str]:
    """Keys of the current configuration, in file order. Snapshot and pending sections end it; comments are left out."""
    conf: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("["):
            break
        key, separator, value = line.partition(":")
        if separator and not line.startswith("#"):
            conf[key.strip()] = value.strip()
    return conf


@dataclass
class Pending:
    """Changes that wait for the next start: the section ``[pve:pending]`` of a config file."""

    changed: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)


def parse_pending(text: str) -> Pending:
    pending = Pending()
    _, found, section = text.partition("[pve:pending]\n")
    if found:
        pending.changed = parse_conf(section)
        pending.deleted = set(pending.changed.pop("delete", "").split(",")) - {""}
    return pending


def with_pending(conf: dict[str, str], pending: Pending) -> dict[str, str]:
    """The configuration as it will be at the next start."""
    return {**{key: value for key, value in conf.items() if key not in pending.deleted}, **pending.changed}


def raw_lxc_lines(text: str) -> list[tuple[str, str]]:
    """``lxc.*`` lines (they may repeat, so they are no dict), as (key, value)."""
    found = []
    for line in text.split("\n[")[0].splitlines():
        key, separator, value = line.partition(":")
        if separator and key.strip().startswith("lxc."):
            found.append((key.strip(), value.strip()))
    return found


def digest(text: str) -> str:
    """What the API calls a configuration's digest."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def snapshot_sections(text: str) -> dict[str, str]:
    """The sections of an ID.conf that keep a snapshot's configuration: name → its lines."""
    sections: dict[str, str] = {}
    name = None
    for line in text.splitlines():
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1]
            continue
        if name not in (None, "pve:pending") and line.strip():
            sections[str(name)] = sections.get(str(name), "") + f"{line}\n"
    return sections


def format_conf(
    conf: dict[str, str],
    raw: list[tuple[str, str]] | None = None,
    pending: Pending | None = None,
    snapshots: dict[str, str] | None = None,
) -> str:
    """Text of an ID.conf: sorted keys, the raw lines, the pending section, the snapshots', as Proxmox writes it."""
    lines = [f"{key}: {conf[key]}" for key in sorted(conf) if not key.startswith("lxc.")]
    lines += [f"{key}: {value}" for key, value in raw or []]
    if pending and (pending.changed or pending.deleted):
        lines += ["", "[pve:pending]"]
        lines += [f"delete: {','.join(sorted(pending.deleted))}"] if pending.deleted else []
        lines += [f"{key}: {pending.changed[key]}" for key in sorted(pending.changed)]
    lines += [f"\n[{name}]\n{text.rstrip()}" for name, text in (snapshots or {}).items()]
    return "\n".join(lines) + "\n"


def write_file(path: Path, text: str, mode: int = 0o640) -> None:
    """Replace a file atomically; everything under /etc/pve belongs to root:www-data."""
    temporary = path.with_name(f".{path.name}.tmp.{os.getpid()}")
    temporary.write_text(text)
    os.chmod(temporary, mode)
    os.chown(temporary, 0, WWW_DATA)
    temporary.replace(path)


def refresh_vmlist(pve: Path) -> None:
    """Write ``.vmlist`` anew from the config files. Numbers grow: of the list on each change, of an entry when it came.

    A real node makes this file up on each read (pmxcfs); here whoever changes a config file calls this.
    """
    path = pve / ".vmlist"
    with open(pve / ".vmlist.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            before = json.loads(path.read_text())
        except (OSError, ValueError):
            before = {"version": 0}
        known = before.get("ids", {})
        places = {}
        for kind, folder in (("lxc", "lxc"), ("qemu", "qemu-server")):
            for file in pve.glob(f"nodes/*/{folder}/*.conf"):
                if file.stem.isdecimal():
                    places[file.stem] = (file.parent.parent.name, kind)
        version = before["version"]
        ids = {}
        for vmid, (node, kind) in places.items():
            old = known.get(vmid, {})
            if (old.get("node"), old.get("type")) != (node, kind):
                version += 1
                old = {"version": version}
            ids[vmid] = {"node": node, "type": kind, "version": old["version"]}
        if set(known) - set(ids):
            version += 1
        write_file(path, _vmlist_text(version, ids), 0o440)


def _vmlist_text(version: int, ids: dict[str, dict[str, object]]) -> str:
    """The layout of pmxcfs: one guest a line, and no ``ids`` key without any guest."""
    if not ids:
        return f'{{\n"version": {version}}}\n'
    lines = [
        f'"{vmid}": {{ "node": "{entry["node"]}", "type": "{entry["type"]}", "version": {entry["version"]} }}'
        for vmid, entry in ids.items()
    ]
    return f'{{\n"version": {version},\n"ids": {{\n' + ",\n".join(lines) + "}\n\n}\n"
