# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""A module that takes minutes: started in the container by Ansible's own async wrapper, and watched until it is done.

A lost connection does not end it. What it is at is read with one small command at a time.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

POLL = 3.0  # seconds between looks
GRACE = 60.0  # seconds in which it has to show up, or to leave its result
LOST = 20  # looks that may fail in a row before the connection counts as lost
MARK = "#progress#"
#: What async_status adds to a module's result.
ADDED = ("ansible_job_id", "results_file", "started", "finished", "stdout", "stderr", "stdout_lines", "stderr_lines")

Progress = dict[str, Any]


def ask(action: ActionBase, module: str, variables: dict[str, Any]) -> dict[str, Any]:
    """What there is to do, by the module in check mode: most runs end here, without anything in the background."""
    before, action._task.check_mode = action._task.check_mode, True
    try:
        answer: dict[str, Any] = action._execute_module(module_name=module, task_vars=variables)
    finally:
        action._task.check_mode = before
    return answer


def run(
    action: ActionBase,
    module: str,
    variables: dict[str, Any],
    limit: float,
    command: str,
    read: Callable[[str], tuple[Progress, bool]],
    show: Callable[[Mapping[str, Any], float], None],
    what: str,
) -> tuple[dict[str, Any] | None, Progress]:
    """(the module's own result, None if it left none; what it was at last).

    command: a shell command that prints what it is at.  read: makes (what it is at, whether it lives) of that.
    show: is given what it is at, and the seconds since the beginning.  limit: seconds after which nothing is expected.
    what: "The build", which goes on in the container when the connection is lost.
    """
    action._task.async_val = int(limit)
    try:
        started: dict[str, Any] = action._execute_module(module_name=module, task_vars=variables, wrap_async=True)
    finally:
        action._task.async_val = 0
    if started.get("failed") or not started.get("ansible_job_id"):
        return started, {}
    found, last = _watch(action, str(started["results_file"]), limit, command, read, show, what)
    return (_result(action, started, variables) if found else None), last


def _watch(
    action: ActionBase,
    results: str,
    limit: float,
    command: str,
    read: Callable[[str], tuple[Progress, bool]],
    show: Callable[[Mapping[str, Any], float], None],
    what: str,
) -> tuple[bool, Progress]:
    """Look until the result is there; False when it will not come any more."""
    whole = f"head -c 4096 {shlex.quote(results)}; echo; echo '{MARK}'; {command}; true"
    begun = seen = time.monotonic()
    failures, last = 0, Progress()
    while True:
        time.sleep(POLL)
        try:
            output = str(action._low_level_execute_command(whole, sudoable=True).get("stdout") or "")
            failures = 0
        except AnsibleConnectionFailure as error:
            failures += 1
            if failures > LOST:
                raise AnsibleConnectionFailure(
                    f"{error} {what} goes on in the container; run the playbook again to wait for it."
                ) from error
            continue
        head, _mark, rest = output.partition(MARK)
        if head.strip() and '"finished": 0' not in head and '"finished": false' not in head:
            return True, last
        progress, alive = read(rest)
        last = progress or last
        now = time.monotonic()
        seen = now if alive else seen
        if now - seen > GRACE or now - begun > limit:
            return False, last
        show(progress, now - begun)


def _result(action: ActionBase, started: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    """The module's own result, through async_status, which also removes the job's file."""
    job = {"jid": started["ansible_job_id"], "_async_dir": str(started["results_file"]).rpartition("/")[0]}
    status = "ansible.legacy.async_status"
    result: dict[str, Any] = action._execute_module(status, {**job, "mode": "status"}, task_vars=variables)
    action._execute_module(status, {**job, "mode": "cleanup"}, task_vars=variables)
    return {name: value for name, value in result.items() if name not in ADDED}
