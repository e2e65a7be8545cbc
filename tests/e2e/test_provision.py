# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job with nothing left out: a bare container becomes a training host, and causal-conv1d is really compiled.
A second container takes the wheel of the first.

The tests run in the order in which they are written; a container is provisioned once for all of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.layout import layout

CHECKOUT = Path(__file__).resolve().parents[2]
VMID, OTHER = "200", "201"
HOST = f"ct{VMID}"
HOUSE = CHECKOUT / "build" / "e2e" / "wheelhouse"
MINUTE = 60
pytestmark = pytest.mark.timeout(45 * MINUTE)


def testbed(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "testbed", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, timeout=5 * MINUTE).stdout


def inside(script: str, vmid: str = VMID) -> str:
    """What a shell command prints in the container (its failure fails the test)."""
    return testbed("exec", vmid, "--", "sh", "-c", script).decode()


def ansible(program: str, *arguments: str) -> str:
    """Runs an ansible program of this environment on the container; what it printed."""
    command = [
        str(Path(sys.executable).parent / program),
        f"--inventory={layout().state / 'inventory.yml'}",
        *arguments,
    ]
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=os.environ | {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=40 * MINUTE,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


def play(host: str, *arguments: str) -> str:
    """Plays playbooks/provision.yml on a container; what it printed."""
    variables = ("--extra-vars=@tools/demo.yml", f"--extra-vars=cuda_extensions_shared_wheelhouse={HOUSE}")
    return ansible("ansible-playbook", "playbooks/provision.yml", f"--limit={host}", *variables, *arguments)


def provision(*arguments: str) -> dict[str, int]:
    """Plays it on the first container; its recap line (ok, changed, failed ...)."""
    (recap,) = re.findall(rf"^{HOST} +: (.*)$", play(HOST, *arguments), re.MULTILINE)
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", recap)}


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
    output = ansible(
        "ansible", HOST, "--one-line", "-m", "proxmox_gpu.training.chain_info", "--extra-vars=@tools/demo.yml"
    )
    result: dict[str, Any] = json.loads(output.split("=>", 1)[1])
    return result


def test_check_mode_leaves_a_bare_container_bare(bare: None) -> None:
    provision("--check", "--diff")
    assert inside("command -v python3 || echo none").strip() == "none"


def test_provision_changes_a_bare_container(provisioned: dict[str, int]) -> None:
    assert provisioned["changed"] > 0


def test_nvcc_is_of_torchs_cuda(provisioned: dict[str, int]) -> None:
    torch_cuda = inside("/opt/training/bin/python -c 'import torch; print(torch.version.cuda)'").strip()
    nvcc = inside("/usr/local/cuda-*/bin/nvcc --version")
    assert f"release {torch_cuda}," in nvcc


def test_the_compiled_part_imports(provisioned: dict[str, int]) -> None:
    inside("/opt/training/bin/python -c 'import torch, causal_conv1d_cuda'")


def test_only_the_wanted_target_was_compiled(provisioned: dict[str, int], tmp_path: Path) -> None:
    find = 'import importlib.util as u; print(u.find_spec("causal_conv1d_cuda").origin)'
    module = inside(f"/opt/training/bin/python -c '{find}'").strip()
    (tmp_path / "module.so").write_bytes(testbed("exec", VMID, "--", "cat", module))
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", f"--target={tmp_path}"]
    subprocess.run([*pip, "nvidia-cuda-cuobjdump==13.2.86"], check=True, timeout=5 * MINUTE)
    (cuobjdump,) = tmp_path.glob("nvidia/**/bin/cuobjdump")
    cuobjdump.chmod(0o755)
    listed = subprocess.run(
        [cuobjdump, "--list-elf", "--list-ptx", tmp_path / "module.so"], capture_output=True, text=True, timeout=MINUTE
    ).stdout
    assert set(re.findall(r"\b(?:sm|compute)_\w+(?=\.)", listed)) == {"sm_90"}


def test_no_driver_package_is_there(provisioned: dict[str, int]) -> None:
    packages = inside("dpkg-query -W -f '${Package}\\n'").split()
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
    output = play(f"ct{OTHER}")
    assert "compiling causal_conv1d" not in output
    inside("/opt/training/bin/python -c 'import torch, causal_conv1d_cuda'", OTHER)
    assert wheel.name in inside("ls /var/cache/proxmox_gpu/wheelhouse/torch-*", OTHER).split()
