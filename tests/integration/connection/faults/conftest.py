# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container of its own for each test, which may do with it what it likes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import prepared
from tests.integration.box import Box, Container
from tests.integration.connection.faults.provoke import VMID
from tests.integration.connection.link import links


@pytest.fixture
def guest(box: Box) -> Iterator[Container]:
    container = box.container(VMID)
    yield container.fresh("--from", prepared.snapshot("python"))
    box.node("sh", "-c", f"lxc-unfreeze -n {VMID}")
    box.testbed("up")
    box.testbed("remove", str(VMID), check=False)


@pytest.fixture
def connect(box: Box) -> Iterator[Any]:
    with links(box) as link:
        yield link
