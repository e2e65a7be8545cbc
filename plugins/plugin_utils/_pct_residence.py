# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""Where the resident runner of one container lives, how it is started and how it is reached.

Three ways lead to its socket: a socket of the controller that the node's sshd forwards to it (a root login: no process
has to be started for a task), a small relay in the container behind an ordinary session (a login with sudo), and
/proc/PID/root when the controller is the node. What is known about a runner is kept in a file beside the ssh control
sockets, since each task is another process. Whatever goes wrong here, the plain path takes the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import subprocess
import time
import typing as t

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _pct_masters, _pct_runner, _pct_stream

_HELLO_TIMEOUT = 5.0
_RETRY_AFTER = 60.0

# Between the session's stdin and stdout and the runner's socket, in the container.
_RELAY = """\
import os,select,socket,sys
s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1])
while True:
    r=select.select([0,s],[],[])[0]
    if s in r:
        b=s.recv(131072)
        if not b: break
        while b: b=b[os.write(1,b):]
    if 0 in r:
        b=os.read(0,131072)
        if not b: break
        s.sendall(b)
"""


class NobodyListens(_pct_runner.NoRunner):
    """Nothing answers at the socket of the controller (or, there, of the node)."""


class SocketChannel:
    """A connected socket."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_HELLO_TIMEOUT)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise NobodyListens(f"{path}: {error}") from None
        self._socket.settimeout(None)

    def read_end(self) -> int:
        return self._socket.fileno()

    def write_end(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


class ProcessChannel:
    """The pipes of a relay."""

    def __init__(self, process: subprocess.Popen[bytes], stack: contextlib.ExitStack) -> None:
        self._process = process
        self._stack = stack

    def read_end(self) -> int:
        return _pct_stream.descriptor(self._process.stdout)

    def write_end(self) -> int:
        return _pct_stream.descriptor(self._process.stdin)

    def close(self) -> None:
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
        # What the session's end looks like is of no interest any more.
        with contextlib.suppress(AnsibleConnectionFailure):
            self._stack.close()


class Started(t.NamedTuple):
    """A runner that was just started."""

    path: str  # its socket, as the container sees it
    init: str  # pid of the container's first process on the node, empty when unknown
    sudo: bool  # the node's login is not root


class Ways(t.Protocol):
    """What the connection can do for a residence."""

    def start_runner(self, python: str, program: bytes) -> Started | None: ...
    def forward(self, local: str, remote: str) -> bool: ...
    def relay(self, command: bytes) -> ProcessChannel: ...


class Residence:
    """The runner of one container. base: the path that its socket and notes begin with."""

    def __init__(self, ways: Ways, base: str, local: bool, idle: int) -> None:
        self._ways = ways
        self._base = base
        self._local = local
        self._idle = idle

    @contextlib.contextmanager
    def conversation(self, python: str | None) -> t.Iterator[_pct_runner.Conversation]:
        """Open a conversation; with a path of a Python, start the runner where there is none. Raises NoRunner."""
        channel, conversation = self._open(python)
        try:
            yield conversation
        finally:
            channel.close()

    def dismiss(self) -> None:
        """Make the runner go, if there is one."""
        with contextlib.suppress(_pct_runner.NoRunner, OSError):
            channel, conversation = self._reach(self._notes())
            try:
                conversation.dismiss()
            finally:
                channel.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._base + ".json")

    def _notes(self) -> dict[str, t.Any]:
        try:
            with open(self._base + ".json", encoding="utf-8") as file:
                notes = json.load(file)
        except (OSError, ValueError):
            return {}
        # Another release of the plugin may have left a runner and notes of its own kind.
        return notes if isinstance(notes, dict) and notes.get("program") == _pct_runner.program_digest() else {}

    def _note(self, **notes: t.Any) -> None:
        temporary = f"{self._base}.{os.getpid()}"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({**notes, "program": _pct_runner.program_digest()}, file)
        os.replace(temporary, self._base + ".json")

    def _open(self, python: str | None) -> tuple[_pct_runner.Channel, _pct_runner.Conversation]:
        notes = self._notes()
        self._check(notes, python)
        closed = False
        try:
            return self._reach(notes)
        except NobodyListens:
            closed = notes["way"] == "forward"
        except _pct_runner.NoRunner:
            pass
        if python is None:
            raise _pct_runner.NoRunner("none is there")
        with _pct_masters.locked(self._base + ".lock"):
            again = self._notes()
            self._check(again, python)
            with contextlib.suppress(_pct_runner.NoRunner):
                # Another worker was here first, or only the master that forwarded the socket is gone.
                if again != notes or (closed and self._forward(again["inside"])):
                    return self._reach(again)
            return self._begin(python)

    def _forward(self, inside: str) -> bool:
        return self._ways.forward(self._base, inside)

    @staticmethod
    def _check(notes: dict[str, t.Any], python: str | None) -> None:
        if notes.get("not_before", 0) > time.time():
            raise _pct_runner.NoRunner(f"it failed lately: {notes.get('why')}")
        if python is not None and notes.get("python", python) != python:
            raise _pct_runner.NoRunner("it runs another Python")

    def _begin(self, python: str) -> tuple[_pct_runner.Channel, _pct_runner.Conversation]:
        token = _pct_runner.new_token()
        started = self._ways.start_runner(python, _pct_runner.program(token, self._idle))
        if started is None:
            raise _pct_runner.NoRunner(f"{python} did not start it")
        notes = {"python": python, "token": token, "path": started.path}
        inside = f"/proc/{started.init}/root{started.path}"
        reasons = []
        for way in ("direct", "forward", "relay"):
            if way != "relay" and (started.sudo or not started.init or (way == "direct") != self._local):
                continue
            try:
                if way == "forward" and not self._forward(inside):
                    raise _pct_runner.NoRunner("sshd does not forward sockets")
                notes.update(way=way, inside=inside, socket=inside if way == "direct" else self._base)
                result = self._reach(notes)
            except _pct_runner.NoRunner as error:
                reasons.append(f"{way}: {error}")
            else:
                self._note(**notes)
                return result
        self._note(not_before=time.time() + _RETRY_AFTER, why="; ".join(reasons))
        raise _pct_runner.NoRunner("; ".join(reasons))

    def _reach(self, notes: dict[str, t.Any]) -> tuple[_pct_runner.Channel, _pct_runner.Conversation]:
        if "token" not in notes:
            raise _pct_runner.NoRunner("none is there")
        channel: _pct_runner.Channel
        if notes["way"] == "relay":
            command = " ".join(
                shlex.quote(word) for word in ("exec", notes["python"], "-I", "-S", "-c", _RELAY, notes["path"])
            )
            channel = self._ways.relay(command.encode("utf-8"))
        else:
            channel = SocketChannel(notes["socket"])
        conversation = _pct_runner.Conversation(channel)
        try:
            conversation.greet(notes["token"], _HELLO_TIMEOUT)
        except BaseException:
            channel.close()
            raise
        return channel, conversation
