# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The Proxmox API as the plugins ask it: requests that are counted and checked, and tasks that are waited for."""

from __future__ import annotations

import threading
import time
from typing import Any

from ._pve_access import Access, connect
from ._pve_errors import ApiError, explain, half

POLL = (0.2, 1.0)  # seconds between two looks at a task: the first, and the longest


class Api:
    """Raises ApiError alone. May be used from several threads at once."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.requests = 0
        self._lock = threading.Lock()
        self._root = connect(access)

    def get(self, path: str, **parameters: Any) -> Any:
        return self._ask("get", path, parameters)

    def get_list(self, path: str, *keys: str, **parameters: Any) -> list[dict[str, Any]]:
        """A list of objects that have these keys; anything else is half an answer."""
        rows = self.get(path, **parameters)
        if not isinstance(rows, list) or any(not isinstance(row, dict) for row in rows):
            raise half(self.access.where, path, "no list")
        for row in rows:
            missing = [key for key in keys if key not in row]
            if missing:
                raise half(self.access.where, path, f"an entry without {missing[0]}")
        return rows

    def get_dict(self, path: str, **parameters: Any) -> dict[str, Any]:
        found = self.get(path, **parameters)
        if not isinstance(found, dict):
            raise half(self.access.where, path, "no object")
        return found

    def post(self, path: str, **parameters: Any) -> Any:
        return self._ask("post", path, parameters)

    def delete(self, path: str, **parameters: Any) -> Any:
        return self._ask("delete", path, parameters)

    def _ask(self, method: str, path: str, parameters: dict[str, Any]) -> Any:
        with self._lock:
            self.requests += 1
        given = {key: int(value) if isinstance(value, bool) else value for key, value in parameters.items()}
        try:
            answer = getattr(self._root(path.strip("/")), method)(**given)
        except Exception as error:
            raise explain(error, self.access.where, self.access.who, path) from None
        if isinstance(answer, dict) and set(answer) == {"errors"}:  # what proxmoxer makes of a body that is no JSON
            if method == "delete" and not answer["errors"]:
                return None
            raise half(self.access.where, path, "no JSON" if answer["errors"] else "an empty body")
        return answer

    def wait(self, upid: Any, limit: float) -> None:
        """Wait for a task's end. Raises ApiError with its last lines when it failed, or did not end in ``limit`` s."""
        if not isinstance(upid, str) or not upid.startswith("UPID:"):
            raise half(self.access.where, "a task", "no task id")
        path = f"/nodes/{upid.split(':')[1]}/tasks/{upid}"
        deadline, pause = time.monotonic() + limit, POLL[0]
        while True:
            status = self.get_dict(f"{path}/status")
            if status.get("status") == "stopped":
                break
            if time.monotonic() > deadline:
                raise ApiError(f"Task {upid} did not end within {limit:.0f} s and goes on; look at it on its node.")
            time.sleep(pause)
            pause = min(pause * 1.5, POLL[1])
        outcome = str(status.get("exitstatus") or "no exit status")
        if outcome != "OK" and not outcome.startswith("WARNINGS"):
            raise ApiError(f"Task {status.get('type') or upid} failed: {outcome}{self._last_lines(path, outcome)}.")

    def _last_lines(self, path: str, outcome: str) -> str:
        """What its log says beyond the outcome; nothing when the log cannot be read."""
        try:
            lines = [str(row.get("t", "")).strip() for row in self.get_list(f"{path}/log", limit=500)]
        except ApiError:
            return ""
        told = [line for line in lines[-4:] if line and outcome not in line]
        return f" (its log ends: {' / '.join(told)})" if told else ""
