# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The registry of every sentence that the chain can say: one entry an id, written down beside the rule that uses it.

docs/errors.md is generated from here, so an entry holds all that a reader needs: what is said, why it happens, what
to run. HOST and VMID in a remedy are replaced by the host's name and the container's id when it is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .finding import Finding
from .links import LINKS, STATES

#: id -> entry, in the order in which the rule files were read.
CATALOGUE: dict[str, Entry] = {}


@dataclass(frozen=True)
class Entry:
    """One id: its state, the sentence as a str.format template, why it happens, what to run.

    rests_on: the links whose failure would explain it, where these are fewer than what its link rests on.
    """

    id: str
    state: str
    sentence: str
    cause: str
    remedy: str | None
    rests_on: tuple[str, ...] | None = None

    @property
    def link(self) -> str:
        return self.id.partition(".")[0]

    def finding(
        self,
        *,
        expected: Any = None,
        observed: Any = None,
        evidence: Any = None,
        **words: Any,
    ) -> Finding:
        """The sentence with its words filled in."""
        return Finding(
            id=self.id,
            link=self.link,
            state=self.state,
            sentence=self.sentence.format(**words),
            expected=_text(expected),
            observed=_text(observed),
            evidence=_text(evidence),
            remedy=self.remedy.format(**words) if self.remedy else None,
            rests_on=self.rests_on,
        )


def entry(
    identity: str,
    state: str,
    sentence: str,
    *,
    cause: str,
    remedy: str | None = None,
    rests_on: tuple[str, ...] | None = None,
) -> Entry:
    """Register an id. A rule file that spells a link or a state wrongly, or an id twice, must not even import."""
    link = identity.partition(".")[0]
    if link not in LINKS or state not in STATES:
        raise ValueError(f"{identity}: no such link or state ({state})")
    if identity in CATALOGUE:
        raise ValueError(f"{identity} is in the catalogue already")
    made = Entry(identity, state, sentence, cause, remedy, rests_on)
    CATALOGUE[identity] = made
    return made


def provision(role: str) -> str:
    """The command that repairs a link through its role."""
    return f"ansible-playbook proxmox_gpu.training.provision -l HOST --tags {role}"


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    return str(value)
