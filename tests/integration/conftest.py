# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the integration tests: the box, up for the session, and containers that are gone after a test."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator

import pytest

from testbed import up
from tests.integration.box import Box, Completed, Container

# Each worker has a box of its own: tests restart nodes, rewrite their files and use fixed container ids.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["TESTBED_NAME"] = f"{os.environ.get('TESTBED_NAME', 'box')}-{worker}"


@pytest.fixture(scope="session")
def box() -> Iterator[Box]:
    """The box of TESTBED_NAME. Whoever brought it up takes it down: these tests only if there was none before.

    KEEP_TESTBED=1 leaves it up, for the next run.
    """
    current = Box()
    was_there = current.status()["exists"]  # half up counts as well: it is somebody's
    current.testbed("up")
    yield current
    if not was_there and not os.environ.get("KEEP_TESTBED"):
        current.testbed("down")


@pytest.fixture(scope="module")
def api_alone(box: Box) -> Iterator[None]:
    """The box's API stand-in for one module of tests at a time: they count its requests, and set its faults."""
    with open(box.layout.state / "api.tests.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def fresh(box: Box) -> Iterator[Callable[..., Container]]:
    """``fresh(300, "--memory", "512")``: a bare container of this id; one that is new is removed after the test."""
    before = set(box.status()["containers"])
    made = set()

    def make(vmid: int | str, *options: str) -> Container:
        made.add(str(vmid))
        return box.fresh(vmid, *options)

    yield make
    if gone := sorted(made - before):
        box.testbed("remove", ",".join(gone))


@pytest.fixture(scope="module")
def places(box: Box) -> Iterator[Box]:
    """The box; containers that these tests made are removed after them."""
    before = set(box.status()["containers"])
    yield box
    made = sorted(set(box.status()["containers"]) - before)
    if made:
        box.testbed("remove", ",".join(made))


@contextlib.contextmanager
def without_startup(box: Box) -> Iterator[None]:
    settings = box.layout.state / "standin.json"
    before = settings.read_text()
    up.write_standin_settings(box.layout, startup=0)
    yield
    settings.write_text(before)


@pytest.fixture
def quick_pct(box: Box) -> Iterator[None]:
    """The pct stand-in without its start-up cost, for tests that call it often."""
    with without_startup(box):
        yield


@pytest.fixture(scope="module")
def quick_pct_in_module(box: Box) -> Iterator[None]:
    """The same, for containers that a whole module of tests shares."""
    with without_startup(box):
        yield


@pytest.fixture
def pct(box: Box) -> Callable[..., Completed]:
    """``pct("list")``: a pct command as the node's root; keywords are those of `Box.node`."""

    def run(*arguments: str, **options: object) -> Completed:
        return box.node("pct", *arguments, **options)  # type: ignore[arg-type]

    return run


@pytest.fixture(scope="module")
def guest(box: Box) -> Iterator[Container]:
    """One running container (300) for a module's tests that leave it as it was."""
    yield box.fresh(300)
    box.testbed("remove", "300")
