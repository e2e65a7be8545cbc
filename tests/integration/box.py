# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node in a box as the tests use it: commands on the node and in containers, resets, playbooks.

container = box.container(300)            # made when missing
container.fresh()                         # bare again, 0.3 s; fresh("--from", "torch") starts from a snapshot
container.run("ls /root")                 # by lxc-attach, without ssh
box.node_ssh("pct list", user="ansible")  # as a client would
box.run_playbook(text, limit="ct300").ok()
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import client, containers, namespaces
from testbed.layout import CHECKOUT, Layout, layout
from tests.integration import playbook_result

Completed = subprocess.CompletedProcess[str]
CALLBACKS = Path(__file__).parent / "callback_plugins"


class Box:
    """The box of a name (default: that of TESTBED_NAME)."""

    def __init__(self, name: str | None = None) -> None:
        self.environment = {**os.environ, **({"TESTBED_NAME": name} if name else {})}
        self.layout: Layout = layout(self.environment)

    @property
    def inventory(self) -> Path:
        return self.layout.state / "inventory.yml"

    def testbed(self, *arguments: str, check: bool = True, timeout: float = 900) -> Completed:
        """One command of ``python3 -m testbed``."""
        result = subprocess.run(
            [sys.executable, "-m", "testbed", *arguments],
            cwd=CHECKOUT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert not check or result.returncode == 0, f"testbed {arguments}: {result.stdout}{result.stderr}"
        return result

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.testbed("status", "--json", check=False).stdout)
        return status

    def is_up(self) -> bool:
        return bool(self.status()["up"])

    def container(self, vmid: int | str, *options: str) -> Container:
        """A container of the box, made (with options of ``testbed create``) when there is none of this id."""
        if str(vmid) not in self.status()["containers"]:
            self.testbed("create", str(vmid), *options)
        return Container(self, str(vmid))

    def fresh(self, vmid: int | str, *options: str) -> Container:
        """A container in its bare state; options are those of ``testbed fresh``."""
        self.testbed("fresh", str(vmid), *options)
        return Container(self, str(vmid))

    def node(
        self,
        *command: str,
        stdin: str = "",
        timeout: float = 60,
        environment: Mapping[str, str] | None = None,
        on: str | None = None,
    ) -> Completed:
        """A command as a node's root (the first one's), without ssh, with exactly the given environment and a PATH."""
        return subprocess.run(
            namespaces.enter_command(self.layout.node(on) if on else self.layout.nodes[0], command),
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            check=False,
            env={"PATH": namespaces.ENVIRONMENT["PATH"], **(environment or {})},
        )

    def node_ssh(self, command: str, *, user: str = "root", stdin: str = "", timeout: float = 60) -> Completed:
        """A shell command on the node over ssh, each time by a connection of its own."""
        return subprocess.run(
            [*client.ssh_command(self.layout, user), command],
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            check=False,
        )

    def attach(self, vmid: int | str, command: str, *, stdin: str = "", timeout: float = 60) -> Completed:
        """A shell command in a container, by lxc-attach with a clean environment."""
        words = ["lxc-attach", "-n", str(vmid), "--clear-env", "--", "/bin/sh", "-c", command]
        where = containers.node_of(self.layout, str(vmid)).name
        return self.node(*words, stdin=stdin, timeout=timeout, on=where)

    def run_playbook(
        self,
        playbook: str | Path,
        limit: str = "training",
        extra_vars: Mapping[str, object] | None = None,
        *,
        check: bool = False,
        diff: bool = False,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        timeout: float = 600,
    ) -> playbook_result.PlaybookResult:
        """Run a playbook (a path, or its text) with this checkout's tools and collection on the box's inventory."""
        with tempfile.TemporaryDirectory(prefix="playbook-") as folder:
            path = (
                Path(playbook) if isinstance(playbook, Path) or "\n" not in playbook else Path(folder, "playbook.yml")
            )
            if path.parent == Path(folder):
                path.write_text(str(playbook))
            command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.inventory), "-l", limit]
            command += ["-e", json.dumps(extra_vars)] if extra_vars else []
            command += ["--check"] if check else []
            command += ["--diff"] if diff else []
            started = time.monotonic()
            result = subprocess.run(
                [*command, *arguments, str(path)],
                cwd=CHECKOUT,
                env={**self._ansible_environment(Path(folder)), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout,
                check=False,
            )
            seconds = time.monotonic() - started
            return playbook_result.read(result.returncode, result.stdout, seconds, Path(folder, "results"))

    def _ansible_environment(self, folder: Path) -> dict[str, str]:
        """The person's own ansible settings stay out; results are recorded."""
        kept = {name: value for name, value in self.environment.items() if not name.startswith("ANSIBLE_")}
        return kept | {
            "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "tree"),
            "ANSIBLE_HOME": str(CHECKOUT / "build" / "ansible"),
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "record_results",
            "ANSIBLE_NOCOLOR": "1",
            "RECORD_RESULTS": str(folder / "results"),
        }


@dataclass(frozen=True)
class Container:
    """A container of a box."""

    box: Box
    vmid: str

    @property
    def host(self) -> str:
        """Its name in the inventory."""
        return f"ct{self.vmid}"

    def fresh(self, *options: str) -> Container:
        return self.box.fresh(self.vmid, *options)

    def attach(self, command: str, *, stdin: str = "", timeout: float = 60) -> Completed:
        return self.box.attach(self.vmid, command, stdin=stdin, timeout=timeout)

    def run(self, command: str, *, stdin: str = "", timeout: float = 60) -> str:
        """Its output; a command that fails is an AssertionError."""
        result = self.attach(command, stdin=stdin, timeout=timeout)
        assert result.returncode == 0, f"{command!r} in {self.vmid}: {result.returncode} {result.stdout}{result.stderr}"
        return result.stdout

    def write(self, path: str, text: str) -> None:
        self.run(f"mkdir -p '{Path(path).parent}' && cat > '{path}'", stdin=text)

    def exists(self, path: str) -> bool:
        return self.attach(f"test -e '{path}'").returncode == 0

    def snapshot(self, name: str) -> None:
        self.box.testbed("snapshot", self.vmid, name)
