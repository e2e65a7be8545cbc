# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""judge(desired, facts) -> findings: a walk along the chain. Pure, and it never raises."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Callable

from .catalogue import Entry, entry
from .finding import Finding, mark_consequences
from .links import LINKS, UNKNOWN
from .look import Look
from .rules import base, binding, compiler, extensions, gpu, proof, reach, repository, toolkit, torch

Rule = Callable[[Look], Iterable[Finding]]

RULES: dict[str, Rule] = {
    "reach": reach.judge,
    "base": base.judge,
    "gpu": gpu.judge,
    "torch": torch.judge,
    "repository": repository.judge,
    "toolkit": toolkit.judge,
    "compiler": compiler.judge,
    "extensions": extensions.judge,
    "binding": binding.judge,
    "proof": proof.judge,
}

NOT_OBSERVED: dict[str, Entry] = {
    link: entry(
        f"{link}.not_observed",
        UNKNOWN,
        "{reason}",
        cause="The container could not be asked, or the answer did not come in time; nothing is said about this link.",
    )
    for link in LINKS
    if link != "reach"
}
UNREADABLE: dict[str, Entry] = {
    link: entry(
        f"{link}.unreadable",
        UNKNOWN,
        "The facts about this link have a shape that the rule does not know ({reason}); a file that the collection "
        "keeps in the container may come from another version of it.",
        cause="A record in /var/lib/proxmox_gpu or the lock file was written by another version, or edited by hand.",
        remedy="ansible-playbook proxmox_gpu.training.provision -l HOST",
    )
    for link in LINKS
}


def judge(desired: dict[str, Any], facts: dict[str, Any], host: str = "HOST", vmid: str = "VMID") -> list[Finding]:
    """One finding or more for each link that has a section in facts, in the chain's order.

    desired: {role: {variable: value}, "explicit": [names]}.  facts: {link: section}; a section {"error": sentence}
    was not observed and is judged unknown.  host, vmid: what the remedies name.
    """
    look = Look(desired, facts)
    findings: list[Finding] = []
    for link in LINKS:
        if link in facts:
            findings.extend(_judge_link(link, look))
    return [
        replace(finding, remedy=finding.remedy.replace("HOST", host).replace("VMID", vmid) if finding.remedy else None)
        for finding in mark_consequences(findings)
    ]


def _judge_link(link: str, look: Look) -> list[Finding]:
    error = look.error(link)
    if error and link != "reach":
        return [NOT_OBSERVED[link].finding(reason=error)]
    try:
        return list(RULES[link](look))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
        # Facts come from files in the container that anybody may have edited: a strange one is an unknown link.
        return [UNREADABLE[link].finding(reason=f"{type(problem).__name__}: {problem}")]
