# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._build_progress import Reporter, duration, line

STATUS: dict[str, Any] = {
    "what": "causal-conv1d 1.7.0",
    "phase": "compiling",
    "compiling": ["causal_conv1d_bwd.cu"],
    "targets": ["sm_90"],
    "done": 3,
    "total": 4,
}


def test_a_line() -> None:
    assert line(STATUS) == "causal-conv1d 1.7.0: compiling causal_conv1d_bwd.cu for sm_90, 3 of 4 sources done"
    assert line({"what": "x 1", "phase": "installing the wheel"}) == "x 1: installing the wheel"


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0, 59.9, 65.2, 3600)] == ["0 s", "59 s", "1 min 05 s", "60 min 00 s"]


def test_a_line_for_each_change_and_now_and_then() -> None:
    lines: list[str] = []
    reporter = Reporter("ct200", lines.append, quiet=30)
    for seconds in range(0, 70, 3):
        reporter.show(STATUS, seconds)
    reporter.show({**STATUS, "done": 4}, 70)
    reporter.show({}, 71)
    assert [text.rpartition("(")[2] for text in lines] == ["0 s)", "30 s)", "1 min 00 s)", "1 min 10 s)"]
    assert lines[0].startswith("ct200: causal-conv1d 1.7.0: compiling")


def test_how_long_an_earlier_build_took_is_said() -> None:
    lines: list[str] = []
    Reporter("ct200", lines.append, estimate=384).show(STATUS, 65)
    Reporter("ct200", lines.append, estimate=384).show({**STATUS, "estimate": 20}, 65)
    assert lines[0].endswith("(1 min 05 s of about 6 min 24 s, as an earlier build took)")
    assert lines[1].endswith("(1 min 05 s of about 20 s, as an earlier build took)")
