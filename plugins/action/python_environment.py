# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""python_environment on the control node: start the installation in the container, and tell how far it is.

torch takes minutes. The module runs by Ansible's own async wrapper, so that a lost connection does not end it, and what
pip is at is read from the end of its log.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.proxmox_gpu.training.plugins.module_utils._environment_install import LOCK
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _background
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._build_progress import Reporter

MODULE = "proxmox_gpu.training.python_environment"
LOG = "/var/log/proxmox_gpu/torch_environment.log"
SPARE = 900  # seconds beside the installer's own limit: making the environment, waiting for another run

_STEP = re.compile(
    r"(Collecting [^\s(]+|Downloading [^\s]+ \([^)]+\)|Installing collected packages|Successfully installed)"
)

display = Display()


def step(tail: str) -> str:
    """The last thing that pip said it began: "Downloading torch-2.14.1-...whl (865.0 MB)"; "" if it said none."""
    found = _STEP.findall(tail)
    return str(found[-1]) if found else ""


def progress(output: str) -> tuple[dict[str, Any], bool]:
    """(what the installer is at, whether somebody holds the environment's lock)"""
    now = step(output)
    return {"phase": now} if now else {}, "#alive#" in output[-20:]


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        del tmp
        variables = task_vars or {}
        asked = _background.ask(self, MODULE, variables)
        if asked.get("failed") or not asked.get("changed") or self._task.check_mode:
            return {**result, **asked}
        return {**result, **self._install(variables)}

    def _install(self, variables: dict[str, Any]) -> dict[str, Any]:
        limit = int(self._task.args.get("timeout") or 3600) + SPARE
        log = shlex.quote(str(self._task.args.get("log_path") or LOG))
        lock = shlex.quote(f"{str(self._task.args.get('path')).rstrip('/')}/{LOCK}")
        command = f"tail -c 20000 {log} 2>/dev/null; echo; [ ! -e {lock} ] || flock -n {lock} true || echo '#alive#'"
        reporter = Reporter(str(variables.get("inventory_hostname") or ""), display.display)
        what = "The installation"
        done, _last = _background.run(self, MODULE, variables, limit, command, progress, reporter.show, what)
        if done is not None:
            return done
        return {
            "failed": True,
            "transient": False,
            "msg": f"{what} in the container ended without leaving a result: the container was restarted, or the "
            "process was killed. Run the playbook again; it goes on where it stopped.",
        }
