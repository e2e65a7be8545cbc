# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The report for a terminal: one sentence when nothing moved, else one line for each thing that did. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .fleet import headline
from .verdict import DRIFT, sentence


def text(report: Mapping[str, Any]) -> str:
    return "\n".join([headline(report), *lines(report)])


def lines(report: Mapping[str, Any]) -> list[str]:
    """One line for each line of the report: host, link, was, is, since when, and what to run."""
    told = [(one["name"], line) for one in report["hosts"] for line in one["lines"]]
    widths = [max((len(word) for word in column), default=0) for column in zip(*[(h, i["link"]) for h, i in told])]
    return [f"  {host:<{widths[0]}}  {line['link']:<{widths[1]}}  {said(line)}" for host, line in told]


def said(line: Mapping[str, Any]) -> str:
    """A line without its host and link."""
    kind = "" if line["kind"] == DRIFT else f"{line['kind'].replace('_', ' ')}: "
    since = "new" if line["new"] else f"since {line['since'][:10]}"
    word = "Run: " if str(line.get("remedy")).startswith("ansible-playbook") else ""
    remedy = f" {word}{line['remedy']}" if line.get("remedy") else ""
    return f"{kind}{_clause(sentence(line))} ({since}).{remedy}"


def _clause(text_: str) -> str:
    return " ".join(text_.split()).rstrip(".")
