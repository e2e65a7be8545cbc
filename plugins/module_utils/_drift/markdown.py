# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The report as Markdown, for a mail, a merge request or a wiki. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .fleet import headline
from .verdict import sentence


def text(report: Mapping[str, Any]) -> str:
    parts = [f"# Drift check of {report['generated'][:16].replace('T', ' ')}", "", headline(report)]
    told = [(one["name"], line) for one in report["hosts"] for line in one["lines"]]
    if told:
        parts += ["", "| host | link | what | since | run |", "|---|---|---|---|---|"]
    for host, line in told:
        since = f"{line['since'][:10]}{' (new)' if line['new'] else ''}"
        what = sentence(line) if line["kind"] == "drift" else f"**{line['kind'].replace('_', ' ')}**: {sentence(line)}"
        remedy = f"`{line['remedy']}`" if line.get("remedy") else ""
        parts.append(f"| {host} | {line['link']} | {_cell(what)} | {since} | {_cell(remedy)} |")
    gone = [one for one in report["changes"] if one["change"] == "gone"]
    if gone:
        parts += ["", "Gone since the check before:", ""]
        parts += [f"- {one['host']}, {one['line']['link']}: {_cell(sentence(one['line']))}" for one in gone]
    return "\n".join(parts) + "\n"


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")
