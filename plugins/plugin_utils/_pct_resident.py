# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""The resident runner: stays in the container between tasks and runs what the connection plugin sends, by fork.

This text is sent to the container's python3 (3.9 or newer) through its stdin, with CONFIG set in front of it; it is
never imported on the controller. Python's start and its standard library are paid once, and modules that travel as
source in a zip are compiled once: the code is kept by the hash of its source. The payload is neither changed nor
understood: it is compiled as <stdin> and run as __main__ of a fresh fork, as python3 does with a script on its stdin.

One folder of mode 0700 holds the socket; only root of the container, or the node (whose processes have pid 0 here), is
served. The runner ends after an idle time, on request, and when the Python it was started with is changed on disk.

The protocol: frames of one letter, a length (4 bytes) and that many bytes. To the peer: h hello (JSON), o stdout,
e stderr, k still alive, x exit status (text), n not started (text: why). From the peer: r the request (JSON), i its
stdin, q go; what has been started is ended when the peer goes away.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import errno
import gc
import glob
import hashlib
import importlib
import json
import marshal
import os
import pwd
import select
import shutil
import signal
import site
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import typing as t
import zipimport

MAIN = {name: value for name, value in globals().items() if name.startswith("__") and name != "__builtins__"}
ARGV, SEARCH = list(sys.argv), list(sys.path)
NODE_UID = 65534  # How the node's root looks in a container with its own user ids.

# What AnsiballZ payloads import from the standard library anyway.
# fmt: off
PRELOAD = [
    "__future__", "argparse", "ast", "base64", "collections.abc", "copy", "ctypes", "dataclasses", "datetime",
    "decimal", "encodings.cp437", "encodings.idna", "enum", "errno", "fcntl", "fnmatch", "functools", "getpass",
    "gettext", "glob", "grp", "hashlib", "heapq", "inspect", "io", "itertools", "json", "locale", "logging", "numbers",
    "operator", "pathlib", "pickle", "pkgutil", "platform", "pwd", "queue", "random", "re", "resource", "runpy",
    "selectors", "shlex", "shutil", "signal", "socket", "stat", "string", "stringprep", "struct", "subprocess",
    "syslog", "tempfile", "textwrap", "time", "traceback", "types", "typing", "unicodedata", "urllib.parse", "uuid",
    "warnings", "zipfile", "zlib",
]
# fmt: on


def send(peer: socket.socket, kind: bytes, data: bytes = b"") -> None:
    peer.sendall(kind + struct.pack(">I", len(data)) + data)


def receive(peer: socket.socket) -> tuple[bytes, bytes]:
    head = exactly(peer, 5)
    return head[:1], exactly(peer, struct.unpack(">I", head[1:])[0])


def exactly(peer: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = peer.recv(min(count - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def signature() -> list[tuple[str, int, int, int]]:
    """What a fresh interpreter would be made of. When it changes (an upgrade, the first package of a kind), we go."""
    places = [sys.executable, os.__file__, os.path.dirname(os.__file__), *site.getsitepackages()]
    result = []
    for place in places:
        with contextlib.suppress(OSError):
            status = os.stat(place)
            result.append((place, status.st_ino, status.st_mtime_ns, status.st_size))
    return result


class CodeStore:
    """Compiled code by the hash of its source. A fork writes what it compiled to a file; the runner takes it in."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.code: dict[str, types.CodeType] = {}
        self.compile = zipimport._compile_source  # type: ignore[attr-defined]
        self.refile = importlib.import_module("_imp")._fix_co_filename

    def install(self) -> None:
        zipimport._compile_source = self.lookup  # type: ignore[attr-defined]

    def lookup(self, path: str, source: bytes, *rest: t.Any) -> types.CodeType:
        key = hashlib.sha256(source).hexdigest()
        code = self.code.get(key)
        if code is None:
            code = self.compile(path, source, *rest)
            with contextlib.suppress(OSError, ValueError), tempfile.NamedTemporaryFile(dir=self.folder) as file:
                file.write(marshal.dumps(code))
                file.flush()
                os.link(file.name, os.path.join(self.folder, key + ".code"))
        else:
            self.refile(code, path)
        return code

    def take_in(self) -> None:
        for name in os.listdir(self.folder):
            if name.endswith(".code"):
                path = os.path.join(self.folder, name)
                with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
                    if len(self.code) < 4000:
                        with open(path, "rb") as file:
                            self.code[name[:-5]] = marshal.loads(file.read())
                with contextlib.suppress(OSError):
                    os.unlink(path)


def run_payload(source: bytes, environment: dict[str, str]) -> t.NoReturn:
    """Do what python3 does with a script on its stdin, in this process; never returns."""
    os.environ.update(environment)
    sys.argv[:] = ARGV
    sys.path[:] = SEARCH
    importlib.invalidate_caches()
    main = types.ModuleType("__main__")
    main.__dict__.update(MAIN)
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    status = 0
    try:
        exec(compile(source, "<stdin>", "exec", 0, True), main.__dict__)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if not isinstance(error.code, (int, type(None))):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        # The frame that is left out is this one.
        sys.excepthook(type(error), error.with_traceback(error.__traceback__ and error.__traceback__.tb_next), None)
        status = 1
        if isinstance(error, KeyboardInterrupt):
            sys.stderr.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    getattr(threading, "_shutdown", int)()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF)


def stdin_of(data: bytes) -> int:
    """A readable descriptor: a pipe at its end where there is nothing to read, else a file that nobody has to feed."""
    if not data:
        read, write = os.pipe()
        os.close(write)
        return read
    with tempfile.TemporaryFile() as file:
        read = os.dup(file.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(read, view) :]
    os.lseek(read, 0, os.SEEK_SET)
    return read


def start(request: dict[str, t.Any], data: bytes, clean: dict[str, str]) -> tuple[int, int, int]:
    """Start what does the request; return its pid and the reading ends of its stdout and stderr."""
    payload = request["kind"] == "payload"
    (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
    standard = [stdin_of(b"" if payload else data), out_write, err_write]
    os.umask(0o022)
    with contextlib.suppress(OSError):
        os.chdir(clean["HOME"])
    if payload:
        pid = os.fork()
        if not pid:
            try:
                become_payload(standard)
                run_payload(data, request["environment"])
            finally:
                os._exit(126)
    else:
        argv = [b"/bin/sh", b"-c", os.fsencode(request["command"])]
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(standard)]
        defaults = [signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM]
        # Unlike a fork, this copies nothing of this process.
        pid = os.posix_spawn(argv[0], argv, clean, file_actions=actions, setsid=True, setsigdef=defaults)
    for fd in standard:
        os.close(fd)
    return pid, out_read, err_read


def become_payload(standard: list[int]) -> None:
    """Undo in a fork what a fresh interpreter would not have."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for wanted, fd in enumerate(standard):
        os.dup2(fd, wanted)
    os.closerange(3, 256)


def children(pid: int) -> list[int]:
    """The process and all below it, the lowest first."""
    result: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in file.read().split():
                    result += children(int(child))
    return [*result, pid]


def end(pid: int) -> None:
    for number, pause in ((signal.SIGTERM, 20), (signal.SIGKILL, 1)):
        for each in children(pid):
            with contextlib.suppress(OSError):
                os.kill(each, number)
        for _attempt in range(pause):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.1)


def wake_pipe() -> int:
    """The reading end of a pipe that every signal with a handler writes to, the end of a child among them."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write)
    return read


def handle(peer: socket.socket, clean: dict[str, str]) -> None:
    """Serve one request in a process of its own."""
    kind, request = receive(peer)
    if kind == b"q":
        os.kill(os.getppid(), signal.SIGTERM)
        return
    kind, data = receive(peer)
    wake = wake_pipe()
    try:
        pid, out, err = start(json.loads(request), data, clean)
    except OSError as error:
        send(peer, b"n", str(error).encode("utf-8", "replace"))
        return
    del data
    streams = {out: b"o", err: b"e"}
    for fd in streams:
        os.set_blocking(fd, False)
    status = None
    try:
        while status is None or streams:
            ready = select.select([*streams, wake, peer.fileno()], [], [], 0 if status is not None else 10)[0]
            if not ready:
                if status is not None:
                    break  # A child that lives on holds the pipes; what the command itself wrote has been read.
                send(peer, b"k")
            for fd in ready:
                if fd == peer.fileno():
                    if not peer.recv(1):
                        raise EOFError
                elif fd == wake:
                    os.read(wake, 512)
                else:
                    with contextlib.suppress(BlockingIOError):
                        block = os.read(fd, 1 << 17)
                        if block:
                            send(peer, streams[fd], block)
                        else:
                            del streams[fd]
            if status is None:
                done, result = os.waitpid(pid, os.WNOHANG)
                if done:
                    status = result
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            # The shell of the plain path says so on stderr, in its own words, and ends with 128 and the signal.
            again = ["/bin/sh", "-c", f"/bin/sh -c 'ulimit -c 0; kill -{-code} $$'; exit"]
            said = subprocess.run(again, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False).stderr
            send(peer, b"e", said)
            code = 128 - code
        send(peer, b"x", str(code).encode())
    except (EOFError, OSError):
        if status is None:
            end(pid)


def permitted(peer: socket.socket) -> bool:
    pid, uid, _gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid == os.getuid() or (pid == 0 and uid in (0, NODE_UID))


def serve(listener: socket.socket, folder: str, config: dict[str, t.Any]) -> None:
    clean = dict(config["environment"], HOME=pwd.getpwuid(os.getuid()).pw_dir)
    store = CodeStore(folder)
    store.install()
    for name in PRELOAD:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    made_of = signature()
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    wake = wake_pipe()
    busy: set[int] = set()
    last = time.monotonic()
    while not stop:
        ready = select.select([listener.fileno(), wake], [], [], 10)[0]
        if wake in ready:
            os.read(wake, 512)
        for pid in list(busy):
            if os.waitpid(pid, os.WNOHANG)[0]:
                busy.discard(pid)
                last = time.monotonic()
                store.take_in()
        if listener.fileno() not in ready:
            if not busy and time.monotonic() - last > config["idle"]:
                break
            continue
        peer, _address = listener.accept()
        with peer:
            if not permitted(peer):
                continue
            if signature() != made_of:
                break
            send(peer, b"h", json.dumps({"token": config["token"]}).encode())
            pid = os.fork()
            if not pid:
                status = 1
                try:
                    listener.close()
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
                    handle(peer, clean)
                    status = 0
                except (EOFError, OSError):
                    pass
                finally:
                    os._exit(status)
            busy.add(pid)


def tidy(parent: str) -> None:
    """Remove the folders of runners that were killed."""
    for folder in glob.glob(os.path.join(parent, "pct_exec-*")):
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            try:
                probe.connect(os.path.join(folder, "s"))
            except ConnectionRefusedError:
                shutil.rmtree(folder, ignore_errors=True)


def launch(config: dict[str, t.Any]) -> None:
    if sys.version_info < (3, 9):  # noqa: UP036 - the container's Python is whatever is there
        raise OSError(errno.ENOTSUP, "Python 3.9 is needed")
    parent = "/run" if os.access("/run", os.W_OK) else "/tmp"
    tidy(parent)
    folder = tempfile.mkdtemp(prefix="pct_exec-", dir=parent)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = os.path.join(folder, "s")
    listener.bind(path)
    listener.listen(64)
    if os.fork():
        print(json.dumps({"path": path}))
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.chdir("/")
    try:
        serve(listener, folder, config)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


if __name__ == "__main__":
    launch(globals()["CONFIG"])  # set in front of this text
