# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what a playbook did to a file, one JSON object a line, so that tests read results instead of text.

The file is named by the variable RECORD_RESULTS. Lines: ``{"host", "task", "action", "status", "item", "result"}``
for each task and loop item (status: ok, failed, ignored, skipped, unreachable); last ``{"recap": {host: counts}}``.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: record_results
type: aggregate
short_description: Write task results to a file for tests
description: Used by the integration tests of this collection.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "record_results"
    CALLBACK_NEEDS_ENABLED = True

    def _write(self, record: dict[str, Any]) -> None:
        with open(os.environ["RECORD_RESULTS"], "a") as file:
            file.write(json.dumps(record, cls=AnsibleJSONEncoder) + "\n")

    def _task(self, status: str, result: Any, *, item: bool = False) -> None:
        values = {key: value for key, value in result.result.items() if not key.startswith("_ansible")}
        task = result.task
        record = {"host": result.host.get_name(), "task": task.get_name(), "action": task.action, "status": status}
        self._write({**record, "item": item, "result": values})

    def v2_runner_on_ok(self, result: Any) -> None:
        self._task("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._task("ignored" if ignore_errors else "failed", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._task("skipped", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._task("unreachable", result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._task("ok", result, item=True)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._task("failed", result, item=True)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._write({"recap": {host: stats.summarize(host) for host in sorted(stats.processed)}})
