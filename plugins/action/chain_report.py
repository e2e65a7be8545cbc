# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""chain_report: print what chain_info found, on the control node alone."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.color import stringc
from ansible.utils.display import Display

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.links import STATES
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _report

WIDTH = 100


class ActionModule(ActionBase):
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                "chain": {"type": "dict"},
                "fleet": {"type": "dict"},
                "format": {"type": "str", "default": "table", "choices": ["table", "json", "markdown"]},
                "path": {"type": "path"},
                "display": {"type": "bool", "default": True},
                "fail_on": {"type": "list", "elements": "str", "default": [], "choices": list(STATES)},
            },
            mutually_exclusive=[("chain", "fleet")],
            required_one_of=[("chain", "fleet")],
        )
        host = str((task_vars or {}).get("inventory_hostname") or "this host")
        fleet = options["fleet"] if options["fleet"] is not None else {host: options["chain"]}
        details = Display().verbosity > 0
        text = rendered(fleet, options["format"], options["fleet"] is not None, _width(), _paint, details)
        if options["display"]:
            Display().display(text)
        result: dict[str, Any] = {"changed": False, "summary": _report.summary(fleet)}
        if options["path"]:
            document = rendered(fleet, options["format"], False, WIDTH, _report.plain)
            result["changed"] = self._write(Path(options["path"]), document + "\n")
        return {**result, **_failure(fleet, options["fail_on"])}

    def _write(self, path: Path, text: str) -> bool:
        """Whether the file is, or in check mode would be, another one afterwards."""
        try:
            if path.is_file() and path.read_text(encoding="utf-8") == text:
                return False
            if not self._task.check_mode:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise AnsibleActionFail(
                f"The report cannot be written to {path} on the control node: {error.strerror}."
            ) from None
        return True


def rendered(
    fleet: Mapping[str, _report.Chain], form: str, short: bool, width: int, paint: _report.Paint, details: bool = False
) -> str:
    """The report of all hosts. short: of the table the summary alone, because each host has printed its own."""
    if form == "json":
        return _report.as_json(fleet)
    if form == "markdown":
        sections = [_report.markdown(host, chain) for host, chain in fleet.items()]
        return "\n".join([f"# Training hosts\n\n{_report.summary(fleet)}\n", *sections])
    if short:
        holds = all(not chain.get("cause") for chain in fleet.values())
        return _report.summary(fleet) if holds else f"{_report.legend(width)}\n\n{_report.summary(fleet)}"
    return "\n\n".join(_report.table(host, chain, width, paint, details) for host, chain in fleet.items())


def _failure(fleet: Mapping[str, _report.Chain], states: list[str]) -> dict[str, Any]:
    failing = {host: chain for host, chain in fleet.items() if chain.get("verdict") in states}
    if not failing:
        return {}
    if len(fleet) > 1:
        return {"failed": True, "msg": _report.summary(failing)}
    cause = next(iter(failing.values())).get("cause") or {}
    remedy = f" Run: {cause['remedy']}" if cause.get("remedy") else ""
    return {"failed": True, "msg": f"{cause.get('sentence') or 'The chain does not hold.'}{remedy}"}


def _width() -> int:
    """100 columns, or what a narrower terminal has."""
    if not sys.stdout.isatty():
        return WIDTH
    return max(60, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def _paint(text: str, state: str) -> str:
    """Ansible's own rule decides on colour: a terminal, and nobody said otherwise."""
    if os.environ.get("NO_COLOR"):
        return text
    return stringc(text, _report.COLOURS.get(state, "normal"))
