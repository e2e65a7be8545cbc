# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job with nothing left out: a bare container becomes a training host, and causal-conv1d is really compiled.
A second container takes the wheel of the first.

The tests run in the order in which they are written; a container is provisioned once for all of them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import steps
from tests.e2e.steps import CHECKOUT, PYTHON, inside, testbed

VMID, OTHER = "200", "201"
HOUSE = CHECKOUT / "build" / "e2e" / "wheelhouse"
VARIABLES = {"cuda_extensions_shared_wheelhouse": str(HOUSE)}
pytestmark = pytest.mark.timeout(45 * steps.MINUTE)


def provision(*arguments: str) -> dict[str, int]:
    """Plays playbooks/provision.yml on the first container; its line at the end."""
    return steps.recap(steps.provision(VMID, VARIABLES, *arguments), VMID)


@pytest.fixture(scope="module")
def bare() -> Iterator[None]:
    testbed("fresh", VMID)
    shutil.rmtree(HOUSE, ignore_errors=True)
    yield
    shutil.rmtree(HOUSE, ignore_errors=True)


@pytest.fixture(scope="module")
def provisioned(bare: None) -> dict[str, int]:
    return provision()


@pytest.fixture(scope="module")
def chain(provisioned: dict[str, int]) -> dict[str, Any]:
    output = steps.ansible(
        "ansible", f"ct{VMID}", "--one-line", "-m", "proxmox_gpu.training.chain_info", "--extra-vars=@tools/demo.yml"
    )
    result: dict[str, Any] = json.loads(output.split("=>", 1)[1])
    return result


def test_check_mode_leaves_a_bare_container_bare(bare: None) -> None:
    provision("--check", "--diff")
    assert inside(VMID, "command -v python3 || echo none").strip() == "none"


def test_provision_changes_a_bare_container(provisioned: dict[str, int]) -> None:
    assert provisioned["changed"] > 0


def test_nvcc_is_of_torchs_cuda(provisioned: dict[str, int]) -> None:
    torch_cuda = inside(VMID, f"{PYTHON} -c 'import torch; print(torch.version.cuda)'").strip()
    nvcc = inside(VMID, "/usr/local/cuda-*/bin/nvcc --version")
    assert f"release {torch_cuda}," in nvcc


def test_the_compiled_part_imports(provisioned: dict[str, int]) -> None:
    inside(VMID, f"{PYTHON} -c 'import torch, causal_conv1d_cuda'")


def test_only_the_wanted_target_was_compiled(provisioned: dict[str, int], tmp_path: Path) -> None:
    assert steps.compiled_for(VMID, "causal_conv1d_cuda", tmp_path) == {"sm_90"}


def test_no_driver_package_is_there(provisioned: dict[str, int]) -> None:
    packages = inside(VMID, "dpkg-query -W -f '${Package}\\n'").split()
    assert [name for name in packages if name.startswith(("nvidia-driver", "cuda-drivers", "libnvidia-"))] == []


@pytest.mark.parametrize(
    "link", ["reach", "base", "torch", "repository", "toolkit", "compiler", "extensions", "binding"]
)
def test_the_link_is_ok(chain: dict[str, Any], link: str) -> None:
    assert chain["links"][link]["state"] == "ok", chain["links"][link]["sentence"]


def test_without_a_gpu_nothing_is_proven(chain: dict[str, Any]) -> None:
    assert chain["links"]["proof"]["state"] == "unknown"


def test_a_second_run_changes_nothing(provisioned: dict[str, int]) -> None:
    assert provision()["changed"] == 0


def test_check_mode_foresees_no_change_on_a_finished_container(provisioned: dict[str, int]) -> None:
    assert provision("--check", "--diff")["changed"] == 0


def test_a_second_container_takes_the_wheel_and_compiles_nothing(provisioned: dict[str, int]) -> None:
    (wheel,) = HOUSE.glob("torch-*/causal_conv1d-*.whl")
    testbed("fresh", OTHER)
    output = steps.provision(OTHER, VARIABLES)
    assert "compiling causal_conv1d" not in output
    inside(OTHER, f"{PYTHON} -c 'import torch, causal_conv1d_cuda'")
    assert wheel.name in inside(OTHER, "ls /var/cache/proxmox_gpu/wheelhouse/torch-*").split()
