# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pct_exec connection outside of a play, on the box's inventory: what an action plugin would hold."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader

from tests.integration.box import Box

VMID = 310  # the container that the tests of this folder share; the next one is for those that need one alone
PYTHON = "/bin/sh -c /usr/bin/python3"


@functools.cache
def inventory_variables(path: Path) -> dict[str, Any]:
    """The variables of every container of the box."""
    groups = yaml.safe_load(path.read_text())["all"]
    return {**groups["vars"], **groups["children"]["training"]["vars"]}


class Link:
    """One connection to one container. What it returns is bytes, as the plugin does."""

    def __init__(self, box: Box, vmid: int | str, folder: str, **variables: object) -> None:
        self.vmid = str(vmid)
        self.folder = Path(folder)
        self.plugin = connection_loader.get("proxmox_gpu.training.pct_exec", PlayContext())
        known = inventory_variables(box.inventory)
        self.plugin.set_options(
            var_options={**known, "ansible_control_path_dir": folder, "pct_vmid": vmid, **variables}
        )

    def sh(self, command: str, stdin: bytes | None = None) -> tuple[int, bytes, bytes]:
        """A shell command line as Ansible hands it over."""
        result: tuple[int, bytes, bytes] = self.plugin.exec_command(f"/bin/sh -c {shlex.quote(command)}", stdin)
        return result

    def out(self, command: str, stdin: bytes | None = None) -> bytes:
        """Its stdout; anything but status 0 and an empty stderr is an AssertionError."""
        rc, out, err = self.sh(command, stdin)
        assert (rc, err) == (0, b""), (command, rc, out, err)
        return out

    def python(self, source: str, prefix: str = "") -> tuple[int, bytes, bytes]:
        """A script through Python's stdin, as a pipelined module arrives."""
        command = PYTHON if not prefix else f"/bin/sh -c {shlex.quote(f'{prefix} /usr/bin/python3')}"
        result: tuple[int, bytes, bytes] = self.plugin.exec_command(command, source.encode())
        return result

    def put(self, source: str | os.PathLike[str], destination: str) -> None:
        self.plugin.put_file(os.fspath(source), destination)

    def fetch(self, source: str, destination: str | os.PathLike[str]) -> None:
        self.plugin.fetch_file(source, os.fspath(destination))

    @property
    def resident(self) -> bool:
        """Whether a runner of this container is known to this login."""
        return any(self.folder.glob(f"pct-*-v{self.vmid}.json"))


@contextmanager
def links(box: Box) -> Iterator[Any]:
    """Yield link(vmid, **variables): connections with control sockets of their own, closed at the end."""
    folder = tempfile.mkdtemp(prefix="pct-", dir="/tmp")
    made: list[Link] = []

    def link(vmid: int | str, **variables: object) -> Link:
        made.append(Link(box, vmid, folder, **variables))
        return made[-1]

    try:
        yield link
    finally:
        for one in made:
            with suppress(AnsibleError):  # an id that was refused, a login that a test broke
                one.plugin.reset()
        shutil.rmtree(folder, ignore_errors=True)
