# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drift_report: the fleet's verdicts as reports, and the history of the nights, on the control node alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _whole_file
from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import (
    fleet,
    history,
    junit,
    markdown,
    prometheus,
    terminal,
    verdict,
)
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _drift_page

#: Form -> (file below the state folder, how it is made from the document).
FORMS = {
    "json": ("report.json", lambda report: json.dumps(report, indent=2, ensure_ascii=False) + "\n"),
    "terminal": ("report.txt", lambda report: terminal.text(report) + "\n"),
    "html": ("report.html", _drift_page.page),
    "markdown": ("report.md", markdown.text),
    "junit": ("report.xml", junit.text),
    "prometheus": ("report.prom", prometheus.text),
}


class ActionModule(ActionBase):
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                "hosts": {"type": "dict"},
                "told": {"type": "list", "elements": "str"},
                "state_path": {"type": "path", "required": True},
                "keep_days": {"type": "int", "default": 400},
                "prometheus_path": {"type": "path"},
                "display": {"type": "bool", "default": True},
            },
            mutually_exclusive=[("hosts", "told")],
            required_one_of=[("hosts", "told")],
        )
        folder = Path(options["state_path"])
        try:
            if options["told"] is not None:
                self._write(folder / "told.json", json.dumps(sorted(options["told"])) + "\n")
                return {"changed": False}
            return self._report(options, folder)
        except OSError as error:
            raise AnsibleActionFail(
                f"The reports of the drift check cannot be kept in {folder} on the control node ({error}); choose "
                "another folder with drift_check_path."
            ) from None

    def _report(self, options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        now = time.time()
        path = str(folder / "history.jsonl")
        records = history.read(path)
        judged = [_judged(host, found) for host, found in sorted(options["hosts"].items())]
        report = fleet.document(judged, records, now)
        record = fleet.record(report, records, now)
        told = _told(folder / "told.json")
        news = fleet.news(report, told, record["open"])
        if not self._task.check_mode:
            history.append(path, record, now - options["keep_days"] * 86400)
        for name, make in FORMS.values():
            self._write(folder / name, make(report))
        if options["prometheus_path"]:
            # node_exporter, which runs as somebody else, has to be able to read it.
            self._write(Path(options["prometheus_path"]), prometheus.text(report), 0o644)
        if options["display"]:
            Display().display(terminal.text(report))
        return {
            "changed": False,
            "verdict": report["verdict"],
            "exit": report["exit"],
            "headline": fleet.headline(report),
            "drifted": [one["name"] for one in report["hosts"] if one["result"] == verdict.DRIFT],
            "news": {**news, "text": terminal.text(report), "open": sorted(record["open"])},
            "path": str(folder),
        }

    def _write(self, path: Path, text: str, mode: int = history.FILE_MODE) -> None:
        if not self._task.check_mode:
            _whole_file.replace(str(path), text, mode, history.FOLDER_MODE)


def _judged(host: str, found: Any) -> dict[str, Any]:
    """The verdict on a host; where its task gave none, why not."""
    if isinstance(found, Mapping) and isinstance(found.get("drift"), Mapping):
        return dict(found["drift"])
    reason = found.get("msg") if isinstance(found, Mapping) else None
    return verdict.could_not_look(host, " ".join(str(reason or "the check of this host gave no answer").split()))


def _told(path: Path) -> list[str]:
    """Keys of the lines that somebody was told of. A damaged file means telling once more, which harms less."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if os.path.exists(path) else []
    except ValueError:
        return []
    return [str(key) for key in found] if isinstance(found, list) else []
