# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Find the line that tells in what a program printed, and turn it into one sentence. Pure: text in, a value out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Problem:
    """``kind`` is a stable word; ``transient``: trying again later may help; ``evidence`` is the program's own line."""

    kind: str
    sentence: str
    transient: bool
    evidence: str


class Rule(NamedTuple):
    """``sentence`` is a template over the pattern's groups (``{uri2}`` fills ``{uri}`` too) and the caller's words."""

    kind: str
    transient: bool
    pattern: str
    sentence: str


def first(
    rules: Iterable[Rule],
    output: str,
    words: Mapping[str, str],
    adjust: Callable[[Rule, Mapping[str, str]], Rule] = lambda rule, _words: rule,
) -> Problem | None:
    """The first rule, in order, whose pattern is found; None if there is none.

    ``adjust`` may put another rule in the place of the one found, by the words that were read.
    """
    text = output.replace("\r\n", "\n") + "\n"
    for rule in rules:
        match = re.search(rule.pattern, text)
        if match:
            known: dict[str, str] = defaultdict(str, words)
            for group, value in match.groupdict(default="").items():
                known[group.rstrip("0123456789")] += squeeze(value)
            rule = adjust(rule, known)
            start = text.rfind("\n", 0, match.start()) + 1
            evidence = text[start : max(match.end(), text.find("\n", match.start()))]
            return Problem(rule.kind, squeeze(rule.sentence.format_map(known)), rule.transient, squeeze(evidence))
    return None


def squeeze(text: str) -> str:
    """One line, without doubled blanks, without the login of an address, and without a full stop at its end."""
    line = re.sub(r"(?<=://)[^/\s@]+@", "", " ".join(text.split()))
    return re.sub(r" ([;,)])", r"\1", line).rstrip(".")
