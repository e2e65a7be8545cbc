# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""What is wanted of an extension, and whether what is installed is that. Reads files alone: nothing is imported or
fetched."""

from __future__ import annotations

import dataclasses
import os
import platform
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import LOGS
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import Description
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import base, extensions
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import torch as torch_facts
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pip_sources import Sources
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import WheelError, sha256
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import (
    WheelKey,
    differences,
    key_from_dict,
    make_key,
)


class JobError(Exception):
    """The job cannot be done. ``id`` is a stable word, the message one sentence."""

    def __init__(self, id: str, sentence: str) -> None:  # noqa: A002 - the name of the attribute
        super().__init__(sentence)
        self.id = id


@dataclasses.dataclass(frozen=True)
class Wish:
    """What is wanted. ``targets``: nvcc's names. ``jobs``: None for as many as fit. ``source``: an archive on this
    machine. ``prebuilt``: somebody else's wheel (a path or an address) in place of a build; ``sha256`` is then its.
    ``install``: else it is enough that the wheel is in the wheelhouse. ``ca_bundle``: whom to trust when fetching."""

    description: Description
    version: str
    targets: tuple[str, ...]
    environment: str
    sha256: str | None = None
    source: str | None = None
    jobs: int | None = None
    timeout: float = 7200.0
    tmpdir: str = "/var/tmp"
    wheelhouse: str = "/var/cache/proxmox_gpu/wheelhouse"
    logs: str = LOGS
    sources: Sources = Sources()
    lock_timeout: float = 7200.0
    low_priority: bool = False
    prebuilt: str | None = None
    install: bool = True
    ca_bundle: str | None = None

    @property
    def what(self) -> str:
        return f"{self.description.name} {self.version}"


class State:
    """The training environment of a wish as it is now. Raises JobError where it has no torch for CUDA."""

    def __init__(self, wish: Wish, host: Host) -> None:
        self.wish, self.host = wish, host
        self.torch = torch_facts.observe(host, {"environment_path": wish.environment})
        if not self.torch.get("version"):
            raise JobError("no_torch", f"there is no torch in {wish.environment}; run the role torch_environment first")
        if not self.torch.get("cuda"):
            raise JobError(
                "cpu_torch",
                f"torch {self.torch['version']} in {wish.environment} is built for the CPU only, and {wish.what}"
                " needs a"
                " CUDA build of torch (torch_environment_cpu_only: false)",
            )

    def key(self, source_sha256: str) -> WheelKey:
        """Today's key for sources of this checksum."""
        wish, torch = self.wish, self.torch
        return make_key(
            wish.description.name,
            wish.version,
            source_sha256,
            torch["version"],
            torch["cuda"],
            torch["python_tag"],
            torch["cxx11_abi"],
            platform.machine(),
            f"glibc-{base.glibc()}",
            wish.targets,
            ("prebuilt",) if wish.prebuilt else wish.description.key_flags(torch["version"]),
        )

    def installed(self) -> dict[str, t.Any]:
        """The facts of the installed extension, {} if it is not installed."""
        wishes = {"extensions": [self.wish.description.name], "environment_path": self.wish.environment}
        found = extensions.observe(self.host, wishes)
        return dict(found.get(self.wish.description.name) or {})

    def known_sha256(self) -> str | None:
        """The checksum of the wanted sources without fetching them: as wished, as catalogued, that of the given
        archive, else the one that what is installed, or a wheel in the wheelhouse, was built from."""
        name, version = self.wish.description.name, self.wish.version
        stated = self.wish.sha256 or self.wish.description.sha256.get(version)
        if stated:
            return stated
        if self.wish.source:
            return sha256(self.wish.source) if os.path.isfile(self.wish.source) else None
        recorded = (self.installed().get("record") or {}).get("key") or {}
        if recorded.get("version") == version and "prebuilt" not in (recorded.get("flags") or []):
            return str(recorded.get("source_sha256"))
        return _wheelhouse.source_sha256(self.wish.wheelhouse, name, version)

    def asked_key(self) -> tuple[WheelKey, bool]:
        """(today's key, whether the sources' checksum in it is the real one and not a stand-in)."""
        known = self.known_sha256()
        return self.key(known or "0" * 64), known is not None

    def wheel(self) -> str | None:
        """The good wheel of today's key in the wheelhouse; None if there is none."""
        key, known = self.asked_key()
        try:
            found = _wheelhouse.find(self.wish.wheelhouse, key) if known else None
        except WheelError:
            return None
        return found[0] if found else None

    def needed(self) -> str | None:
        """Why there is something to do, as the end of a sentence; None if the installed extension is the wished one."""
        if not self.wish.install:
            return None if self.wheel() else "its wheel is not in the wheelhouse"
        found = self.installed()
        if not found:
            return "it is not installed"
        if found["version"] != self.wish.version:
            return f"version {found['version']} is installed"
        try:
            recorded = key_from_dict((found.get("record") or {}).get("key") or {})
        except ValueError:
            return "the installed one carries no key of this collection"
        changes = differences(recorded, self.key(self.known_sha256() or recorded.source_sha256))
        if changes:
            listed = ", ".join(f"{field} was {_short(before)}, is {_short(now)}" for field, before, now in changes)
            return f"the installed one was built for another set ({listed})"
        wrong = ("problem", "exchanged")
        gone = [one["name"] for one in found["modules"] if not one["exists"] or any(one.get(name) for name in wrong)]
        return f"its compiled module {gone[0]} is missing or damaged" if gone else None

    def shown(self, wanted: bool = False) -> str:
        """One line about the installed extension, or about the wanted one."""
        name = self.wish.description.name
        if wanted:
            return f"{self.wish.what} for {' '.join(self.wish.targets)}, torch {self.torch['version']}"
        found = self.installed()
        if not found:
            return f"{name} is not installed"
        key = (found.get("record") or {}).get("key") or {}
        made = f"for {' '.join(key['gpu_targets'])}, torch {key['torch']}" if key else "without a key"
        return f"{name} {found['version']} {made}"


def _short(value: t.Any) -> str:
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    return str(value)[:40]
