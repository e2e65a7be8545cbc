# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judging: each finding of the catalogue, the worked example, hosts that must give no false alarm, and any facts at "
"all."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain import finding, links
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.catalogue import CATALOGUE
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.finding import Finding
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.judge import RULES, judge
from tests.unit.plugins.module_utils._chain import hosts
from tests.unit.plugins.module_utils._chain.cases import CASES, Case

#: Made by judge itself for every link, and tested by their kind below.
GENERAL = (".not_observed", ".unreadable")


def judged(case: Case) -> list[Finding]:
    facts = case.host()
    case.change(facts)
    return judge(case.wishes, facts, "ct200")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_gives_its_finding_first_of_its_link(case: Case) -> None:
    mine = [found for found in judged(case) if found.link == case.id.partition(".")[0]]
    failing = [found for found in mine if not found.holds]
    first = (failing or mine)[0]
    assert first.id == case.id, first
    for word in case.words:
        assert word in first.sentence


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_names_no_earlier_link_as_the_cause(case: Case) -> None:
    found = finding.cause(judged(case))
    own = case.id.partition(".")[0]
    if CATALOGUE[case.id].state not in links.HOLDING:
        assert found is not None
        assert links.LINKS.index(found.link) <= links.LINKS.index(own)


def test_every_entry_of_the_catalogue_can_be_reached() -> None:
    reached = {case.id for case in CASES}
    assert {identity for identity in CATALOGUE if not identity.endswith(GENERAL)} == reached


@pytest.mark.parametrize("identity", sorted(CATALOGUE))
def test_entry_says_what_to_do(identity: str) -> None:
    entry = CATALOGUE[identity]
    assert not entry.id.endswith((".not_observed",)) or entry.state == "unknown"
    if entry.state not in links.HOLDING and not identity.endswith(GENERAL):
        assert entry.remedy, "a trouble without a remedy"
        assert entry.cause, "a trouble without a cause"
        assert entry.sentence.rstrip().endswith((".", "}")), "no sentence"


class TestWorkedExample:
    """Training is 10 times slower than it should be, and the last line of a long story is that no repository is "
    "there."""

    @pytest.fixture
    def findings(self) -> list[Finding]:
        return judge(hosts.wishes(), hosts.bare_torch(), "ct200")

    def test_cause_is_the_repository(self, findings: list[Finding]) -> None:
        found = finding.cause(findings)
        assert found is not None
        assert found.id == "repository.absent"
        assert found.consequence_of is None
        assert found.remedy == "ansible-playbook proxmox_gpu.training.provision -l ct200 --tags cuda_repository"

    def test_a_missing_tool_is_no_consequence_of_the_repository(self) -> None:
        facts = hosts.bare_torch()
        facts["compiler"]["gcc"] = None
        [found] = [item for item in judge(hosts.wishes(), facts) if item.link == "compiler"]
        assert (found.id, found.consequence_of) == ("compiler.no_gcc", None)

    @pytest.mark.parametrize("link", ["toolkit", "compiler", "extensions", "binding"])
    def test_later_troubles_are_its_consequences(self, findings: list[Finding], link: str) -> None:
        [found] = [item for item in findings if item.link == link]
        assert not found.holds
        assert found.consequence_of == "repository"

    def test_the_cost_is_told_in_layers(self, findings: list[Finding]) -> None:
        [found] = [item for item in findings if item.link == "binding"]
        assert "48 of 64 layers run on the PyTorch fallback" in found.sentence

    def test_the_cost_of_no_model_in_particular_is_a_share(self) -> None:
        facts = hosts.bare_torch()
        facts["binding"].update(example=True, total=8, fast_layers=6)
        [found] = [item for item in judge(hosts.wishes(), facts) if item.link == "binding"]
        assert found.sentence.startswith("6 of every 8 layers of a qwen3_5 model run on the PyTorch fallback")

    def test_nothing_proven_has_a_reason_of_its_own(self, findings: list[Finding]) -> None:
        [found] = [item for item in findings if item.link == "proof"]
        assert (found.state, found.sentence) == ("unknown", "No GPU here, so nothing was proven.")
        assert found.consequence_of is None


def failing(findings: list[Finding]) -> list[str]:
    return [found.id for found in findings if not found.holds]


def test_provisioned_host_without_gpu_lacks_a_proof_alone() -> None:
    findings = judge(hosts.wishes(), hosts.provisioned())
    assert failing(findings) == ["proof.no_gpu"]
    assert [found.state for found in findings].count("ok") == 8


@pytest.mark.parametrize("host", [hosts.runfile, hosts.conda], ids=["runfile", "conda"])
def test_host_set_up_by_hand_gives_no_false_alarm(host: Any) -> None:
    assert failing(judge(hosts.wishes(), host())) == ["proof.no_gpu"]


def test_helpers_of_the_roles_are_not_missed_where_somebody_else_set_up_torch() -> None:
    facts = hosts.runfile()
    facts["base"]["packages"] = {"python3": "3.11.2-1+b1"}
    assert failing(judge(hosts.wishes(), facts)) == ["proof.no_gpu"]
    assert "base.packages_missing" in failing(judge(hosts.wishes("bootstrap_packages"), facts))


def test_packages_that_nobody_asked_for_are_missed_only_where_the_binding_lacks_them() -> None:
    facts, wishes = hosts.runfile(), hosts.wishes()
    wishes["torch_environment"]["packages"] = {
        "transformers": "5.23.0",
        "flash-linear-attention": "0.5.2",
        "numpy": "2",
    }
    assert failing(judge(wishes, facts)) == ["proof.no_gpu"]
    facts["binding"] = hosts.binding("causal_conv1d")
    assert "torch.packages_missing" not in failing(judge(wishes, facts))
    facts["binding"] = hosts.binding("fla")
    del facts["torch"]["distributions"]["flash-linear-attention"]
    assert failing(judge(wishes, facts))[0] == "torch.packages_missing"


def test_provisioned_host_with_gpu_holds_wholly() -> None:
    findings = judge(hosts.wishes(), hosts.with_gpu())
    assert failing(findings) == []
    assert finding.verdict(findings) == "ok"


def test_host_meant_to_have_no_cuda_holds_wholly() -> None:
    facts, wishes = hosts.cpu_only()
    assert failing(judge(wishes, facts)) == []


def test_inference_host_lacks_a_proof_alone() -> None:
    facts, wishes = hosts.inference_only()
    assert failing(judge(wishes, facts)) == []


TROUBLES = [case for case in CASES if CATALOGUE[case.id].state not in links.HOLDING and case.host is hosts.provisioned]


@given(st.lists(st.sampled_from(TROUBLES), min_size=2, max_size=3, unique_by=lambda case: case.id.partition(".")[0]))
def test_several_troubles_name_the_earliest(cases: list[Case]) -> None:
    facts, wishes = hosts.provisioned(), hosts.wishes()
    for case in cases:
        try:
            case.change(facts)
        except (KeyError, TypeError, IndexError):
            return  # an earlier change took away what this one changes
        for role, variables in case.wishes.items():
            if role != "explicit":
                wishes[role].update({k: v for k, v in variables.items() if v != hosts.wishes()[role].get(k)})
        wishes["explicit"] = sorted({*wishes["explicit"], *case.wishes["explicit"]})
    findings = judge(wishes, facts)
    cause = finding.cause(findings)
    assert cause is not None
    earliest = min(links.LINKS.index(case.id.partition(".")[0]) for case in cases)
    assert links.LINKS.index(cause.link) <= earliest


# Values as they could stand in a file that somebody edited.
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged_hosts(draw: st.DrawFn) -> dict[str, Any]:
    """A good host in which some values were replaced by anything."""
    facts = copy.deepcopy(draw(st.sampled_from([hosts.provisioned, hosts.with_gpu, hosts.bare_torch]))())
    for _round in range(draw(st.integers(1, 4))):
        place, key = facts, draw(st.sampled_from(sorted(facts)))
        while isinstance(place[key], dict) and place[key] and draw(st.booleans()):
            place, key = place[key], draw(st.sampled_from(sorted(place[key])))
        place[key] = draw(anything)
    return facts


@given(damaged_hosts())
def test_any_facts_are_judged_without_an_error(facts: dict[str, Any]) -> None:
    findings = judge(hosts.wishes(), facts)
    assert {found.link for found in findings} == set(facts) & set(links.LINKS)
    assert all(found.state in links.STATES for found in findings)
    cause = finding.cause(findings)
    assert (cause is None) == all(found.holds for found in findings)
    if cause is not None:
        first = next(link for link in links.LINKS if any(f.link == link and not f.holds for f in findings))
        assert cause.link == first


@given(st.dictionaries(st.sampled_from([*links.LINKS, "explicit", "bootstrap", "cuda_toolkit"]), anything))
def test_any_wishes_and_any_facts_are_judged_without_an_error(both: dict[str, Any]) -> None:
    judge(both, both)


@pytest.mark.parametrize("link", [link for link in links.LINKS if link != "reach"])
def test_what_was_not_observed_is_unknown_and_does_not_hold(link: str) -> None:
    facts = {**hosts.provisioned(), link: {"error": "It did not answer."}}
    [found] = [item for item in judge(hosts.wishes(), facts) if item.link == link]
    assert (found.id, found.state, found.holds) == (f"{link}.not_observed", "unknown", False)
    assert found.sentence == "It did not answer."


def test_a_rule_that_meets_strange_facts_says_unknown() -> None:
    facts = {**hosts.provisioned(), "gpu": {"nodes": [{"path": 1}]}}
    [found] = [item for item in judge(hosts.wishes(), facts) if item.link == "gpu"]
    assert (found.id, found.state) == ("gpu.unreadable", "unknown")


def test_unreachable_host_explains_everything_that_was_not_observed() -> None:
    facts = {link: {"error": "The container did not answer."} for link in links.LINKS}
    findings = judge(hosts.wishes(), facts)
    assert finding.cause(findings) == findings[0]
    assert all(found.consequence_of == "reach" for found in findings[1:])


def test_proxy_of_the_container_is_held_against_the_wish() -> None:
    facts, wishes = hosts.provisioned(), hosts.wishes(bootstrap_files={"certificates": [], "proxy": "Acquire x;"})
    assert "base.configuration_differs" in failing(judge(wishes, facts))
    facts["base"]["apt_proxy"] = "Acquire x;"
    assert "base.configuration_differs" not in failing(judge(wishes, facts))


def test_sources_that_do_not_name_the_wanted_mirror_are_told() -> None:
    facts, wishes = hosts.provisioned(), hosts.wishes(bootstrap_apt_mirror="http://mirror.example")
    assert "base.configuration_differs" not in failing(judge(wishes, facts))
    facts["base"]["apt_unmirrored"] = ["http://deb.debian.org"]
    [found] = [item for item in judge(wishes, facts) if item.id == "base.configuration_differs"]
    assert (found.expected, found.observed) == ("http://mirror.example", "http://deb.debian.org")
    assert "package sources are not what the variables say (bootstrap_apt_mirror)" in found.sentence


def test_certificates_that_cannot_be_told_are_no_trouble_of_the_container() -> None:
    wishes = hosts.wishes(bootstrap_files={"certificates": None, "proxy": ""})
    assert failing(judge(wishes, hosts.provisioned())) == ["proof.no_gpu"]


@pytest.mark.parametrize(
    ("host", "pending"),
    [
        (hosts.provisioned, []),
        (hosts.with_gpu, []),
        (hosts.bare_torch, ["repository", "toolkit", "compiler", "extensions", "binding"]),
    ],
)
def test_pending_links_are_those_a_role_can_repair_and_what_rests_on_them(host: Any, pending: list[str]) -> None:
    assert finding.pending(judge(hosts.wishes(), host())) == pending


def test_a_proof_is_pending_where_a_gpu_is() -> None:
    facts = hosts.with_gpu()
    facts["proof"]["record"] = None
    assert finding.pending(judge(hosts.wishes(), facts)) == ["proof"]


def test_nothing_is_pending_on_an_unreachable_host_s_devices() -> None:
    facts = hosts.with_gpu()
    facts["gpu"]["nodes"][0]["kind"] = "file"
    assert finding.pending(judge(hosts.wishes(), facts)) == []


def test_links_without_facts_are_not_judged() -> None:
    assert [found.link for found in judge(hosts.wishes(), {"repository": {}})] == ["repository"]


def test_every_link_has_a_rule() -> None:
    assert tuple(RULES) == links.LINKS
