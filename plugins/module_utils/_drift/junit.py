# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The report as JUnit XML: a suite a host, a test a link. Drift fails, what could not be told is an error. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from .terminal import said

#: What XML 1.0 cannot hold, however it is escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {"drift": "failure", "not_provisioned": "failure", "unknown": "error"}


def text(report: Mapping[str, Any]) -> str:
    root = ElementTree.Element("testsuites", name="drift")
    totals = {"tests": 0, "failures": 0, "errors": 0}
    for host in report["hosts"]:
        suite = _suite(host, str(report["generated"]))
        root.append(suite)
        for name in totals:
            totals[name] += int(suite.attrib[name])
    root.attrib.update({name: str(number) for name, number in totals.items()})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(host: Mapping[str, Any], when: str) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=_plain(host["name"]), timestamp=when)
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for link, found in host["links"].items():
        case = ElementTree.SubElement(suite, "testcase", classname=_plain(host["name"]), name=link)
        counts["tests"] += 1
        mine = [line for line in host["lines"] if line["link"] == link]
        tags = {_TAGS[line["kind"]] for line in mine}
        for tag in sorted(tags):
            told = [line for line in mine if _TAGS[line["kind"]] == tag]
            node = ElementTree.SubElement(case, tag, message=_plain(said(told[0])), type=told[0]["kind"])
            node.text = _plain("\n".join(said(line) for line in told))
        counts["failures"] += "failure" in tags
        counts["errors"] += "error" in tags
        if not mine and found["state"] != "ok":
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=_plain(found["sentence"]))
    suite.attrib.update({name: str(number) for name, number in counts.items()})
    return suite


def _plain(words: str) -> str:
    return _FORBIDDEN.sub("?", words)
