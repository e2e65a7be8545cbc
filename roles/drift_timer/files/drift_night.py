# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One nightly drift check: runs playbook proxmox_gpu.training.drift_check, and exits by the fleet's verdict.

    python3 drift_night.py --state /var/lib/proxmox_gpu/drift -- -i /etc/ansible/hosts.yml

0 ok, and nothing is printed; 2 drift, 3 unknown, 4 not provisioned, with a line for each thing that a person must know.
64 for wrong arguments. A second check at the same time is not made, and one that takes too long is ended: both are 3.
What ansible-playbook printed is in run.log of the state folder.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

UNKNOWN, USAGE = 3, 64


class Parser(argparse.ArgumentParser):
    """Its own status for wrong arguments, since 2 means drift."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def arguments(words: list[str]) -> argparse.Namespace:
    parser = Parser(description="Check training hosts for drift, and exit by the fleet's verdict.")
    parser.add_argument("--state", type=Path, default=Path("/var/lib/proxmox_gpu/drift"), help="folder of the reports")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds after which the check is ended")
    parser.add_argument("--ansible-playbook", default="ansible-playbook", help="the program, where PATH has none")
    parser.add_argument("--playbook", default="proxmox_gpu.training.drift_check", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs="*", metavar="ARGUMENT", help="for ansible-playbook, after --")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    try:
        options.state.mkdir(parents=True, exist_ok=True, mode=0o750)
        with open(options.state / "night.lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return say("Another drift check is running, so this one was not made.")
            return night(options)
    except OSError as error:
        return say(f"The drift check cannot keep its files in {options.state} ({error}); choose a folder with --state.")


def say(sentence: str) -> int:
    print(f"drift check: {sentence}", file=sys.stderr)
    return UNKNOWN


def night(options: argparse.Namespace) -> int:
    began, log = time.time(), options.state / "run.log"
    variables = json.dumps({"drift_check_path": str(options.state)})
    command = [options.ansible_playbook, *options.rest, "--extra-vars", variables, options.playbook]
    try:
        status = run(command, log, options.timeout)
    except FileNotFoundError:
        return say(f"{options.ansible_playbook} is not there; name it with --ansible-playbook.")
    report = read(options.state / "report.json", began)
    if status is None:
        return say(f"The check did not end within {options.timeout:g} seconds and was ended; its output is in {log}.")
    if report is None:
        return say(f"The check made no report (ansible-playbook ended with {status}): {last_words(log)} See {log}.")
    if report["exit"]:
        print((options.state / "report.txt").read_text(encoding="utf-8").rstrip("\n"))
    return int(report["exit"])


def run(command: list[str], log: Path, timeout: float) -> int | None:
    """The exit status; None when the time was up. The program and all that it started end with this one."""
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )

        def leave(number: int, _frame: FrameType | None) -> NoReturn:
            raise SystemExit(128 + number)

        signal.signal(signal.SIGTERM, leave)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)


def read(path: Path, began: float) -> dict[str, Any] | None:
    """The report, when it is tonight's and whole."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        fresh = datetime.fromisoformat(found["generated"]).timestamp() >= int(began)
        return found if fresh and int(found["exit"]) in (0, 2, 3, 4) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if "ERROR" in line or "fatal" in line.lower()] or lines
    return told[-1][:300] if told else "it printed nothing."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
