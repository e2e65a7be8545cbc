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
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.proxmox_gpu.training.plugins.module_utils._environment_install import LOCK
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._build_progress import duration

MODULE = "proxmox_gpu.training.python_environment"
LOG = "/var/log/proxmox_gpu/torch_environment.log"
POLL = 3.0  # seconds between looks
QUIET = 30.0  # seconds after which a line is due even if nothing changed
LOST = 20  # looks that may fail in a row before the connection counts as lost
GRACE = 60.0  # seconds in which an installation may hold no lock: it is starting, or leaving its result
SPARE = 900  # seconds beside the installer's own limit: making the environment, waiting for another run

_STEP = re.compile(
    r"(Collecting [^\s(]+|Downloading [^\s]+ \([^)]+\)|Installing collected packages|Successfully installed)"
)

display = Display()


def step(tail: str) -> str:
    """The last thing that pip said it began: "Downloading torch-2.14.1-...whl (865.0 MB)"; "" if it said none."""
    found = _STEP.findall(tail)
    return str(found[-1]) if found else ""


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        del tmp
        variables = task_vars or {}
        asked = self._ask(variables)
        if asked.get("failed") or not asked.get("changed") or self._task.check_mode:
            return {**result, **asked}
        return {**result, **self._install(variables)}

    def _ask(self, variables: dict[str, Any]) -> dict[str, Any]:
        """What there is to do, by the module in check mode: most runs end here, without anything in the background."""
        before, self._task.check_mode = self._task.check_mode, True
        try:
            answer: dict[str, Any] = self._execute_module(module_name=MODULE, task_vars=variables)
        finally:
            self._task.check_mode = before
        return answer

    def _install(self, variables: dict[str, Any]) -> dict[str, Any]:
        limit = int(self._task.args.get("timeout") or 3600) + SPARE
        self._task.async_val = limit
        try:
            started: dict[str, Any] = self._execute_module(module_name=MODULE, task_vars=variables, wrap_async=True)
        finally:
            self._task.async_val = 0
        if started.get("failed") or not started.get("ansible_job_id"):
            return started
        if not self._wait(str(started["results_file"]), limit, str(variables.get("inventory_hostname") or "")):
            return {
                "failed": True,
                "transient": False,
                "msg": "The installation in the container ended without leaving a result: the container was restarted, "
                "or the process was killed. Run the playbook again; it goes on where it stopped.",
            }
        job = {"jid": started["ansible_job_id"], "_async_dir": str(started["results_file"]).rpartition("/")[0]}
        status = "ansible.legacy.async_status"
        done: dict[str, Any] = self._execute_module(status, {**job, "mode": "status"}, task_vars=variables)
        self._execute_module(status, {**job, "mode": "cleanup"}, task_vars=variables)
        for name in ("ansible_job_id", "started", "finished", "results_file"):
            done.pop(name, None)
        return done

    def _wait(self, results: str, limit: float, host: str) -> bool:
        """Look until the result is there; False when it will not come any more."""
        begun, seen, failures, last, told = time.monotonic(), time.monotonic(), 0, "", 0.0
        while time.monotonic() - begun < limit:
            time.sleep(POLL)
            try:
                finished, alive, now = self._look(results)
                failures = 0
            except AnsibleConnectionFailure as error:
                failures += 1
                if failures > LOST:
                    raise AnsibleConnectionFailure(
                        f"{error} The installation goes on in the container; run the playbook again to wait for it."
                    ) from error
                continue
            if finished:
                return True
            seen = time.monotonic() if alive else seen
            if time.monotonic() - seen > GRACE:
                return False
            seconds = time.monotonic() - begun
            if now and (now != last or seconds - told >= QUIET):
                display.display(f"{host}: {now} ({duration(seconds)})")
                last, told = now, seconds
        return False

    def _look(self, results: str) -> tuple[bool, bool, str]:
        """(the result is there, somebody holds the environment's lock, what the installer is at)"""
        log = shlex.quote(str(self._task.args.get("log_path") or LOG))
        lock = shlex.quote(f"{str(self._task.args.get('path')).rstrip('/')}/{LOCK}")
        command = (
            f"head -c 4096 {shlex.quote(results)}; echo; echo '#log#'; tail -c 20000 {log} 2>/dev/null; "
            f"echo; [ ! -e {lock} ] || flock -n {lock} true || echo '#alive#'; true"
        )
        output = str(self._low_level_execute_command(command, sudoable=True).get("stdout") or "")
        head, _mark, tail = output.partition("#log#")
        running = '"finished": 0' in head or '"finished": false' in head
        return bool(head.strip()) and not running, "#alive#" in tail[-20:], step(tail)
