# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Another release of the real torch under an installed extension, downgraded and upgraded again.

Here and not in the integration tests because of its hundreds of megabytes; those edit the record of the wheel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import role_runs, tiny_extension
from tests.integration.box import Box, Container
from tests.integration.extension_containers import (
    HOUSE,
    IMPORT,
    RECORD,
    ROLE,
    SITE,
    built,
    gone_afterwards,
)

pytestmark = pytest.mark.timeout(1800)

VMID = 265
TORCHES = ("2.14.1", "2.14.0")


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    box = Box()
    with gone_afterwards(box, (VMID,)):
        yield built(box, VMID)


def extensions_link(container: Container) -> dict[str, Any]:
    play = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Look
      proxmox_gpu.training.chain_info:
        links: [torch, extensions]
      register: chain
"""
    result = container.box.run_playbook(play, container.host, tiny_extension.variables()).ok()
    found: dict[str, Any] = result.task("Look").result["links"]["extensions"]
    return found


@pytest.mark.parametrize(("before", "now"), [TORCHES, TORCHES[::-1]], ids=["downgrade", "upgrade"])
def test_another_torch_is_noticed_and_named_and_a_rebuild_replaces_what_no_longer_fits(
    container: Container, before: str, now: str
) -> None:
    """[5] The real torch, without the libraries that it wants: those of the other release have the same names."""
    container.run(
        f"PIP_CONSTRAINT=/dev/null /opt/training/bin/python -m pip install -q --no-deps --no-cache-dir torch=={now}",
        timeout=600,
    )
    full = container.run("/opt/training/bin/python -I -c 'import torch; print(torch.__version__)'").strip()
    assert full == f"{now}+cu130"

    link = extensions_link(container)
    assert link["state"] == "drifted"
    assert f"tiny-gpu-ops 1.0 was built for another set (torch was {before}+cu130, is {full})" in link["sentence"]

    # A build that fails leaves what is there.
    kept = container.run(f"cat {RECORD}; sha256sum {SITE}/tiny_gpu_ops_cuda*")
    failed = role_runs.run_one(ROLE, container, tiny_extension.variables("header"), timeout=900)
    assert "cusparse.h is missing" in failed.sentence
    assert container.run(f"cat {RECORD}; sha256sum {SITE}/tiny_gpu_ops_cuda*") == kept
    foreseen = role_runs.run_one(ROLE, container, tiny_extension.variables(), check=True, diff=True)
    assert f"-tiny-gpu-ops 1.0 for sm_90, torch {before}+cu130" in foreseen.result.output

    outcome = role_runs.run_one(ROLE, container, tiny_extension.variables(), timeout=900)
    assert (outcome.sentence, outcome.changed) == ("", 1)
    assert json.loads(container.run(f"cat {RECORD}"))["key"]["torch"] == full
    assert "add_one" in container.run(IMPORT)
    assert extensions_link(container)["state"] == "ok"
    # The first way builds for the other torch; on the way back the first wheel is still in the wheelhouse.
    assert ("compiling" in outcome.result.output) == (now != TORCHES[0])
    assert len(container.run(f"ls -d {HOUSE}/torch-*").split()) == 2
