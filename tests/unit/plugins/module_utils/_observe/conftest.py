# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine made of files below a folder, to be looked at in place of a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host


class Machine:
    """Files of a host that exists below one folder alone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = Host(str(root))

    def file(self, path: str, text: str | bytes = "", mode: int = 0o644) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        place.chmod(mode)
        return place

    def program(self, path: str, prints: str = "", status: int = 0) -> Path:
        """A program that prints a text and ends with a status."""
        return self.file(path, f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\nexit {status}\n", 0o755)

    def link(self, path: str, target: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def status(self, *packages: tuple[str, str, str]) -> None:
        """dpkg's status file: (name, "install ok installed", version)."""
        stanzas = [f"Package: {name}\nStatus: {status}\nArchitecture: amd64\nVersion: {version}\n"
                   f"Description: x\n Package: none\n" for name, status, version in packages]  # fmt: skip
        self.file("/var/lib/dpkg/status", "\n".join(stanzas))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
