# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: ask the training interpreter, in a child process, under the launch conditions of the training job.

The package travels as a zip archive in memory (no file is written), the answer comes back on a descriptor of its own,
so that whatever libraries print on stdout cannot spoil it, and the child is bounded by a timeout.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .archive import build

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# No look-up may leave the machine: a check that fetches code is no check, and a node without internet would hang.
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")
_TAIL = 4000


class LaunchError(Exception):
    """The child could not be started as asked; the message is one sentence for the reader."""


def read_environment_file(text: str) -> dict[str, str]:
    """``KEY=value`` lines as systemd's EnvironmentFile and a shell's ``export`` write them; no expansion."""
    values = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if not found or line.lstrip().startswith(("#", ";")):
            continue
        value = found.group(2)
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        values[found.group(1)] = value
    return values


def launch_environment(
    python: str, user: str | None, environment: Mapping[str, Any] | None, files: list[str] | None = None
) -> dict[str, str]:
    """The environment of the training job: a clean base, then each file, then ``environment``; later wins."""
    account = pwd.getpwnam(user) if user else pwd.getpwuid(os.geteuid())
    values = {
        "PATH": f"{os.path.dirname(python)}:{_PATH}",
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "LANG": "C.UTF-8",
    }
    for path in files or []:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                values.update(read_environment_file(stream.read()))
        except OSError as error:
            raise LaunchError(f"The environment file {path} cannot be read: {error.strerror}.") from None
    values.update({str(k): str(v) for k, v in (environment or {}).items()})
    return {**values, **_OFFLINE}


def run(
    python: str,
    request: Mapping[str, Any],
    timeout: float,
    user: str | None = None,
    environment: Mapping[str, Any] | None = None,
    environment_files: list[str] | None = None,
) -> dict[str, Any]:
    """Run one request in ``python`` and return its answer.

    :param request: ``{"action": "binding" | "proof", "model": path or dict or None, "family": name, ...}``.
    :param timeout: seconds; the child and all that it started are ended after that.
    :param user: account to run as (needs root when it is another one).
    :returns: the answer; or ``{"error": sentence, "output": tail of what was printed}`` when there is none.
    """
    try:
        return _run(python, request, timeout, user, launch_environment(python, user, environment, environment_files))
    except LaunchError as error:
        return {"error": str(error), "output": ""}
    except KeyError:
        return {"error": f"The training user {user!r} does not exist on this machine.", "output": ""}


def _run(
    python: str, request: Mapping[str, Any], timeout: float, user: str | None, environment: dict[str, str]
) -> dict[str, Any]:
    if not os.access(python, os.X_OK):
        raise LaunchError(f"The training interpreter {python} is not there or cannot be run.")
    archive = _in_memory(build())
    answer_read, answer_write = os.pipe()
    identity = _identity(user)
    command = [python, "-B", f"/proc/self/fd/{archive}", "--request-on-stdin", "--answer-fd", str(answer_write)]
    try:
        with tempfile.TemporaryFile() as wanted:
            wanted.write(json.dumps(request).encode())
            wanted.seek(0)
            child = subprocess.Popen(  # pylint: disable=ansible-bad-function  # as another user, with descriptors
                command,
                stdin=wanted,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(archive, answer_write),
                env=environment,
                cwd="/",
                start_new_session=True,
                **identity,
            )
    except (OSError, subprocess.SubprocessError) as error:
        os.close(answer_read)
        raise LaunchError(f"{python} cannot be started as {user or 'this user'}: {error}.") from None
    finally:
        os.close(archive)
        os.close(answer_write)
    answer, printed, timed_out = _collect(child, answer_read, timeout)
    tail = printed.decode(errors="replace")[-_TAIL:]
    if timed_out:
        return {
            "error": f"The check in {python} did not end within {timeout:g} seconds and was stopped.",
            "output": tail,
        }
    try:
        return dict(json.loads(answer))
    except ValueError:
        how = f"signal {-child.returncode}" if child.returncode < 0 else f"exit status {child.returncode}"
        last = next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "it printed nothing")
        return {"error": f"The check in {python} ended with {how} and no answer: {last}", "output": tail}


def _in_memory(content: bytes) -> int:
    """A descriptor of a file that lives in memory alone; another user's process may reopen it through /proc."""
    descriptor = os.memfd_create("fast_path_proof")
    os.fchmod(descriptor, 0o644)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    return descriptor


def _identity(user: str | None) -> dict[str, Any]:
    """The arguments that make the child run as ``user``: nothing when that is who we are."""
    if not user:
        return {}
    account = pwd.getpwnam(user)
    if account.pw_uid == os.geteuid():
        return {}
    if os.geteuid() != 0:
        raise LaunchError(f"Only root can run the check as {user!r}; become root or leave the training user out.")
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}


def _collect(child: subprocess.Popen[bytes], answer_fd: int, timeout: float) -> tuple[bytes, bytes, bool]:
    """Read the answer and what was printed until both ends close; (answer, printed, timed out)."""
    if child.stdout is None:
        raise ValueError("the child has no pipe to read")
    deadline = time.monotonic() + timeout
    buffers = {answer_fd: bytearray(), child.stdout.fileno(): bytearray()}
    timed_out = False
    with selectors.DefaultSelector() as selector:
        for descriptor in buffers:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            # A grandchild may keep stdout open after the answer is complete: the answer's end is what counts.
            if left <= 0 or answer_fd not in selector.get_map():
                timed_out = left <= 0 and answer_fd in selector.get_map()
                break
            for key, _events in selector.select(left):
                block = os.read(key.fd, 65536)
                if block:
                    buffers[key.fd] += block
                    del buffers[key.fd][: -(1 << 24)]
                else:
                    selector.unregister(key.fd)
    if not timed_out:
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(1.0, min(10.0, deadline - time.monotonic())))
    if child.poll() is None or timed_out:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    os.set_blocking(child.stdout.fileno(), False)
    with suppress(BlockingIOError):
        buffers[child.stdout.fileno()] += os.read(child.stdout.fileno(), 65536)
    printed = bytes(buffers[child.stdout.fileno()])
    child.stdout.close()
    os.close(answer_fd)
    return bytes(buffers[answer_fd]), printed, timed_out
