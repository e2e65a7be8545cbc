# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counts decide whether a change lands, so they may neither miss a failure nor make up a success."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import stages
from tools.stages import Count, Step

REPORT = '<testsuites><testsuite name="pytest" errors="{0}" failures="{1}" skipped="{2}" tests="{3}" /></testsuites>'


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stages, "REPORTS", tmp_path)
    return tmp_path


def script(name: str, code: str, junit: str = "") -> Step:
    return Step(name, (sys.executable, "-c", code), junit)


def test_a_report_counts_for_its_tests(reports: Path) -> None:
    (reports / "unit.xml").write_text(REPORT.format(1, 2, 3, 10))
    assert stages.count(script("tests", "", "unit.xml"), succeeded=False) == Count(passed=4, failed=3, skipped=3)


def test_several_reports_are_added(reports: Path) -> None:
    for name in ("molecule-a.xml", "molecule-b.xml"):
        (reports / name).write_text(REPORT.format(0, 0, 0, 5))
    assert stages.count(script("scenarios", "", "molecule-*.xml"), succeeded=True) == Count(passed=10)


def test_failing_without_a_failed_test_is_a_failure(reports: Path) -> None:
    (reports / "unit.xml").write_text(REPORT.format(0, 0, 0, 5))
    assert stages.count(script("tests", "", "unit.xml"), succeeded=False) == Count(passed=5, failed=1)


def test_success_without_a_report_passes_nothing(reports: Path) -> None:
    assert stages.count(script("tests", "", "unit.xml"), succeeded=True) == Count()


def test_a_step_without_reports_counts_for_one(reports: Path) -> None:
    assert stages.count(script("linter", ""), succeeded=True) == Count(passed=1)


@pytest.mark.parametrize(
    ("code", "exit_code", "closing"), [("", 0, "1 passed, 0 failed"), ("exit(3)", 1, "0 passed, 1 failed")]
)
def test_the_exit_code_and_the_last_line_agree(
    reports: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    code: str,
    exit_code: int,
    closing: str,
) -> None:
    monkeypatch.setattr(stages, "STAGES", {"lint": [script("linter", code)]})
    assert stages.main(["lint"]) == exit_code
    assert capfd.readouterr().out.splitlines()[-1] == closing


def test_a_stage_without_any_test_fails(reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "STAGES", {"unit": [script("tests", "", "unit.xml")]})
    assert stages.main(["unit"]) == 1


def test_a_step_that_hangs_is_ended_with_its_children(reports: Path, tmp_path: Path) -> None:
    child = f"import subprocess, sys; subprocess.run(['sleep', '60']); open('{tmp_path}/late', 'w')"
    assert stages.run(Step("hang", (sys.executable, "-c", child), minutes=0)) is False
    assert not (tmp_path / "late").exists()


def test_ended_from_outside_it_ends_its_step_too(tmp_path: Path) -> None:
    program = f"""
import sys, threading, os, signal
from pathlib import Path
from tools import stages
stages.REPORTS = Path({str(tmp_path / "reports")!r})
code = "import time; open({str(tmp_path / "began")!r}, 'w'); time.sleep(60)"
stages.STAGES = {{"lint": [stages.Step("long", (sys.executable, "-c", code))]}}
stages.main(["lint"])
"""
    running = subprocess.Popen([sys.executable, "-c", program], cwd=stages.CHECKOUT, stdout=subprocess.DEVNULL)
    try:
        while not (tmp_path / "began").exists():
            time.sleep(0.05)
        (child,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        running.terminate()
        assert running.wait(timeout=20) == 1
        assert not Path(f"/proc/{child}").exists()
    finally:
        running.kill()


def test_an_unknown_stage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert stages.main(["lint", "party"]) == 2
    assert "Say which stages" in capsys.readouterr().err
