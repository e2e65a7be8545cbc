# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The report as metrics for the textfile collector of Prometheus' node_exporter. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .verdict import EXIT


def text(report: Mapping[str, Any]) -> str:
    hosts = report["hosts"]
    when = datetime.fromisoformat(report["generated"]).timestamp()
    parts = [
        *_metric("check_timestamp_seconds", "When the drift check ended.", [("", int(when))]),
        *_metric("check_hosts", "Hosts by result.", [(_of(result=name), n) for name, n in report["counts"].items()]),
        *_metric(
            "host_result",
            "0 ok, 2 drift, 3 unknown, 4 not provisioned.",
            [(_of(host=one["name"]), EXIT[one["result"]]) for one in hosts],
        ),
        *_metric("lines", "Lines of the report by host, link and kind.", _lines(hosts)),
        *_metric(
            "fast_path_ratio",
            "How many times as fast as the PyTorch reference the last good proof was.",
            [(_of(host=one["name"]), one["ratio"]) for one in hosts if one["ratio"] is not None],
        ),
    ]
    return "\n".join(parts) + "\n"


def _lines(hosts: list[Mapping[str, Any]]) -> list[tuple[str, float]]:
    found: dict[str, int] = {}
    for host in hosts:
        for line in host["lines"]:
            labels = _of(host=host["name"], link=line["link"], kind=line["kind"])
            found[labels] = found.get(labels, 0) + 1
    return list(found.items())


def _metric(name: str, meaning: str, values: list[tuple[str, Any]]) -> list[str]:
    full = f"proxmox_gpu_drift_{name}"
    return [
        f"# HELP {full} {meaning}",
        f"# TYPE {full} gauge",
        *[f"{full}{labels} {value}" for labels, value in values],
    ]


def _of(**labels: str) -> str:
    quoted = {
        name: text_.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, text_ in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in quoted.items()) + "}"
