# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What benchmarks share: the box, an ansible program timed as a person waits for it, and where results go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]


def testbed(*arguments: str, check: bool = True) -> int:
    """One command of ``python3 -m testbed``; its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "testbed", *arguments], cwd=CHECKOUT, stdin=subprocess.DEVNULL, timeout=900, check=check
    )
    return done.returncode


@contextmanager
def box() -> Iterator[None]:
    """The box of TESTBED_NAME ("bench" by default) is up inside, and taken down if it was made here."""
    os.environ.setdefault("TESTBED_NAME", "bench")
    was_there = (CHECKOUT / "build" / "testbed" / os.environ["TESTBED_NAME"]).exists()
    testbed("up")
    try:
        yield
    finally:
        if not was_there:
            testbed("down")


def timed(program: str, *arguments: str, timeout: float = 900) -> tuple[float, subprocess.CompletedProcess[str]]:
    """(seconds, what it printed) of an ansible program of this environment, with this checkout's configuration."""
    began = time.monotonic()
    done = subprocess.run(
        [str(Path(sys.executable).parent / program), *arguments],
        cwd=CHECKOUT,
        env=os.environ | {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return time.monotonic() - began, done


def write(name: str, found: dict[str, Any]) -> None:
    """Results go to build/bench/<name>.json."""
    file = CHECKOUT / "build" / "bench" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=2) + "\n")
