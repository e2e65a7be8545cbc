# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""The report as one page of HTML that needs nothing else: no network, no other file, no program but a browser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import fleet, verdict
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._drift_page import plot

TEMPLATES = Path(__file__).parent
#: What a person reads for a result, and for the state of a link.
WORDS = {
    "ok": "ok",
    "drift": "drift",
    "unknown": "unknown",
    "not_provisioned": "not provisioned",
    "not_applicable": "does not apply",
    "follows": "follows from another link",
    "not_looked_at": "not looked at",
}


def page(report: Mapping[str, Any]) -> str:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        report=report,
        headline=fleet.headline(report),
        sentence=verdict.sentence,
        anchor=anchor,
        words=WORDS,
        RESULTS=fleet.ORDER,
        plot=plot,
        fleet_plot=plot.of_fleet(report),
    )


def anchor(host: str) -> str:
    """A host's name as a part of an address."""
    return "host-" + re.sub(r"[^A-Za-z0-9._-]", lambda found: f"_{ord(found.group(0)):x}", host)
