# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person reads while torch is installed."""

from __future__ import annotations

import pytest

from ansible_collections.proxmox_gpu.training.plugins.action.python_environment import step

LOG = """2026-11-30T16:30:01,000 Collecting torch==2.14.1
2026-11-30T16:30:02,000   Downloading torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl (865.0 MB)
2026-11-30T16:30:30,000   Link requires a different Python (3.11.2 not in: '>=3.12')
"""


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ("", ""),
        (LOG[:60], "Collecting torch==2.14.1"),
        (LOG, "Downloading torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl (865.0 MB)"),
        (LOG + "2026 Installing collected packages: triton, torch\n", "Installing collected packages"),
    ],
)
def test_the_last_step_is_told(tail: str, said: str) -> None:
    assert step(tail) == said
