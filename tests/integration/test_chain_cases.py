# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""diagnose names each mess of tests/integration/cases, and provision repairs what a role can repair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration import chain_cases
from tests.integration.box import Box
from tests.integration.chain_cases import Case, Ward

#: The first test of a group waits for all hosts.
pytestmark = pytest.mark.timeout(2400)

CASES = chain_cases.load()
MESSES = [case for case in CASES if not case.harmless]
REPAIRED = [case for case in MESSES if case.repair == "provision"]
#: What a repaired host is compared with.
[FINISHED] = [case for case in CASES if case.name == "a finished host"]
#: A host of each kind: without python3, stopped, broken, good. None of them is repaired, so that the order is free.
CHECKED = [
    case
    for case in CASES
    if case.name in ("a bare container without python3", "the container is stopped", "a CPU build of torch")
] + [FINISHED]
#: Where there is no GPU, nothing can be proven: the one thing that a repaired host still lacks.
LEFT = ["proof.no_gpu"]

every = pytest.mark.parametrize("case", MESSES, ids=lambda case: case.identity)
repaired = pytest.mark.parametrize("case", REPAIRED, ids=lambda case: case.identity)


@dataclass(frozen=True)
class Repairs:
    """What provision did to the hosts that it can repair, by case: two runs of it, and a look in between."""

    first: dict[str, dict[str, int]]
    chains: dict[str, dict[str, Any]]
    second: dict[str, dict[str, int]]
    states: dict[str, set[str]]


@pytest.fixture(scope="module")
def ward(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    made = Ward(box, CASES, tmp_path_factory.mktemp("ward"))
    try:
        made.make()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def diagnosed(ward: Ward) -> dict[str, dict[str, Any]]:
    return ward.diagnose(CASES)


@every
def test_diagnose_names_the_mess(case: Case, ward: Ward, diagnosed: dict[str, dict[str, Any]]) -> None:
    assert case.identity not in ward.unmade, ward.unmade[case.identity]
    chain = diagnosed[case.identity]
    cause = chain["cause"]
    assert cause is not None, "diagnose found nothing"
    assert cause["id"] == case.finding, cause["sentence"]
    for word in case.words:
        assert word in cause["sentence"]
    found = [finding["id"] for finding in chain["findings"]]
    assert case.then is None or case.then in found, found
    for link in case.consequences:
        assert chain["links"][link]["consequence_of"] == cause["link"]


@pytest.mark.parametrize("case", [case for case in CASES if case.harmless], ids=lambda case: case.identity)
def test_diagnose_gives_no_false_alarm(case: Case, ward: Ward, diagnosed: dict[str, dict[str, Any]]) -> None:
    assert case.identity not in ward.unmade, ward.unmade[case.identity]
    findings = diagnosed[case.identity]["findings"]
    assert [one["id"] for one in findings if one["state"] not in ("ok", "not_applicable")] in ([], LEFT)
    said = " ".join(one["sentence"] for one in findings)
    assert [word for word in case.words if word not in said] == []


@every
def test_diagnose_says_what_to_do(case: Case, diagnosed: dict[str, dict[str, Any]]) -> None:
    remedy = diagnosed[case.identity]["cause"]["remedy"]
    assert remedy
    assert "HOST" not in remedy
    assert "VMID" not in remedy


@pytest.fixture(scope="module")
def repairs(ward: Ward, diagnosed: dict[str, dict[str, Any]]) -> Repairs:
    first, chains, second = ward.provision(REPAIRED), ward.diagnose(REPAIRED), ward.provision(REPAIRED)
    return Repairs(first, chains, second, {case.identity: ward.state(case) for case in [*REPAIRED, FINISHED]})


@repaired
def test_provision_repairs_it(case: Case, repairs: Repairs) -> None:
    recap = repairs.first[case.identity]
    assert (recap["failures"], recap["unreachable"]) == (0, 0)
    assert recap["changed"] > 0
    left = [one for one in repairs.chains[case.identity]["findings"] if one["state"] not in ("ok", "not_applicable")]
    assert [one["id"] for one in left] == LEFT, left[0]["sentence"]


@repaired
def test_a_second_provision_changes_nothing(case: Case, repairs: Repairs) -> None:
    recap = repairs.second[case.identity]
    assert (recap["failures"], recap["unreachable"], recap["changed"]) == (0, 0, 0)


@repaired
def test_the_repair_touched_nothing_else(case: Case, repairs: Repairs) -> None:
    """The host is now what an untouched finished one is, but for what the case names."""
    other = repairs.states[case.identity] ^ repairs.states[FINISHED.identity]
    assert [line for line in sorted(other) if not any(word in line for word in case.differs)] == []


def test_check_mode_says_the_same(ward: Ward, diagnosed: dict[str, dict[str, Any]]) -> None:
    said = ward.diagnose(CHECKED, check=True)
    assert {name: chain["links"] for name, chain in said.items()} == {
        case.identity: diagnosed[case.identity]["links"] for case in CHECKED
    }


def test_each_case_that_nobody_repairs_says_why() -> None:
    assert [case.identity for case in MESSES if case.repair != "provision" and not case.reason] == []
