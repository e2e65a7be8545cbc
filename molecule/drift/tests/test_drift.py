# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nightly command over containers in each of which something else moved: one line a thing, and the right status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

DATA = Path(__file__).resolve().parents[1] / "vars" / "cases.yml"
CASES: list[dict[str, Any]] = yaml.safe_load(DATA.read_text(encoding="utf-8"))["drift_cases"]
SETS = list(dict.fromkeys(case["set"] for case in CASES))
EXIT = {"ok": 0, "drift": 2, "unknown": 3, "not_provisioned": 4}


@dataclass(frozen=True)
class Night:
    """What one run of the command said."""

    status: int
    output: str
    report: dict[str, Any]

    def lines(self, case: dict[str, Any]) -> list[dict[str, Any]]:
        [host] = [one for one in self.report["hosts"] if one["name"] == f"ct{case['id']}"]
        lines: list[dict[str, Any]] = host["lines"]
        return lines

    def printed(self, case: dict[str, Any]) -> list[str]:
        return [line for line in self.output.splitlines() if line.strip().startswith(f"ct{case['id']} ")]


@pytest.fixture(scope="module")
def night(control: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Night]:
    """``night("single")``: the command on the hosts of that set, made once."""
    made: dict[str, Night] = {}

    def run(name: str) -> Night:
        if name not in made:
            state = tmp_path_factory.mktemp(name)
            hosts = ",".join(f"ct{case['id']}" for case in CASES if case["set"] == name)
            done = control.night(state, "--limit", hosts, "--forks", "4")
            assert (state / "report.json").exists(), done.stderr
            made[name] = Night(done.returncode, done.stdout, json.loads((state / "report.json").read_text()))
            assert set(re.findall(r"changed=(\d+)", (state / "run.log").read_text())) == {"0"}
        return made[name]

    return run


@pytest.mark.timeout(450)
@pytest.mark.parametrize("name", SETS)
def test_the_status_is_the_worst_of_the_fleet(name: str, night: Callable[[str], Night]) -> None:
    wanted = {EXIT[case.get("result", "drift")] for case in CASES if case["set"] == name}
    assert night(name).status == max(wanted), night(name).output


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_one_line_for_each_thing_on_its_link(case: dict[str, Any], night: Callable[[str], Night]) -> None:
    lines = night(case["set"]).lines(case)
    assert [line["link"] for line in lines] == case["links"], lines
    assert len(night(case["set"]).printed(case)) == len(lines)


@pytest.mark.parametrize("case", [case for case in CASES if case["links"]], ids=lambda case: str(case["name"]))
def test_the_line_is_precise(case: dict[str, Any], night: Callable[[str], Night]) -> None:
    printed = night(case["set"]).printed(case)[0]
    assert case["word"] in printed
    assert "HOST" not in printed
    assert night(case["set"]).lines(case)[0]["kind"] == case.get("result", "drift")


def test_a_clean_night_is_silent(night: Callable[[str], Night]) -> None:
    assert night("clean").output == ""
