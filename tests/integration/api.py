# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The box's API stand-in as the tests use it: inventory sources, its faults, its log, and ansible-inventory."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed import client, state
from testbed.api_standin import settings
from testbed.layout import CHECKOUT, Layout
from tests.integration.box import Box, Completed

READER, KEEPER, NOBODY = ("reader@pve", "inventory"), ("keeper@pve", "snapshots"), ("nobody@pve", "none")


def access(box: Layout, ports: Mapping[str, int], token: tuple[str, str] = READER) -> dict[str, Any]:
    """The api_ options of a token."""
    user, name = token
    accounts = json.loads((box.state / "api.json").read_text())["users"]
    return {
        "api_host": "127.0.0.1",
        "api_port": ports["api pve1"],
        "api_user": user,
        "api_token_id": name,
        "api_token_secret": accounts[user]["tokens"][name]["secret"],
        "api_ca_file": str(box.client / "pve-root-ca.pem"),
    }


def source(box: Layout, ports: Mapping[str, int], **options: Any) -> dict[str, Any]:
    """An inventory source; an option that is None is left out."""
    addresses = {node.name: {"host": "127.0.0.1", "port": ports[node.sshd_port_key]} for node in box.nodes}
    found = {"plugin": "proxmox_gpu.training.lxc_hosts", "node_addresses": addresses, **access(box, ports), **options}
    return {name: value for name, value in found.items() if value is not None}


def source_text(box: Layout, ports: Mapping[str, int], **options: Any) -> str:
    return json.dumps(source(box, ports, **options))


class Api:
    """The stand-in of a box."""

    def __init__(self, box: Box, folder: Path) -> None:
        self.box = box
        self.folder = folder
        self.ports = state.load_ports(box.layout)
        self.path = box.layout.state / "api.json"
        self.log = box.layout.state / "api.log"

    @property
    def accounts(self) -> dict[str, Any]:
        users: dict[str, Any] = json.loads(self.path.read_text())["users"]
        return users

    def access(self, token: tuple[str, str] = READER) -> dict[str, Any]:
        return access(self.box.layout, self.ports, token)

    @contextlib.contextmanager
    def with_settings(self, **values: object) -> Iterator[None]:
        """The stand-in's settings changed for a while (testbed/api_standin/settings.py)."""
        before = self.path.read_text()
        settings.change(self.path, unauthorized_delay=0.1, **values)
        try:
            yield
        finally:
            self.path.write_text(before)

    def requests(self) -> list[str]:
        """``GET /path`` of each request since the last `forget`."""
        text = self.log.read_text() if self.log.exists() else ""
        return [line.split(" ", 1)[1].replace("/api2/json", "") for line in text.splitlines()]

    def forget(self) -> None:
        self.log.write_text("")

    def write_source(self, **options: Any) -> Path:
        path = self.folder / "lxc_hosts.yml"
        path.write_text(source_text(self.box.layout, self.ports, **options))
        return path

    def inventory(self, *arguments: str, **options: Any) -> Listed:
        """What ansible-inventory lists for these options of the plugin."""
        return Listed(self._list(["-i", str(self.write_source(**options)), *arguments], self.environment()))

    def refusals(self, sources: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """What ansible-inventory says to each of several sources that cannot be read."""
        words = []
        for number, options in enumerate(sources.values()):
            path = self.folder / str(number) / "lxc_hosts.yml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(source_text(self.box.layout, self.ports, **options))
            words += ["-i", str(path)]
        environment = self.environment() | {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "0"}
        done = self._list(words, environment)
        assert "Traceback" not in done.stderr
        _before, *said = " ".join(done.stderr.split()).split(
            "[WARNING]: Failed to parse inventory with 'auto' plugin: "
        )
        return dict(zip(sources, said, strict=True))

    @staticmethod
    def _list(arguments: Sequence[str], environment: Mapping[str, str]) -> Completed:
        return subprocess.run(
            [str(Path(sys.executable).parent / "ansible-inventory"), *arguments, "--list"],
            cwd=CHECKOUT,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def playbook(self, playbook: str, limit: str, variables: Mapping[str, object], **options: Any) -> Completed:
        """Run a playbook (a name, or its text) on this source alone, not on the box's own inventory."""
        if "\n" in playbook:
            path = self.folder / "playbook.yml"
            path.write_text(playbook)
            playbook = str(path)
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.write_source(**options))]
        recorder = ("RECORD_RESULTS", "ANSIBLE_CALLBACKS_ENABLED", "ANSIBLE_CALLBACK_PLUGINS")
        environment = {name: text for name, text in self.environment().items() if name not in recorder}
        return subprocess.run(
            [*command, "-l", limit, "-e", json.dumps(variables), playbook],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        return self.box._ansible_environment(self.folder) | {
            "COLUMNS": "2000",  # a warning on one line
            "ANSIBLE_PRIVATE_KEY_FILE": str(self.box.layout.client / "id_ed25519"),
            "ANSIBLE_REMOTE_USER": "root",
            "ANSIBLE_SSH_COMMON_ARGS": ssh_arguments(self.box.layout),
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
        }


def ssh_arguments(box: Layout) -> str:
    options = client.ssh_options(box)
    return shlex.join([*options[:2], *options[4:]])


class Listed:
    """One run of ansible-inventory."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.rc = done.returncode
        self.said = " ".join(done.stderr.split())
        self.data: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip().startswith("{") else {}

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        assert self.rc == 0, self.said
        found: dict[str, dict[str, Any]] = plain(self.data["_meta"]["hostvars"])
        return found

    def group(self, name: str) -> set[str]:
        assert self.rc == 0, self.said
        return set(self.data.get(name, {}).get("hosts", []))


def plain(value: Any) -> Any:
    """Without the marks that ansible-inventory puts at strings that are no templates."""
    if isinstance(value, dict):
        if set(value) == {"__ansible_unsafe"}:
            return value["__ansible_unsafe"]
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value
