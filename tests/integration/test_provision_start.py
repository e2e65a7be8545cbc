# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What playbook provision says before the minutes that torch and the toolkit take."""

from __future__ import annotations

import pytest

from testbed.layout import CHECKOUT
from tests.integration.box import Box

pytestmark = pytest.mark.timeout(600)

PLAYBOOK = CHECKOUT / "playbooks" / "provision.yml"
TORCH = "Install torch and the other packages (its CUDA build takes minutes)"


def test_without_a_gpu_and_without_targets_it_ends_before_torch(places: Box) -> None:
    """A bare container can be asked for GPUs once it has Python, one that has it at once."""
    container = places.container(248).fresh()
    for bare in (True, False):
        result = places.run_playbook(PLAYBOOK, container.host, {"cuda_extensions_gpu_targets": []})
        assert (
            "no GPU in this container to compile for; set cuda_extensions_gpu_targets" in result.failures()[-1].message
        )
        assert not [one for one in result.tasks if one.task == TORCH]
        assert (result.changed(container.host) > 0) is bare
    assert not container.exists("/opt/training")
