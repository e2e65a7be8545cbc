# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Run a build: in an environment made for it, with all output in a log file, never longer than allowed."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import time
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _whole_file
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_jobs import oom_kills

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STATE = "/var/lib/proxmox_gpu"
LOGS = "/var/log/proxmox_gpu"


@dataclasses.dataclass(frozen=True)
class Finished:
    """``status`` as subprocess gives it: negative for a signal. ``timed_out``: we ended it.

    ``starved``: it failed, and the kernel ended a process for lack of memory meanwhile: any of the build's, which then
    say what they like about it.
    """

    status: int
    seconds: float
    timed_out: bool
    starved: bool = False


def build_environment(python: str, cuda_home: str, tmpdir: str, variables: t.Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a build. Nothing of whoever logged in gets in: a stray CUDA_HOME or CC breaks builds.

    The toolkit and the training environment come first on PATH, because setups look for nvcc and ninja there.
    """
    return {
        "PATH": f"{os.path.dirname(python)}:{cuda_home}/bin:{STANDARD_PATH}",
        "HOME": os.path.expanduser("~root"),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": tmpdir,
        "CUDA_HOME": cuda_home,
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        **variables,
    }


def without_logins(text: str) -> str:
    """``https://user:secret@host/`` without ``user:secret``: logs are there to be read, and to be sent to others."""
    return re.sub(r"(?<=://)[^/\s]*@", "", text)


def run_logged(
    command: t.Sequence[str],
    environment: t.Mapping[str, str],
    folder: str,
    log: str,
    timeout: float,
    on_tick: t.Callable[[float], None] = lambda seconds: None,
    tick: float = 1.0,
    owner: tuple[int, int] | None = None,
) -> Finished:
    """Run a command to its end, appending its output to ``log``; ``on_tick(elapsed seconds)`` is called meanwhile.

    After ``timeout`` seconds the command is ended with everything that it started: a compiler left behind would go on
    for minutes and hold the memory that the next try needs. ``owner``: (user id, group id) to run it as, in place of
    ours.
    """
    started, kills = time.monotonic(), oom_kills()
    os.makedirs(os.path.dirname(log), mode=0o755, exist_ok=True)
    with open(log, "ab") as output:
        output.write(f"$ {without_logins(' '.join(command))}\n".encode())
        output.flush()
        # run_command of a module waits for the end and keeps all output in memory.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=owner[0] if owner else None,
            group=owner[1] if owner else None,
            extra_groups=[] if owner else None,
        )
        _offer_first(process.pid)
        try:
            while True:
                try:
                    process.wait(tick)
                    failed = process.returncode != 0
                    starved = failed and (process.returncode == -signal.SIGKILL or oom_kills() > kills)
                    return Finished(process.returncode, time.monotonic() - started, False, starved)
                except subprocess.TimeoutExpired:
                    elapsed = time.monotonic() - started
                    if elapsed > timeout:
                        end_group(process)
                        return Finished(process.returncode, elapsed, True)
                    on_tick(elapsed)
        except BaseException:
            end_group(process)
            raise


def _offer_first(pid: int) -> None:
    """Let the kernel, short of memory, end this process or what it starts before whoever waits to tell about it."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as stream:
            stream.write("500")
    except OSError:
        pass  # it has ended already, or the container does not allow it


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its own session, and everything in it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def read_log(path: str, limit: int = 4 << 20) -> str:
    """The end of a log, at most ``limit`` bytes of it; empty when there is none."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - limit))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def write_json(path: str, data: t.Mapping[str, t.Any], mode: int = 0o644) -> None:
    """Write a record whole or not at all, so that a reader never sees half of one."""
    _whole_file.replace(path, json.dumps(data, indent=2, sort_keys=True) + "\n", mode)
