# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``pvesh`` of the stand-in: asks the API stand-in as root@pam, and prints and exits as the real one.

Tasks run in the foreground. Whether one failed shows on stderr alone: the exit code is 0 all the same.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import time
import urllib.parse
from typing import Any

METHODS = {"get": "GET", "create": "POST", "set": "PUT", "delete": "DELETE"}


class Socket(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=300)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(300)
        self.sock.connect(self.path)


def ask(state: str, method: str, path: str, parameters: dict[str, str]) -> tuple[int, str, dict[str, Any]]:
    connection = Socket(f"{state}/api.sock")
    words = urllib.parse.urlencode(parameters)
    target = f"/api2/json{urllib.parse.quote(path)}" + (f"?{words}" if words and method in ("GET", "DELETE") else "")
    body = words if method in ("POST", "PUT") else None
    connection.request(method, target, body, {"X-Node": os.uname().nodename})
    answer = connection.getresponse()
    text = answer.read().decode()
    return answer.status, answer.reason, json.loads(text) if text else {}


def main(arguments: list[str], state: str) -> int:
    if os.geteuid() != 0:
        return fail("please run as root", 255)
    if len(arguments) < 2 or arguments[0] not in METHODS:
        return fail("ERROR: unknown command", 255)
    parameters, problem = options(arguments[2:])
    if problem:
        return fail(
            f"Unknown option: {problem}\n400 unable to parse option\npvesh {arguments[0]} <api_path> [OPTIONS]", 255
        )
    method = METHODS[arguments[0]]
    status, reason, body = ask(state, method, arguments[1], parameters)
    if status == 501:
        return fail(f"No '{arguments[0]}' handler defined for '{arguments[1]}'", 1)
    if status == 400:
        lines = [f"{key}: {text.strip()}" for key, text in (body.get("errors") or {}).items()]
        return fail("\n".join([f"400 {reason}", *lines]), 255)
    if status == 595:
        return fail(f"proxy handler failed: ssh: connect to host port 22: {reason}", 255)
    if status != 200:
        return fail(reason, 2 if reason.startswith("Configuration file") else 255)
    data = body["data"]
    if isinstance(data, str) and data.startswith("UPID:"):
        print("\n".join([*wait(state, data), json.dumps(data)]))
    elif method == "GET" or data is not None:
        print(json.dumps(data, sort_keys=True, separators=(",", ":")))
    return 0


def options(words: list[str]) -> tuple[dict[str, str], str | None]:
    """``-k v`` and ``--k v``; the unknown one if there is any."""
    found: dict[str, str] = {}
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if not word.startswith("-") or not queue:
            return {}, word.lstrip("-")
        name = word.lstrip("-")
        found[name] = queue.pop(0)
    found.pop("output-format", None)
    return found, None


def wait(state: str, upid: str) -> list[str]:
    """Until the task ended; returns its log's lines, and says on stderr what it failed with."""
    path = f"/nodes/{upid.split(':')[1]}/tasks/{upid}"
    while True:
        _, _, body = ask(state, "GET", f"{path}/status", {})
        if body["data"]["status"] == "stopped":
            break
        time.sleep(0.05)
    if body["data"]["exitstatus"] != "OK":
        print(body["data"]["exitstatus"], file=sys.stderr)
    _, _, log = ask(state, "GET", f"{path}/log", {})
    return [str(line["t"]) for line in log["data"] if not str(line["t"]).startswith("TASK")]


def fail(sentence: str, code: int) -> int:
    sys.stdout.flush()
    print(sentence, file=sys.stderr)
    return code
