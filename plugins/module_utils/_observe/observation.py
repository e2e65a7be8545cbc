# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Observe the wanted links of one machine: plain facts by link, no opinions, nothing written."""

from __future__ import annotations

import time
from typing import Any

from . import base, binding, compiler, extensions, gpu, proof, repository, toolkit, torch
from .host import Host

#: In the chain's order. The later ones may look at what was observed before them.
SECTIONS = {
    "base": base.observe,
    "gpu": gpu.observe,
    "torch": torch.observe,
    "repository": repository.observe,
    "toolkit": toolkit.observe,
    "compiler": compiler.observe,
    "extensions": extensions.observe,
    "binding": binding.observe,
    "proof": proof.observe,
}
_LOOK_BACK = ("compiler", "extensions", "binding", "proof")


def observe(host: Host, links: list[str], wishes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """(facts by link, seconds by link). A section that fails is {"error": sentence}: the others still count."""
    facts: dict[str, Any] = {}
    spent: dict[str, float] = {}
    for link, section in SECTIONS.items():
        if link not in links:
            continue
        began = time.monotonic()
        try:
            more = (facts_without_errors(facts),) if link in _LOOK_BACK else ()
            facts[link] = section(host, wishes, *more)
        except Exception as error:
            # One odd file must not hide what the other nine links have to say.
            kind = type(error).__name__
            facts[link] = {"error": f"The link {link} could not be observed in the container: {kind}: {error}."}
        spent[link] = round(time.monotonic() - began, 3)
    return facts, spent


def facts_without_errors(facts: dict[str, Any]) -> dict[str, Any]:
    return {link: section for link, section in facts.items() if "error" not in section}
