# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers prepared once for all tests: each a snapshot of the testbed, made when first asked for.

``python``   role bootstrap on a bare container
``torch``    and role torch_environment, with the CUDA build of torch (5.6 GB, one to two minutes)
``toolkit``  and roles cuda_repository and cuda_toolkit

    snapshot("torch")                       # its name, for `python3 -m testbed fresh 2xx --from NAME`
    python3 -m tests.prepared torch 251 252 # the same, and puts containers 251 and 252 there
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

from testbed.layout import layout

CHECKOUT = Path(__file__).resolve().parents[1]
BUILDER = "289"
STEPS: dict[str, tuple[str | None, tuple[str, ...]]] = {
    # name: (the snapshot that it starts from, roles to apply)
    "python": (None, ("bootstrap",)),
    "torch": ("python", ("torch_environment",)),
    "toolkit": ("torch", ("cuda_repository", "cuda_toolkit")),
}


def testbed(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "testbed", *arguments], cwd=CHECKOUT, check=True, timeout=300)


def snapshot(name: str) -> str:
    """Makes the snapshot unless the box holds it; several processes may ask at once. Returns its name."""
    box = layout()
    with open(box.state / "prepared.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _make(name)
    return name


def _make(name: str) -> None:
    if (layout().snapshots / name / "snapshot.json").exists():
        return
    start, roles = STEPS[name]
    if start:
        _make(start)
    testbed("create", BUILDER)
    testbed("fresh", BUILDER, *(("--from", start) if start else ()))
    try:
        _apply(roles)
        testbed("snapshot", BUILDER, name)
    finally:
        testbed("remove", BUILDER)


def _apply(roles: tuple[str, ...]) -> None:
    """Plays the roles on the builder, with the checkout's own tools and collection."""
    bin_folder = Path(sys.executable).parent
    command = [
        str(bin_folder / "ansible-playbook"),
        f"--inventory={layout().state / 'inventory.yml'}",
        f"--limit=ct{BUILDER}",
        f"--extra-vars={json.dumps({'prepared_roles': roles})}",
        "tests/prepared.yml",
    ]
    environment = os.environ | {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")}
    subprocess.run(command, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, check=True, timeout=1200)


def main(name: str, vmids: list[str]) -> None:
    if name not in STEPS:
        sys.exit(f"prepared: {name!r} is none of {', '.join(STEPS)}.")
    try:
        snapshot(name)
        if vmids:
            testbed("create", ",".join(vmids))
            testbed("fresh", ",".join(vmids), "--from", name)
    except subprocess.CalledProcessError as error:
        sys.exit(f"prepared: {name} could not be made ({error.cmd[1:]} failed); its output stands above.")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
