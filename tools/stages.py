# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the project's checks by stage and counts them: ``tools/stages.py lint unit integration molecule``.

A stage is a list of steps (below, as data). A step that writes JUnit files counts for the tests in them, any
other step for one. Each step runs whatever came of the one before, prints through, and has a time limit. The
last line is ``N passed, N failed`` for all stages together (``, N skipped`` follows when some were).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
REPORTS = CHECKOUT / "build" / "reports"
BIN = CHECKOUT / ".venv" / "bin"
PYTHON = str(BIN / "python")
BOX = os.environ.get("TESTBED_NAME", "tests")
# At once, each with a box of its own. What they wait for is mostly the processor, and CI has two.
WORKERS = 2
COLLECTION = "build/tree/ansible_collections/proxmox_gpu/training"


@dataclass(frozen=True)
class Step:
    """One command of a stage. ``junit``: a glob of the files it writes below build/reports/; ``minutes``: its limit."""

    name: str
    command: tuple[str, ...]
    junit: str = ""
    minutes: int = 15
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: Count) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else "")


def tool(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(BIN / name), *arguments)


def pytest(python: str, report: str, *arguments: str) -> tuple[str, ...]:
    return (python, "-m", "pytest", "-q", f"--junitxml={REPORTS / report}", *arguments)


STAGES: dict[str, list[Step]] = {
    "lint": [
        Step("ruff format", tool("ruff", "format", "--check", ".")),
        Step("ruff check", tool("ruff", "check", ".")),
        Step("mypy", tool("mypy", f"{COLLECTION}/plugins", "testbed", "tests", "tools", "molecule")),
        Step("shellcheck", tool("shellcheck", "tools/demo.sh", "tools/setup.sh", ".ci/run")),
        Step("role arguments", (PYTHON, "tools/check_role_arguments.py")),
        Step("licence headers", tool("reuse", "lint", "--lines")),
        Step("ansible-lint and yamllint", tool("ansible-lint", "--offline")),
        Step("ansible-test sanity", (PYTHON, "tools/sanity.py"), minutes=25),
    ],
    "unit": [
        Step("ansible-core 2.21", pytest(PYTHON, "unit.xml", "-n", "2", "tests/unit"), "unit.xml"),
        Step(
            "ansible-core 2.19",
            pytest(str(CHECKOUT / ".venv-core219/bin/python"), "unit-core219.xml", "-n", "2", "tests/unit"),
            "unit-core219.xml",
        ),
    ],
    "integration": [
        Step(
            "on the box",
            pytest(
                PYTHON,
                "integration.xml",
                "-n",
                str(WORKERS),
                "--dist",
                "loadfile",
                "-o",
                "timeout=600",
                # Once more: where a machine is busy with something else, a wait can be too short. A fault fails twice.
                # It is named at the end, so that one that comes again and again is seen.
                "--reruns",
                "1",
                "-rR",
                "tests/integration",
            ),
            "integration.xml",
            minutes=40,
            environment={"KEEP_TESTBED": ""},  # each worker takes its own box down
        ),
    ],
    "molecule": [
        Step(
            "scenarios",
            tool("molecule", "test", "--all", "--workers", "2", "--continue-on-failure"),
            "molecule-*.xml",
            minutes=30,
        ),
    ],
    "e2e": [
        Step("long build", pytest(PYTHON, "e2e.xml", "-o", "timeout=2700", "tests/e2e"), "e2e.xml", minutes=60),
    ],
    "nightly": [
        Step("newest transformers", pytest(PYTHON, "nightly.xml", "-o", "timeout=600", "tests/nightly"), "nightly.xml"),
    ],
}
NEED_THE_BOX = ("integration", "molecule", "e2e")


def environment_of(step: Step) -> dict[str, str]:
    """The checkout's own tools come first, and no setting of the person's shell chooses another collection."""
    return (
        {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_", "PYTEST_"))}
        | {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "tree"),
            # Made anew with the reports: molecule must not remember a run that was cut off.
            "ANSIBLE_HOME": str(REPORTS / "ansible"),
            "MOLECULE_GLOB": "molecule/*/molecule.yml",
            "PYTHONUNBUFFERED": "1",
            "KEEP_TESTBED": "yes",  # molecule's destroy leaves the box to this program
            # A box of the tests' own: the one that `make demo` built for minutes is left alone.
            "TESTBED_NAME": BOX,
        }
        | step.environment
    )


def run(step: Step) -> bool:
    """Runs a step's command in a process group of its own, so that a time limit ends its children too."""
    process = subprocess.Popen(
        step.command, cwd=CHECKOUT, env=environment_of(step), stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(timeout=step.minutes * 60) == 0
    except subprocess.TimeoutExpired:
        print(f"{step.name}: not finished after {step.minutes} minutes, so it was ended", flush=True)
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def count(step: Step, succeeded: bool) -> Count:
    """What a step counts for. A step that failed without a failed test (it could not start, say) is one failure."""
    total = Count()
    for report in REPORTS.glob(step.junit) if step.junit else ():
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            total.add(Count(max(tests - failed - skipped, 0), failed, skipped))
    if not succeeded and not total.failed:
        total.failed = 1
    elif succeeded and not step.junit:
        total.passed = 1
    return total


@contextmanager
def box(wanted: bool) -> Iterator[bool]:
    """The testbed is up inside. One that was up before is a person's own and stays; otherwise it is gone afterwards."""
    if not wanted:
        yield True
        return
    was_up = run(Step("testbed status", (PYTHON, "-m", "testbed", "status"), minutes=1))
    if was_up:
        print("The testbed was up before and will stay up.", flush=True)
    try:
        yield run(Step("testbed up", (PYTHON, "-m", "testbed", "up"), minutes=20))
    finally:
        for name in [] if was_up else [BOX, *(f"{BOX}-gw{number}" for number in range(WORKERS))]:
            down = (PYTHON, "-m", "testbed", "down")
            run(Step("testbed down", down, minutes=5, environment={"TESTBED_NAME": name}))


def run_stages(names: list[str]) -> Count:
    total, lines = Count(), []
    with box(any(name in NEED_THE_BOX for name in names)) as is_up:
        for name in names:
            stage, started = Count(), time.monotonic()
            for step in STAGES[name]:
                print(f"\n==> {name}: {step.name}", flush=True)
                step_started = time.monotonic()
                if name in NEED_THE_BOX and not is_up:
                    print("not run, because the testbed did not start", flush=True)
                    result = Count(failed=1)
                else:
                    result = count(step, run(step))
                stage.add(result)
                print(f"    {name}: {step.name}: {result} ({time.monotonic() - step_started:.0f} s)", flush=True)
            lines.append(f"{name:12} {stage} ({time.monotonic() - started:.0f} s)")
            total.add(stage)
    print("\n" + "\n".join(lines))
    return total


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in STAGES]
    if unknown or not names:
        print(f"Say which stages to run, of: {' '.join(STAGES)}.", file=sys.stderr)
        return 2
    # Ended from outside, it still takes its step's children and its testbed with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    total = run_stages(names)
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
