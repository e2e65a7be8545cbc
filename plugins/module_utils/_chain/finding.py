# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A finding: what one rule says of one link, and what follows from a list of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from .links import HOLDING, LINKS, RESTS_ON, STATES


@dataclass(frozen=True)
class Finding:
    """One sentence about one link.

    id: stable name in the error catalogue, "<link>.<word>".  state: one of links.STATES.
    expected, observed: short texts, or None.  evidence: the file or command that anybody can look at.
    remedy: what to run, or None where nothing is to be done.  consequence_of: the link whose failure explains this
    one, or None.  rests_on: the links that could explain it; None means all that its own link rests on.
    """

    id: str
    link: str
    state: str
    sentence: str
    expected: str | None = None
    observed: str | None = None
    evidence: str | None = None
    remedy: str | None = None
    consequence_of: str | None = None
    rests_on: tuple[str, ...] | None = None

    @property
    def holds(self) -> bool:
        return self.state in HOLDING

    def as_dict(self) -> dict[str, Any]:
        shown = asdict(self)
        del shown["rests_on"]
        return shown


def mark_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """Mark each finding that does not hold with the earliest failed link that explains it, if there is one."""
    marked: list[Finding] = []
    failed: set[str] = set()
    for finding in findings:
        if finding.holds:
            marked.append(finding)
            continue
        explaining = RESTS_ON[finding.link] if finding.rests_on is None else finding.rests_on
        marked.append(
            replace(finding, consequence_of=next((link for link in LINKS if link in failed & set(explaining)), None))
        )
        failed.add(finding.link)
    return marked


def cause(findings: Iterable[Finding]) -> Finding | None:
    """The first finding, in the chain's order, that does not hold; None when all hold."""
    failing = [finding for finding in findings if not finding.holds]
    return min(failing, key=lambda finding: LINKS.index(finding.link), default=None)


def pending(findings: Iterable[Finding]) -> list[str]:
    """The links that a provision has to look after, in order: those that do not hold, and those that rest on them.

    What no role can repair is not among them: the container's reach, its devices, and a proof without a GPU.
    """
    found = {item.link for item in findings if not item.holds and item.link not in ("reach", "gpu")}
    found -= {"proof"} if any(item.id == "proof.no_gpu" for item in findings) else set()
    return [link for link in LINKS if link in found or (link != "proof" and found & set(RESTS_ON[link]))]


def verdict(findings: Iterable[Finding]) -> str:
    """The worst state; "ok" when everything that applies holds, "unknown" when nothing was judged at all."""
    states = [finding.state for finding in findings]
    if not states:
        return "unknown"
    worst = max(states, key=STATES.index)
    return "ok" if worst in HOLDING else worst


def by_link(findings: Iterable[Finding]) -> dict[str, dict[str, Any]]:
    """One line a link: of several findings the first that does not hold, else the first."""
    lines: dict[str, Finding] = {}
    for finding in findings:
        known = lines.get(finding.link)
        if known is None or (known.holds and not finding.holds):
            lines[finding.link] = finding
    return {
        link: {
            "state": finding.state,
            "holds": finding.holds,
            "id": finding.id,
            "sentence": finding.sentence,
            "consequence_of": finding.consequence_of,
        }
        for link, finding in lines.items()
    }
