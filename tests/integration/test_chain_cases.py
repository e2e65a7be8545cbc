# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""diagnose names each mess of tests/integration/cases, and provision repairs what a role can repair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import chain_cases
from tests.integration.box import Box
from tests.integration.chain_cases import Case, Ward

CASES = chain_cases.load()
MESSES = [case for case in CASES if not case.harmless]
REPAIRED = [case for case in MESSES if case.repair == "provision"]
#: Where there is no GPU, nothing can be proven: the one thing that a repaired host still lacks.
LEFT = ["proof.no_gpu"]

every = pytest.mark.parametrize("case", MESSES, ids=lambda case: case.identity)
repaired = pytest.mark.parametrize("case", REPAIRED, ids=lambda case: case.identity)


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


@pytest.mark.timeout(2400)
@every
def test_diagnose_names_the_mess(case: Case, diagnosed: dict[str, dict[str, Any]]) -> None:
    chain = diagnosed[case.identity]
    cause = chain["cause"]
    assert cause is not None, "diagnose found nothing"
    assert cause["id"] == case.finding, cause["sentence"]
    for word in case.words:
        assert word in cause["sentence"]
    found = [finding["id"] for finding in chain["findings"]]
    assert case.then is None or case.then in found
    for link in case.consequences:
        assert chain["links"][link]["consequence_of"] == cause["link"]


@pytest.mark.parametrize("case", [case for case in CASES if case.harmless], ids=lambda case: case.identity)
def test_diagnose_gives_no_false_alarm(case: Case, diagnosed: dict[str, dict[str, Any]]) -> None:
    findings = diagnosed[case.identity]["findings"]
    assert [one["id"] for one in findings if one["state"] not in ("ok", "not_applicable")] in ([], LEFT)


@every
def test_diagnose_says_what_to_do(case: Case, diagnosed: dict[str, dict[str, Any]]) -> None:
    remedy = diagnosed[case.identity]["cause"]["remedy"]
    assert remedy
    assert "HOST" not in remedy
    assert "VMID" not in remedy


def test_each_case_that_nobody_repairs_says_why() -> None:
    assert [case.identity for case in MESSES if case.repair != "provision" and not case.reason] == []
