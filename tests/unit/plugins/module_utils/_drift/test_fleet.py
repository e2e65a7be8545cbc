# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet's nights: the worst result, since when, what changed, what a person is told, and every form of the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import (
    fleet,
    history,
    junit,
    markdown,
    prometheus,
    terminal,
    verdict,
)
from tests.unit.plugins.module_utils._drift import nights

CHECKOUT = Path(__file__).resolve().parents[5]
SCHEMA = json.loads((CHECKOUT / "docs" / "schemas" / "drift-1.json").read_text(encoding="utf-8"))


def unheld(facts: dict[str, Any]) -> None:
    facts["toolkit"]["packages"]["cuda-nvcc-13-0"]["held"] = False


def unreachable(facts: dict[str, Any]) -> None:
    facts["reach"] = {"error": "no route"}


class Nights:
    """Night after night of a fleet: ``add(ct1=move, ...)`` gives the report of one."""

    def __init__(self) -> None:
        self.records: list[history.Record] = []
        self.now = nights.NOW

    def add(self, **moves: nights.Move | None) -> dict[str, Any]:
        self.now += nights.DAY
        judged = [nights.judged(move, host=host) for host, move in moves.items()]
        report = fleet.document(judged, self.records, self.now, UTC)
        self.records.append(fleet.record(report, self.records, self.now))
        return report


@pytest.mark.parametrize(
    ("results", "worst"),
    [("ok", "ok"), ("ok drift", "drift"), ("unknown drift", "unknown"), ("not_provisioned unknown", "not_provisioned")],
)
def test_the_verdict_is_the_worst(results: str, worst: str) -> None:
    assert verdict.worst(results.split()) == worst


def test_since_is_when_it_was_first_seen_also_after_a_night_that_saw_nothing() -> None:
    fleet_ = Nights()
    since = fleet_.add(ct1=unheld)["hosts"][0]["lines"][0]["since"]
    fleet_.add(ct1=unreachable)
    [line] = fleet_.add(ct1=unheld)["hosts"][0]["lines"]
    assert line["since"] == since == "2026-12-01T02:14:00+00:00"


def test_what_was_repaired_begins_anew() -> None:
    fleet_ = Nights()
    fleet_.add(ct1=unheld)
    assert [one["change"] for one in fleet_.add(ct1=None)["changes"]] == ["gone"]
    [line] = fleet_.add(ct1=unheld)["hosts"][0]["lines"]
    assert line["since"].startswith("2026-12-03")
    assert line["new"]


def test_nobody_is_told_of_the_same_drift_twice() -> None:
    fleet_ = Nights()
    told: list[str] = []
    news = []
    for move in (unheld, unheld, unreachable, unheld, None, None):
        report = fleet_.add(ct1=move)
        found = fleet.news(report, told, fleet_.records[-1]["open"])
        news.append((len(found["appeared"]), found["gone"]))
        told = list(fleet_.records[-1]["open"])
    assert news == [(1, 0), (0, 0), (1, 0), (0, 1), (0, 1), (0, 0)]


def test_a_run_on_some_hosts_leaves_the_others_alone() -> None:
    fleet_ = Nights()
    since = fleet_.add(ct1=unheld, ct2=None)["hosts"][0]["lines"][0]["since"]
    fleet_.add(ct2=None)
    report = fleet_.add(ct1=unheld, ct2=None)
    assert report["hosts"][0]["lines"][0]["since"] == since
    assert report["changes"] == []


def test_thirty_nights_are_shown() -> None:
    fleet_ = Nights()
    report = [fleet_.add(ct1=None) for _night in range(40)][-1]
    assert len(report["nights"]) == len(report["hosts"][0]["nights"]) == 30
    assert report["nights"][-1]["date"] == report["generated"][:10]


@pytest.fixture
def report() -> dict[str, Any]:
    fleet_ = Nights()
    fleet_.add(ct1=None, ct2=unheld, ct3=unreachable, ct4=None)
    return fleet_.add(ct1=None, ct2=unheld, ct3=unreachable, ct4=unheld)


def test_the_document_is_as_the_schema_says(report: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")  # not in the environment of the older ansible-core
    jsonschema.validate(json.loads(json.dumps(report)), SCHEMA)


def test_a_clean_night_is_one_sentence() -> None:
    assert terminal.text(Nights().add(ct1=None, ct2=None)) == "All 2 hosts are as they were locked."


def test_the_terminal_has_one_line_for_each_thing(report: dict[str, Any]) -> None:
    first, *lines = terminal.text(report).splitlines()
    assert first == "4 hosts: 2 drifted (ct2, ct4), 1 unknown (ct3), 1 ok."
    assert [line.split()[:2] for line in lines] == [["ct2", "toolkit"], ["ct4", "toolkit"], ["ct3", "reach"]]
    assert "hold of cuda-nvcc-13-0: was held, is not held (since 2026-12-01)." in lines[0]
    assert "(new)" in lines[1]


def test_junit_counts_drift_and_unknown_apart(report: dict[str, Any]) -> None:
    root = ElementTree.fromstring(junit.text(report))
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["errors"]) == ("40", "2", "1")
    assert [case.attrib["name"] for case in root.iter("testcase") if case.find("failure") is not None] == [
        "toolkit"
    ] * 2


def test_junit_survives_what_xml_cannot_hold(report: dict[str, Any]) -> None:
    report["hosts"][0]["lines"][0]["is"] = "a \x00 <b> & \x1b[31m"
    ElementTree.fromstring(junit.text(report))


def test_metrics(report: dict[str, Any]) -> None:
    text = prometheus.text(report)
    assert 'proxmox_gpu_drift_host_result{host="ct2"} 2' in text
    assert 'proxmox_gpu_drift_lines{host="ct3",link="reach",kind="unknown"} 1' in text
    assert text.count("# TYPE") == 5


@pytest.mark.parametrize("make", [markdown.text, terminal.text, junit.text, prometheus.text])
def test_each_form_of_an_empty_fleet(make: Callable[[dict[str, Any]], str]) -> None:
    empty = fleet.document([], [], nights.NOW, UTC)
    assert empty["verdict"] == "unknown"
    assert make(empty)


def test_history_survives_a_crash_in_mid_write(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "history.jsonl")
    fleet_ = Nights()
    fleet_.add(ct1=None)
    history.append(path, fleet_.records[0], 0)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"schema":1,"when":17, "hos')
    fleet_.add(ct1=unheld)
    history.append(path, fleet_.records[1], 0)
    assert history.read(path) == fleet_.records


def test_history_is_pruned_by_age(tmp_path: Path) -> None:
    path = str(tmp_path / "history.jsonl")
    fleet_ = Nights()
    for _night in range(5):
        fleet_.add(ct1=None)
        history.append(path, fleet_.records[-1], fleet_.now - 2.5 * nights.DAY)
    assert history.read(path) == fleet_.records[-3:]
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_host_that_could_not_be_looked_at_is_unknown() -> None:
    found = verdict.could_not_look("ct9", "the variable x is undefined")
    assert found["result"] == "unknown"
    assert [line["is"] for line in found["lines"]] == ["the variable x is undefined"]
