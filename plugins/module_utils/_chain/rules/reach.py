# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 1: the container exists, is on this node, runs, is not frozen, answers."""

from __future__ import annotations

from collections.abc import Iterable

from ..catalogue import entry
from ..finding import Finding
from ..links import BROKEN, OK
from ..look import Look

ANSWERS = entry("reach.ok", OK, "The container answers.", cause="")
UNREACHABLE = entry(
    "reach.unreachable",
    BROKEN,
    "{reason}",
    cause="The ssh link to the node, the node, or the container did not answer; the sentence is the connection's own.",
    remedy="Nothing in the container can repair this: do what the sentence says, then run diagnose again.",
)


def judge(look: Look) -> Iterable[Finding]:
    error = look.error("reach")
    if error:
        yield UNREACHABLE.finding(reason=error, evidence=look.facts["reach"].get("evidence"))
    else:
        yield ANSWERS.finding(observed=look.section("reach").get("transport"))
