# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""drift_info and drift_report on the control node: one look, a proof when it is due, and whole files or none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from tests.unit.plugins.action.test_chain import action
from tests.unit.plugins.module_utils._drift import nights

IDLE = {"processes": 0, "utilization": 0, "memory_mib": 4}
PROOF = {"state": "ok", "slower": [], "record": {"ok": True, "ratio": 7.7, "when": "2026-11-30T02:20:00+00:00"}}


def info(
    tmp_path: Path, *answers: Any, on_disk: str | None = None, **arguments: Any
) -> tuple[dict[str, Any], mock.Mock]:
    """(drift, the mock of the module executions) where the modules answer with these, one after the other."""
    plugin = action("drift_info", state_path=str(tmp_path), **arguments)
    plugin._execute_module = mock.Mock(side_effect=list(answers))
    if on_disk:
        plugin._connection.run_on_node = mock.Mock(return_value=(0, f"{on_disk}\n".encode(), b""))
    return plugin.run(task_vars={"inventory_hostname": "ct200"})["drift"], plugin._execute_module


def look(move: nights.Move | None = None, gpu: bool = False) -> dict[str, Any]:
    """What the module chain_info answers on a host that was locked as it is."""
    facts = nights.locked(gpu)
    facts["gpu"]["load"] = IDLE
    facts["proof"]["record"] = (
        {**(facts["proof"]["record"] or {}), "when": "2020-01-01T00:00:00+00:00"} if gpu else None
    )
    if move:
        move(facts)
    facts.pop("reach")
    return {"facts": facts, "seconds": {}, "changed": False}


def test_one_look_a_host(tmp_path: Path) -> None:
    drift, execute = info(tmp_path, look())
    assert (drift["result"], drift["lines"]) == ("ok", [])
    assert execute.call_count == 1
    assert execute.call_args.kwargs["module_args"]["network"] is True
    assert list(tmp_path.iterdir()) == []


def test_a_proof_that_is_due_is_made_and_kept(tmp_path: Path) -> None:
    drift, execute = info(tmp_path, look(gpu=True), PROOF)
    assert (drift["result"], drift["ratio"]) == ("ok", 7.7)
    assert execute.call_args.kwargs["module_name"] == "proxmox_gpu.training.fast_path_info"
    assert execute.call_args.kwargs["module_args"]["quick"] is True
    assert json.loads((tmp_path / "proofs" / "ct200.json").read_text())["ratio"] == 7.7


def test_a_kept_proof_counts_for_a_week(tmp_path: Path) -> None:
    (tmp_path / "proofs").mkdir()
    kept = {"ok": True, "ratio": 7.1, "when": datetime.now(UTC).isoformat()}
    (tmp_path / "proofs" / "ct200.json").write_text(json.dumps(kept))
    drift, execute = info(tmp_path, look(gpu=True))
    assert execute.call_count == 1
    assert (drift["result"], drift["ratio"]) == ("ok", 7.1)


def test_a_busy_gpu_is_left_alone(tmp_path: Path) -> None:
    drift, execute = info(tmp_path, look(lambda facts: facts["gpu"].update(load=IDLE | {"processes": 1}), gpu=True))
    assert execute.call_count == 1
    assert drift["result"] == "unknown"
    assert [line["id"] for line in drift["lines"]] == ["proof.busy"]


def test_a_slower_proof_is_drift(tmp_path: Path) -> None:
    drift, _execute = info(tmp_path, look(gpu=True), {**PROOF, "slower": ["4096 tokens took 12 ms, 8 ms when locked."]})
    assert [(line["link"], line["kind"]) for line in drift["lines"]] == [("proof", "drift")]


def test_a_driver_that_waits_for_the_nodes_reboot(tmp_path: Path) -> None:
    drift, execute = info(tmp_path, look(gpu=True), on_disk="590.44.01")
    [line] = drift["lines"]
    assert (line["link"], line["was"]) == ("gpu", "580.95.05")
    assert "590.44.01 is installed and not yet loaded" in line["is"]
    assert execute.call_count == 1  # and no proof


def test_a_container_that_does_not_answer_is_unknown(tmp_path: Path) -> None:
    drift, _execute = info(tmp_path, AnsibleConnectionFailure("no route to pve2"))
    assert drift["result"] == "unknown"
    assert [line["is"] for line in drift["lines"]] == ["no route to pve2"]


def test_a_damaged_proof_on_the_control_node_is_said(tmp_path: Path) -> None:
    (tmp_path / "proofs").mkdir()
    (tmp_path / "proofs" / "ct200.json").write_text("{")
    drift, _execute = info(tmp_path, look(gpu=True))
    assert "ct200.json on the control node cannot be read" in drift["lines"][0]["is"]


def report(tmp_path: Path, hosts: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    plugin = action("drift_report", state_path=str(tmp_path / "state"), display=False, hosts=hosts, **arguments)
    found: dict[str, Any] = plugin.run(task_vars={})
    return found


def test_every_form_is_written(tmp_path: Path) -> None:
    result = report(
        tmp_path, {"ct1": {"drift": nights.judged(host="ct1")}}, prometheus_path=str(tmp_path / "node.prom")
    )
    names = {
        "history.jsonl",
        "history.jsonl.lock",
        *(f"report.{end}" for end in ("txt", "html", "json", "md", "xml", "prom")),
    }
    assert {path.name for path in (tmp_path / "state").iterdir()} == names
    assert (result["changed"], result["verdict"], result["exit"]) == (False, "ok", 0)
    assert (tmp_path / "node.prom").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "state" / "report.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("found", [None, {}, {"failed": True, "msg": "Timed out after 900 s"}])
def test_a_host_without_a_verdict_is_unknown(tmp_path: Path, found: Any) -> None:
    result = report(tmp_path, {"ct1": found})
    assert (result["verdict"], result["exit"]) == ("unknown", 3)


def test_what_was_told_is_remembered(tmp_path: Path) -> None:
    hosts = {"ct1": {"drift": nights.judged(lambda facts: facts["compiler"].update(gcc="14.2.0"), host="ct1")}}
    first = report(tmp_path, hosts)["news"]
    assert first["changed"]
    action("drift_report", state_path=str(tmp_path / "state"), told=first["open"]).run(task_vars={})
    assert not report(tmp_path, hosts)["news"]["changed"]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(AnsibleActionFail, match="drift_check_path"):
        report(tmp_path, {})
