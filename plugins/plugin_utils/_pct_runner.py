# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""The controller's half of the resident runner: what it may be given, and the conversation with it.

A request counts as started once its last byte may have left: then it is given to another path only if the runner says
that it could not start it. Everything before that (no runner, no answer in time, a wrong hello) is NoRunner, and the
plain path takes the command.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pathlib
import secrets
import select
import shlex
import struct
import time
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _pct_command

#: Seconds without any frame after which the container is looked at; the runner sends one each 10 seconds.
SILENCE = 45

# A fresh interpreter reads these when it starts; a fork of a running one would not.
_START_ONLY = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "TZ", "HOME", "PATH", "OPENSSL_", "ASAN_", "LSAN_")


class NoRunner(Exception):
    """The runner can't take this command; nothing of it was run."""


class LostRunner(Exception):
    """The conversation ended after the command may have started; nothing is known about its end."""


class Payload(t.NamedTuple):
    """A command line that feeds a script to Python, as Ansible writes it for a pipelined module."""

    python: str
    environment: dict[str, str]


def as_payload(command: str) -> Payload | None:
    """Read /bin/sh -c 'NAME=VALUE /path/to/python' (with && sleep 0 in older releases); None for anything else.

    Only what can be written back to the very same text is taken, so nothing is overlooked.
    """
    try:
        words = shlex.split(command)
        if len(words) != 3 or words[:2] != ["/bin/sh", "-c"]:
            return None
        inner = shlex.split(words[2])
    except ValueError:
        return None
    tail = " && sleep 0" if inner[-3:] == ["&&", "sleep", "0"] else ""
    if tail:
        del inner[-3:]
    if not inner or not inner[-1].startswith("/"):
        return None
    python = inner.pop()
    environment = {}
    for word in inner:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or not name.isascii() or name.startswith(_START_ONLY):
            return None
        environment[name] = value
    text = "".join(f"{name}={shlex.quote(value)} " for name, value in environment.items()) + shlex.quote(python) + tail
    if len(environment) != len(inner) or f"/bin/sh -c {shlex.quote(text)}" != command:
        return None
    return Payload(python, environment)


@functools.cache
def _source() -> str:
    return pathlib.Path(__file__).with_name("_pct_resident.py").read_text(encoding="utf-8")


def program_digest() -> str:
    """Return what stands for the runner's text and the protocol it speaks."""
    return hashlib.sha256(_source().encode("utf-8")).hexdigest()[:16]


def program(token: str, idle: int) -> bytes:
    """Return the runner's text for the container's python3."""
    config = {"token": token, "idle": idle, "environment": _pct_command.ENVIRONMENT}
    first = "from __future__ import annotations\n"
    return _source().replace(first, f"{first}\nCONFIG = {config!r}\n", 1).encode("utf-8")


def new_token() -> str:
    """Return the word by which the controller knows its own runner."""
    return secrets.token_hex(16)


class Channel(t.Protocol):
    """Two directions to a runner: a socket, or a process's pipes."""

    def read_end(self) -> int: ...
    def write_end(self) -> int: ...
    def close(self) -> None: ...


class Conversation:
    """The frames that go over one channel (see _pct_resident)."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._buffer = bytearray()

    def greet(self, token: str, timeout: float) -> None:
        """Wait for the hello of our own runner."""
        try:
            kind, data = self._next(timeout)
            if kind == b"h" and json.loads(data).get("token") == token:
                return
        except (EOFError, OSError, ValueError) as error:
            raise NoRunner(f"no hello: {error}") from None
        raise NoRunner("the hello is not our runner's")

    def dismiss(self) -> None:
        """Ask the runner to go."""
        self._write(_frame(b"q", b""))

    def run(
        self, command: bytes, payload: Payload | None, in_data: bytes, on_silence: t.Callable[[], None]
    ) -> tuple[int, bytes, bytes]:
        """Run a command; return its exit status, stdout and stderr. on_silence is called when no frame comes."""
        request: dict[str, t.Any] = {"kind": "payload" if payload else "command", "command": os.fsdecode(command)}
        if payload:
            request["environment"] = payload.environment
        whole = _frame(b"r", json.dumps(request).encode("ascii")) + _frame(b"i", in_data)
        try:
            self._write(whole[:-1])
        except (EOFError, OSError) as error:
            raise NoRunner(f"the request was not taken: {error}") from None
        output: dict[bytes, list[bytes]] = {b"o": [], b"e": []}
        try:
            self._write(whole[-1:])
            while True:
                try:
                    kind, data = self._next(SILENCE)
                except TimeoutError:
                    on_silence()
                    continue
                if kind == b"x":
                    return int(data), b"".join(output[b"o"]), b"".join(output[b"e"])
                if kind == b"n":
                    raise NoRunner(f"it could not start that: {os.fsdecode(data)}")
                if kind in output:
                    output[kind].append(data)
        except (EOFError, OSError, ValueError) as error:
            raise LostRunner(str(error)) from None

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        fd = self._channel.write_end()
        while view:
            if not select.select([], [fd], [], SILENCE)[1]:
                raise TimeoutError("it takes no data")
            view = view[os.write(fd, view[: 1 << 16]) :]

    def _next(self, timeout: float) -> tuple[bytes, bytes]:
        until = time.monotonic() + timeout
        fd = self._channel.read_end()
        while True:
            if len(self._buffer) >= 5:
                end = 5 + struct.unpack(">I", self._buffer[1:5])[0]
                if len(self._buffer) >= end:
                    kind, data = bytes(self._buffer[:1]), bytes(self._buffer[5:end])
                    del self._buffer[:end]
                    return kind, data
            if not select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError("no answer in time")
            part = os.read(fd, 1 << 18)
            if not part:
                raise EOFError("the connection ended")
            self._buffer += part


def _frame(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack(">I", len(data)) + data
