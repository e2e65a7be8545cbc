# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of a container that are real: the overlay's changes are copied, the configuration becomes a section.

The work of the tasks vzsnapshot, vzrollback and vzdelsnapshot. What the real ones refuse ends here as `TaskFailed`
with the same text. A copy lies in ``snapshots/NAME`` of the container's folder.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from testbed import containers, pve_files
from testbed.api_standin.refusal import Refusal, TaskFailed
from testbed.layout import Layout, NodeLayout


class Container:
    """One container as a task works on it."""

    def __init__(self, box: Layout, settings: dict[str, Any], node: str, vmid: str) -> None:
        self.node: NodeLayout = box.node(node)
        self.vmid = vmid
        self.settings = settings
        self.path = self.node.pve_containers / f"{vmid}.conf"
        try:
            self.text = self.path.read_text()
        except FileNotFoundError:
            raise TaskFailed(f"Configuration file 'nodes/{node}/lxc/{vmid}.conf' does not exist") from None
        self.conf = pve_files.parse_conf(self.text)
        self.sections = pve_files.snapshot_sections(self.text)
        if "lock" in self.conf:
            raise TaskFailed(f"CT is locked ({self.conf['lock']})")

    @property
    def folder(self) -> Path:
        return self.node.lxc / self.vmid

    def write(self) -> None:
        pending = pve_files.parse_pending(self.text)
        raw = pve_files.raw_lxc_lines(self.text)
        pve_files.write_file(self.path, pve_files.format_conf(self.conf, raw, pending, self.sections))

    def copy_of(self, name: str) -> Path:
        return self.folder / "snapshots" / name

    def need(self, name: str) -> None:
        if name not in self.sections:
            raise TaskFailed(f"snapshot '{name}' does not exist")


def able(conf: dict[str, str], settings: dict[str, Any]) -> bool:
    """Whether the storage of the root file system has snapshots."""
    return conf.get("rootfs", "").partition(":")[0] not in settings["unable_storages"]


def create(container: Container, name: str, description: str) -> None:
    if name in container.sections:
        raise TaskFailed(f"snapshot name '{name}' already used")
    if not able(container.conf, container.settings):
        raise TaskFailed("snapshot feature is not available")
    _copy(container.folder / "upper", container.copy_of(name))
    kept = dict(container.conf) | {"snaptime": str(int(time.time()))}
    kept |= {"description": description.strip()} if description.strip() else {}
    container.sections[name] = pve_files.format_conf(kept, pve_files.raw_lxc_lines(container.text))
    container.conf["parent"] = name
    container.write()


def rollback(container: Container, name: str, start: bool) -> None:
    """Files and configuration of then; a running container is stopped first, and stays so unless ``start``."""
    container.need(name)
    containers.stop(container.node, [container.vmid])
    shutil.rmtree(container.folder / "upper")
    shutil.rmtree(container.folder / "olwork", ignore_errors=True)
    _copy(container.copy_of(name), container.folder / "upper")
    section = container.sections[name]
    conf = pve_files.parse_conf(section) | {"parent": name}
    for key in ("snaptime", "description"):
        conf.pop(key, None)
    formatted = pve_files.format_conf(conf, pve_files.raw_lxc_lines(section), snapshots=container.sections)
    pve_files.write_file(container.path, formatted)
    if start:
        containers.start(container.node, [container.vmid])


def delete(container: Container, name: str) -> None:
    container.need(name)
    parent = pve_files.parse_conf(container.sections.pop(name)).get("parent")
    for other, text in container.sections.items():
        if f"parent: {name}\n" in text:
            replaced = f"parent: {parent}\n" if parent else ""
            container.sections[other] = text.replace(f"parent: {name}\n", replaced)
    if container.conf.get("parent") == name:
        container.conf.pop("parent")
        container.conf |= {"parent": parent} if parent else {}
    container.write()
    shutil.rmtree(container.copy_of(name), ignore_errors=True)


def pct(node: NodeLayout, action: str, vmid: str) -> None:
    """Start or stop by the node's own pct stand-in, whose last words are the task's."""
    from testbed import namespaces  # the API stand-in alone runs outside of a node

    result = namespaces.run_in_node(node, ["pct", action, vmid], timeout=120, check=False)
    if result.returncode:
        raise TaskFailed((result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1])


def _copy(source: Path, target: Path) -> None:
    """With owners, modes, attributes and the overlay's whiteouts."""
    target.parent.mkdir(exist_ok=True)
    result = subprocess.run(
        ["cp", "-a", "--reflink=auto", str(source), str(target)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if result.returncode:
        raise TaskFailed(f"cp failed: {result.stderr.strip()}")


def check_name(name: str | None) -> str:
    """What the API refuses before there is a task."""
    if not name:
        raise Refusal(400, "Parameter verification failed.", {"snapname": "property is missing and it is not optional"})
    if not name[0].isalpha() or not name.replace("_", "").replace("-", "").isalnum():
        raise Refusal(
            400, "Parameter verification failed.", {"snapname": f"invalid format - invalid configuration ID '{name}'\n"}
        )
    if name == "current":
        raise Refusal(500, "unable to use snapshot name 'current' (reserved name)")
    return name
