# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What came of a playbook run, as the tests look at it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TaskResult:
    """One task (or loop item) on one host. ``status``: ok, failed, ignored, skipped or unreachable."""

    host: str
    task: str
    action: str
    status: str
    item: bool
    result: dict[str, Any]

    @property
    def changed(self) -> bool:
        return bool(self.result.get("changed"))

    @property
    def message(self) -> str:
        return str(self.result.get("msg", ""))


@dataclass(frozen=True)
class PlaybookResult:
    """``recap``: host → ok, changed, failures, unreachable, skipped, rescued, ignored. ``output``: both streams."""

    rc: int
    output: str
    seconds: float
    tasks: list[TaskResult] = field(default_factory=list)
    recap: dict[str, dict[str, int]] = field(default_factory=dict)

    def changed(self, host: str) -> int:
        return self.recap[host]["changed"]

    def failures(self) -> list[TaskResult]:
        """Failed tasks and unreachable hosts; items of loops are left out, their task stands for them."""
        return [one for one in self.tasks if one.status in ("failed", "unreachable") and not one.item]

    def task(self, name: str, host: str | None = None) -> TaskResult:
        """The task whose name contains ``name``: the only one, or an AssertionError that shows what there was."""
        found = [one for one in self.tasks if name in one.task and host in (None, one.host) and not one.item]
        assert len(found) == 1, f"{len(found)} tasks match {name!r}:\n{self.output}"
        return found[0]

    def ok(self) -> PlaybookResult:
        """Itself, when everything went well; else an AssertionError with the whole output."""
        assert self.rc == 0, self.output
        return self


def read(rc: int, output: str, seconds: float, record: Path) -> PlaybookResult:
    """From the file that the callback plugin record_results wrote (missing when no play began)."""
    lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    tasks = [TaskResult(**line) for line in lines if "task" in line]
    recap: dict[str, dict[str, int]] = next((line["recap"] for line in reversed(lines) if "recap" in line), {})
    return PlaybookResult(rc, output, seconds, tasks, recap)
