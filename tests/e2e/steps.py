# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of this folder do with a container of the testbed, and ask of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.layout import layout

CHECKOUT = Path(__file__).resolve().parents[2]
PYTHON = "/opt/training/bin/python"
MINUTE = 60


def testbed(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "testbed", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, timeout=5 * MINUTE).stdout


def inside(vmid: str, script: str) -> str:
    """What a shell command prints in the container (its failure fails the test)."""
    return testbed("exec", vmid, "--", "sh", "-c", script).decode()


def ansible(program: str, *arguments: str) -> str:
    """Runs an ansible program of this environment on the box's inventory; what it printed."""
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


def provision(vmid: str, variables: Mapping[str, Any], *arguments: str) -> str:
    """Plays playbooks/provision.yml on a container, for the demonstration's one GPU target; what it printed."""
    chosen = ("--extra-vars=@tools/demo.yml", f"--extra-vars={json.dumps(dict(variables))}")
    return ansible("ansible-playbook", "playbooks/provision.yml", f"--limit=ct{vmid}", *chosen, *arguments)


def recap(output: str, vmid: str) -> dict[str, int]:
    """A container's line at the end of a play (ok, changed, failed ...)."""
    (line,) = re.findall(rf"^ct{vmid} +: (.*)$", output, re.MULTILINE)
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line)}


def compiled_for(vmid: str, module: str, folder: Path) -> set[str]:
    """What an installed module holds machine code (sm_..) and PTX (compute_..) for, as NVIDIA's cuobjdump lists it."""
    file = inside(vmid, f"{PYTHON} -c 'import importlib.util as u; print(u.find_spec(\"{module}\").origin)'").strip()
    (folder / "module.so").write_bytes(testbed("exec", vmid, "--", "cat", file))
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", f"--target={folder}"]
    subprocess.run([*pip, "nvidia-cuda-cuobjdump==13.2.86"], check=True, timeout=5 * MINUTE)
    (cuobjdump,) = folder.glob("nvidia/**/bin/cuobjdump")
    cuobjdump.chmod(0o755)
    listed = subprocess.run(
        [cuobjdump, "--list-elf", "--list-ptx", folder / "module.so"], capture_output=True, text=True, timeout=MINUTE
    ).stdout
    return set(re.findall(r"\b(?:sm|compute)_\w+(?=\.)", listed))
