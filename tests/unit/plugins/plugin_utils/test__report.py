# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: readable at its width whatever is in it, the cause and one command, and the same as data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.action.chain_info import conclude
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.links import LINKS
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _report
from tests.unit.plugins.module_utils._chain import hosts
from tests.unit.plugins.module_utils._chain.cases import CASES, Case


def chain_of(facts: dict[str, Any], wishes: dict[str, Any] | None = None) -> dict[str, Any]:
    return conclude(wishes or hosts.wishes(), facts, list(LINKS), "ct200")


def test_worked_example_as_a_table() -> None:
    text = _report.table("ct200", chain_of(hosts.bare_torch()))
    assert text.splitlines()[0] == "ct200: 4 of 10 links hold, verdict broken"
    assert "  costs   48 of 64 layers run on the PyTorch fallback." in text
    assert "  run     ansible-playbook proxmox_gpu.training.provision -l ct200 --tags cuda_repository" in text
    assert "[repository.absent]" in text
    assert " ".join(text.split()).count("(Follows from repository.)") == 4


def test_host_that_holds_has_no_cause() -> None:
    text = _report.table("ct200", chain_of(hosts.with_gpu()))
    assert text.splitlines()[0] == "ct200: all 10 links hold"
    assert "cause" not in text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("width", [60, 100])
def test_table_keeps_to_its_width(case: Case, width: int) -> None:
    facts = case.host()
    case.change(facts)
    for line in _report.table("ct200", chain_of(facts, case.wishes), width).splitlines():
        # A command is never broken; a word longer than the column cannot be.
        longest = max(map(len, line.split()), default=0)
        assert len(line) <= width or "ansible-playbook" in line or longest > width - 40, line


@given(st.text(max_size=300), st.integers(60, 100))
def test_table_takes_any_sentence(sentence: str, width: int) -> None:
    chain = chain_of({**hosts.provisioned(), "reach": {"error": sentence or "x"}})
    assert _report.table("ct200", chain, width)


def test_details_say_what_was_expected_and_seen() -> None:
    facts = hosts.provisioned()
    facts["torch"]["distributions"]["triton"] = "3.4.0"
    text = _report.table("h", chain_of(facts), details=True)
    assert "  [torch.dependency_moved]\n    expected  triton~=3.8.0\n    observed  3.4.0\n" in text
    assert "[torch.ok]" not in text
    assert "    expected  " not in _report.table("h", chain_of(facts))


def test_colour_is_put_around_the_state_alone() -> None:
    text = _report.table("h", chain_of(hosts.bare_torch()), 100, lambda word, state: f"<{state}>{word}</>")
    assert "<absent>absent         </>" in text
    assert "<ok>ok             </>" in text


def test_troubles_that_stand_alone_are_named_besides_the_cause() -> None:
    facts = hosts.with_gpu(hosts.bare_torch())
    facts["gpu"]["nodes"][2]["kind"] = "missing"
    chain = chain_of(facts)
    assert chain["cause"]["id"] == "gpu.node_missing"
    assert [item["id"] for item in _report.others(chain)] == ["repository.absent"]
    text = _report.table("h", chain)
    assert "  also    NVIDIA's CUDA repository is not registered" in text
    # Each command stands on a line of its own, to be copied.
    assert (
        "  run     ansible-playbook proxmox_gpu.training.provision -l ct200 --tags cuda_repository" in text.splitlines()
    )
    assert "**Also** (`repository.absent`)" in _report.markdown("h", chain)


def test_further_findings_of_one_link_are_shown() -> None:
    facts = hosts.provisioned()
    facts["torch"].update(version=None)
    facts["base"].update(packages={}, ca_bundle={"path": "/etc/ssl", "usable": False})
    text = _report.table("h", chain_of(facts), 200)
    assert "python3, ca-certificates are not installed" in text
    assert "no usable CA bundle" in text


def test_json_has_no_raw_facts_and_is_json() -> None:
    data = json.loads(_report.as_json({"ct200": chain_of(hosts.bare_torch())}))
    assert data["summary"] == {
        "hosts": 1,
        "verdicts": {"broken": 1},
        "causes": {"repository.absent": ["ct200"]},
    }
    assert set(data["hosts"]["ct200"]) == {"verdict", "cause", "cost", "links", "findings"}


def test_markdown_has_a_row_a_link_and_escapes_bars() -> None:
    facts = {**hosts.provisioned(), "reach": {"error": "a | b"}}
    text = _report.markdown("ct200", chain_of(facts))
    assert "| reach | broken | a \\| b |" in text
    assert sum(line.startswith("| ") for line in text.splitlines()) == 1 + len(LINKS)


def test_summary_of_a_fleet() -> None:
    fleet = {f"ct{n}": chain_of(hosts.bare_torch()) for n in range(7)} | {"good": chain_of(hosts.with_gpu())}
    assert _report.summary(fleet) == ("8 hosts: 1 ok, 7 broken (repository.absent: ct0, ct1, ct2, ct3, ct4 and 2 more)")


def test_summary_of_nothing() -> None:
    assert _report.summary({}) == "0 hosts: nothing was judged"
