# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks of the stand-in: an UPID at once, the work in a thread, its end and its log to be asked for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from testbed.api_standin.access import Caller
from testbed.api_standin.refusal import Refusal, TaskFailed, bad_parameter
from testbed.errors import TestbedError


@dataclass
class Task:
    upid: str
    node: str
    kind: str
    vmid: str
    caller: Caller
    started: int = field(default_factory=lambda: int(time.time()))
    exit_status: str | None = None  # None while it runs
    log: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def status(self) -> dict[str, object]:
        user, _, token = self.caller.who.partition("!")
        shown: dict[str, object] = {
            "upid": self.upid,
            "node": self.node,
            "pid": os.getpid(),
            "pstart": 1,
            "starttime": self.started,
            "type": self.kind,
            "id": self.vmid,
            "user": user,
            "status": "running" if self.exit_status is None else "stopped",
        }
        shown |= {"tokenid": token} if token else {}
        return shown | ({"exitstatus": self.exit_status} if self.exit_status is not None else {})


class Tasks:
    def __init__(self) -> None:
        self._known: dict[str, Task] = {}
        self._lock = threading.Lock()
        self._number = 0

    def run(self, node: str, kind: str, vmid: str, caller: Caller, work: Callable[[], None]) -> str:
        with self._lock:
            self._number += 1
            now = int(time.time())
            upid = f"UPID:{node}:{os.getpid():08X}:{self._number:08X}:{now:08X}:{kind}:{vmid}:{caller.who}:"
            task = self._known[upid] = Task(upid, node, kind, vmid, caller)
        threading.Thread(target=self._work, args=(task, work), daemon=True).start()
        return upid

    def _work(self, task: Task, work: Callable[[], None]) -> None:
        try:
            work()
            outcome, last = "OK", "TASK OK"
        except (TaskFailed, TestbedError) as problem:
            outcome, last = str(problem), f"TASK ERROR: {problem}"
        except Exception as problem:  # a worker that dies leaves this behind
            outcome, last = "unexpected status", f"worker died: {problem!r}"
        task.log.append(last)
        task.exit_status = outcome
        task.ended.set()

    def find(self, upid: str, node: str) -> Task:
        if not upid.startswith("UPID:"):
            raise Refusal(400, "unable to parse worker upid", {"upid": "unable to parse worker upid"})
        task = self._known.get(upid)
        if task is None or task.node != node:
            raise bad_parameter(upid="no such task")
        return task
