# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cuda_extension on the control node: start the build in the container, and tell the person how far it is.

A build takes minutes to hours. It runs there by Ansible's own async wrapper, so a lost connection does not end it,
and what it is at is read from its status file with one small command at a time.
"""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import normalise_name
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._build_progress import Reporter

MODULE = "proxmox_gpu.training.cuda_extension"
STATUS = "/run/proxmox_gpu/{name}.json"
POLL = 3.0  # seconds between looks
GRACE = 60.0  # seconds in which a build has to show up or to leave its result
LOST = 20  # looks that may fail in a row before the connection counts as lost
SPARE = 1800  # seconds beside the build: fetching, checking, installing, waiting for another run

display = Display()


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
        return {**result, **self._build(variables)}

    def _ask(self, variables: dict[str, Any]) -> dict[str, Any]:
        """What there is to do, by the module in check mode: most runs end here, without anything in the background."""
        before, self._task.check_mode = self._task.check_mode, True
        try:
            answer: dict[str, Any] = self._execute_module(module_name=MODULE, task_vars=variables)
        finally:
            self._task.check_mode = before
        return answer

    def _build(self, variables: dict[str, Any]) -> dict[str, Any]:
        limit = int(self._task.args.get("timeout") or 7200) + SPARE
        self._task.async_val = limit
        try:
            started = self._execute_module(module_name=MODULE, task_vars=variables, wrap_async=True)
        finally:
            self._task.async_val = 0
        if started.get("failed") or not started.get("ansible_job_id"):
            return started
        return self._wait(started, limit, variables)

    def _wait(self, started: dict[str, Any], limit: float, variables: dict[str, Any]) -> dict[str, Any]:
        """Look until the result is there; its content. What runs on in the container is said when we give up."""
        host = str(variables.get("inventory_hostname") or "")
        reporter = Reporter(host, display.display)
        status = STATUS.format(name=normalise_name(str(self._task.args.get("name"))))
        begun, seen, failures = time.monotonic(), time.monotonic(), 0
        while True:
            time.sleep(POLL)
            try:
                finished, progress, alive = self._look(str(started["results_file"]), status)
                failures = 0
            except AnsibleConnectionFailure as error:
                failures += 1
                if failures > LOST:
                    raise AnsibleConnectionFailure(
                        f"{error} The build goes on in the container; run the playbook again to wait for it."
                    ) from error
                continue
            now = time.monotonic()
            seen = now if alive else seen
            if finished:
                return self._result(started, variables)
            if now - seen > GRACE or now - begun > limit:
                return {
                    "failed": True,
                    "msg": "The build in the container ended without leaving a result: the container was restarted, or"
                    " the process was killed. Run the playbook again; see the log in the container.",
                }
            reporter.show(progress, now - begun)

    def _look(self, results: str, status: str) -> tuple[bool, dict[str, Any], bool]:
        """(the result is there, what the build is at, its process lives)."""
        quoted = shlex.quote(status)
        command = (
            f"head -c 4096 {shlex.quote(results)}; echo; echo '#status#'; cat {quoted} 2>/dev/null; echo; echo"
            " '#alive#';"
            f" pid=$(sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p' {quoted} 2>/dev/null);"
            ' [ -n "$pid" ] && [ -d /proc/$pid ] && echo yes; true'
        )
        output = str(self._low_level_execute_command(command, sudoable=True).get("stdout") or "")
        head, _mark, rest = output.partition("#status#")
        text, _mark, alive = rest.partition("#alive#")
        running = '"finished": 0' in head or '"finished": false' in head
        try:
            progress = json.loads(text)
        except ValueError:
            progress = {}
        return bool(head.strip()) and not running, progress, alive.strip() == "yes"

    def _result(self, started: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """The module's own result, through async_status, which also removes the job's file."""
        job = {"jid": started["ansible_job_id"], "_async_dir": str(started["results_file"]).rpartition("/")[0]}
        status = "ansible.legacy.async_status"
        result: dict[str, Any] = self._execute_module(status, {**job, "mode": "status"}, task_vars=variables)
        self._execute_module(status, {**job, "mode": "cleanup"}, task_vars=variables)
        own = (
            "ansible_job_id",
            "results_file",
            "started",
            "finished",
            "stdout",
            "stderr",
            "stdout_lines",
            "stderr_lines",
        )
        return {name: value for name, value in result.items() if name not in own}
