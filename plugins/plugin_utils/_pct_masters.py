# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""Shared ssh connections to one node, dealt out so that sshd's default limits are never met.

sshd allows 10 sessions in one connection (MaxSessions), and drops new connections at random above 10 that have not
logged in yet (MaxStartups 10:30:100). Each Ansible worker is a process of its own, so the dealing is done with files:
session number i goes through the ssh master i // sessions, and is taken by an flock on a file of its own; so few
sessions use one master and fifty use seven. A master is started by one worker while the others that need it wait, and
only a few masters of a node log in at the same time. When a start fails, those who waited for it fail with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
import typing as t


class StartFailed(Exception):
    """Another worker could not start the master that this one waited for; the message is its error."""


def is_alive(path: str) -> bool:
    """Return whether somebody listens on a unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def age(path: str) -> float:
    """Return for how many seconds a file has been there; infinity when it is not."""
    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return float("inf")


@contextlib.contextmanager
def locked(path: str) -> t.Iterator[int]:
    """Hold an exclusive flock on a file, made when missing, waiting for it; yield its descriptor."""
    handle = _lock_file(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked_if_free(path: str) -> t.Iterator[int | None]:
    """Hold such a lock, or yield None at once when somebody else does."""
    handle = _lock_file(path)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield handle
    finally:
        os.close(handle)


def _lock_file(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


# Leaving these two early closes their generators, which releases the locks: pylint cannot see through the decorator.
# pylint: disable=contextmanager-generator-missing-cleanup
@contextlib.contextmanager
def one_of(paths: t.Sequence[str]) -> t.Iterator[int]:
    """Hold one of some locks, the first that is free; wait for one (chosen by process id) when none is."""
    for number, path in enumerate(paths):
        with locked_if_free(path) as handle:
            if handle is not None:
                yield number
                return
    number = os.getpid() % len(paths)
    with locked(paths[number]):
        yield number


class Masters:
    """The masters of one node for one login.

    directory: a folder of mode 0700, short enough for a socket's name (108 bytes)
    key: a word that stands for everything the login depends on
    gate: a word that stands for the ssh server, whoever logs in
    """

    def __init__(self, directory: str, key: str, gate: str, sessions: int, starts: int) -> None:
        self._base = os.path.join(directory, f"pct-{key}")
        self._gates = [os.path.join(directory, f"pct-{gate}.start{number}") for number in range(starts)]
        self._sessions = sessions

    def beside(self, name: str) -> str:
        """Return a path for a file or socket that belongs to this login."""
        return f"{self._base}-{name}"

    def socket(self, master: int) -> str:
        """Return the control socket of a master."""
        return f"{self._base}-{master}"

    def sockets(self) -> list[str]:
        """Return the control sockets that exist."""
        found: list[str] = []
        while os.path.exists(self.socket(len(found))):
            found.append(self.socket(len(found)))
        return found

    @contextlib.contextmanager
    def session(self, start: t.Callable[[str], None]) -> t.Iterator[str]:
        """Hold a session and yield the control socket to use, its master started with start(socket) where needed."""
        number = 0
        while True:
            with locked_if_free(f"{self._base}.session{number}") as handle:
                if handle is not None:
                    path = self.socket(number // self._sessions)
                    self._ensure(path, start)
                    yield path
                    return
            number += 1

    def _ensure(self, path: str, start: t.Callable[[str], None]) -> None:
        if is_alive(path):
            return
        asked = time.time()
        with locked(f"{path}.lock") as handle:
            if is_alive(path):
                return
            failed = _read_failure(handle)
            if failed and failed[0] >= asked:
                raise StartFailed(failed[1])
            os.ftruncate(handle, 0)
            try:
                with one_of(self._gates):
                    start(path)
            except Exception as error:
                os.pwrite(handle, json.dumps([time.time(), str(error)]).encode("utf-8"), 0)
                raise


def _read_failure(handle: int) -> tuple[float, str] | None:
    try:
        when, message = json.loads(os.pread(handle, 1 << 16, 0))
        return float(when), str(message)
    except ValueError:
        return None
