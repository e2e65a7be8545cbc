# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""The report as one page of HTML that needs nothing else: no network, no other file, no program but a browser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import fleet, verdict

TEMPLATES = Path(__file__).parent


def page(report: Mapping[str, Any]) -> str:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = {"headline": fleet.headline(report), "sentence": verdict.sentence}
    return environment.get_template("page.html.j2").render(report=report, **words)
