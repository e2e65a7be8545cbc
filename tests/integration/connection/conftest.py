# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container that these tests share and leave as it was, and connections to it.

Of the package, not of a file: with as many files as there are subjects it would be made as many times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import prepared
from tests.integration.box import Box, Container
from tests.integration.connection.link import VMID, Link, links


@pytest.fixture(scope="package")
def guest(box: Box) -> Iterator[Container]:
    container = box.container(VMID)
    yield container.fresh("--from", prepared.snapshot("python"))
    box.testbed("remove", str(VMID))


@pytest.fixture(scope="package")
def connect(box: Box) -> Iterator[Any]:
    with links(box) as link:
        yield link


WAYS: dict[str, dict[str, object]] = {
    "resident": {},
    "plain": {"pct_runner": False},
    "operator": {"ansible_user": "operator"},
    "operator, plain": {"ansible_user": "operator", "pct_runner": False},
    "pct": {"ansible_user": "ansible", "pct_method": "pct", "pct_runner": False},
}


@pytest.fixture(scope="module", params=WAYS)
def link(request: pytest.FixtureRequest, guest: Container, connect: Any) -> Link:
    """A connection to the guest; with the runner, one that is already running."""
    one: Link = connect(guest.vmid, **WAYS[request.param])
    if one.plugin.get_option("runner"):
        assert one.python("pass")[0] == 0
        assert one.resident
    return one


@pytest.fixture(scope="module", params=["resident", "plain"])
def root_link(request: pytest.FixtureRequest, guest: Container, connect: Any) -> Link:
    one: Link = connect(guest.vmid, **WAYS[request.param])
    one.python("pass")
    return one
