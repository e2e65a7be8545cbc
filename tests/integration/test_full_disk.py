# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role cuda_extensions where a disk really becomes full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import role_runs, tiny_extension
from tests.integration.box import Box
from tests.integration.extension_containers import IMPORT, RECORD, ROLE, gone_afterwards, started

pytestmark = pytest.mark.timeout(1200)

VMIDS = (264,)


@pytest.fixture(scope="module", autouse=True)
def tidy(box: Box) -> Iterator[None]:
    with gone_afterwards(box, VMIDS):
        yield


def test_a_disk_that_becomes_full_is_one_sentence_and_leaves_no_half_wheel(box: Box) -> None:
    """[90] First the build's disk, which has just the room that was asked for, then the wheelhouse's."""
    (container,) = started(box, 264)
    container.run(
        "mkdir /small /house && mount -t tmpfs -o size=2m none /small && mount -t tmpfs -o size=100k none /house"
    )
    fields: dict[str, Any] = {"disk": 1 << 20}
    wish = {
        **tiny_extension.variables(**fields),
        "cuda_extensions_tmpdir": "/small",
        "cuda_extensions_wheelhouse": "/house",
    }
    outcome = role_runs.run_one(ROLE, container, wish, timeout=900)
    assert "tiny-gpu-ops 1.0: the disk" in outcome.sentence
    assert "/small" in outcome.sentence
    assert "free space" in outcome.sentence
    assert "\n" not in outcome.sentence
    assert container.run("ls -A /small").strip() == ""

    container.run("mount -o remount,size=500m /small")
    outcome = role_runs.run_one(ROLE, container, wish, timeout=900)
    assert "MiB cannot be put into /house: No space left on device; make room there" in outcome.sentence
    assert "\n" not in outcome.sentence
    assert container.run("find /house -type f -not -path '*/.lock/*'; ls -A /small").strip() == ""
    assert not container.exists(RECORD)

    container.run("mount -o remount,size=20m /house")
    outcome = role_runs.run_one(ROLE, container, wish, timeout=900)
    assert (outcome.sentence, outcome.changed) == ("", 1)
    assert "add_one" in container.run(IMPORT)
