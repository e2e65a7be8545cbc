# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ten links of the chain, the states a link can be in, and which links rest on which. Data only."""

from __future__ import annotations

#: The links in the order in which they are judged: the first one that does not hold is the cause.
LINKS = (
    "reach",
    "base",
    "gpu",
    "torch",
    "repository",
    "toolkit",
    "compiler",
    "extensions",
    "binding",
    "proof",
)

OK = "ok"
BROKEN = "broken"
DRIFTED = "drifted"
ABSENT = "absent"
UNKNOWN = "unknown"
NOT_APPLICABLE = "not_applicable"

#: From harmless to worst; a verdict is the worst state of all links.
STATES = (OK, NOT_APPLICABLE, UNKNOWN, DRIFTED, ABSENT, BROKEN)

#: The states in which a link holds. Unknown is not one of them, ever.
HOLDING = frozenset((OK, NOT_APPLICABLE))

#: For each link, the links whose failure explains its own. What is not named here is a trouble of its own: a
#: repository that is not registered has nothing to do with a device node that is missing.
RESTS_ON = {
    "reach": (),
    "base": ("reach",),
    "gpu": ("reach", "base"),
    "torch": ("reach", "base"),
    "repository": ("reach", "base"),
    "toolkit": ("reach", "base", "torch", "repository"),
    "compiler": ("reach", "base", "torch", "repository", "toolkit"),
    "extensions": ("reach", "base", "torch", "repository", "toolkit", "compiler"),
    "binding": ("reach", "base", "torch", "repository", "toolkit", "compiler", "extensions"),
    "proof": ("reach", "base", "gpu", "torch", "repository", "toolkit", "compiler", "extensions", "binding"),
}

#: The links whose facts a rule looks at besides its own link's.
LOOKS_AT = {
    "reach": (),
    "base": ("torch",),
    "gpu": ("base",),
    # Besides these, what the binding says where it was asked for as well.
    "torch": ("base", "gpu"),
    "repository": ("base", "torch", "toolkit"),
    "toolkit": ("base", "torch", "repository"),
    "compiler": ("base", "torch", "toolkit", "extensions"),
    "extensions": ("base", "gpu", "torch"),
    "binding": ("base", "gpu", "torch"),
    "proof": ("gpu", "torch"),
}


def in_order(links: list[str]) -> list[str]:
    """The wanted links in the chain's order; an empty list means all of them. ValueError names a link that is none."""
    strangers = [link for link in links if link not in LINKS and link != "all"]
    if strangers:
        raise ValueError(f"{strangers[0]!r} is not a link of the chain; the links are {', '.join(LINKS)}")
    return [link for link in LINKS if not links or "all" in links or link in links]


def sections(links: list[str]) -> list[str]:
    """The sections of facts that must be observed to judge these links, in the chain's order."""
    wanted = set(links)
    for link in links:
        wanted.update(LOOKS_AT[link])
    return [link for link in LINKS if link in wanted]
