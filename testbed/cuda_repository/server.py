# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A loopback HTTP server for a built folder, which writes down every request and can be told to misbehave.

Log: one JSON object a line, written just before the answer's headers go out: ``time`` (seconds since the epoch),
``method``, ``path``, ``status`` (0 where it hangs), ``bytes`` (of the body).

Faults: a JSON list in a file that is read anew at each request, so that a test switches them on and off under a
running server: ``[{"prefix": "/compute/cuda/repos/debian12", "answer": 503}]``. The first rule whose prefix fits
decides. ``answer`` is an HTTP status, "hang" (the connection stays open and silent) or "cut" (half of the body, then
the connection closes).
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

_HOST = "127.0.0.1"
_SERVED = "/compute/"
_HANG_LIMIT = 3600.0


class Server(ThreadingHTTPServer):
    """The stand-in's server; ``log`` and ``faults`` are files, see the module's text."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, folder: Path, port: int, log: Path, faults: Path | None = None) -> None:
        self.log, self.faults = log, faults or log.with_name(f"{log.name}.faults")
        self.closing = threading.Event()
        self._log_lock = threading.Lock()
        super().__init__((_HOST, port), functools.partial(_Handler, directory=str(folder)))

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self.server_address[1]}"

    def write_log(self, entry: dict[str, Any]) -> None:
        with self._log_lock, self.log.open("a") as out:
            out.write(json.dumps(entry) + "\n")

    def answer_for(self, path: str) -> int | str | None:
        """What the faults file says about ``path``; None to serve it. An unreadable file is an answer of 500."""
        try:
            rules = json.loads(self.faults.read_text())
            return next((rule["answer"] for rule in rules if path.startswith(rule["prefix"])), None)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return HTTPStatus.INTERNAL_SERVER_ERROR.value

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event; anything else is a defect of the server and belongs into the log."""
        if not isinstance(error := sys.exc_info()[1], (ConnectionError, TimeoutError)):
            self.write_log({"time": time.time(), "error": repr(error)})


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server
    _status = 0
    _length = 0
    _cut = False

    def do_GET(self) -> None:
        self._answer(super().do_GET)

    def do_HEAD(self) -> None:
        self._answer(super().do_HEAD)

    def _answer(self, serve: Callable[[], None]) -> None:
        self._status = self._length = 0
        answer = self.server.answer_for(self.path)
        self._cut = answer == "cut"
        if answer == "hang":
            self._log()
            self.server.closing.wait(_HANG_LIMIT)
            self.close_connection = True
        elif isinstance(answer, int):
            self.send_error(answer)
        elif not Path(self.translate_path(self.path)).is_relative_to(f"{self.directory}{_SERVED}"):
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            serve()

    def list_directory(self, path: Any) -> None:
        """NVIDIA lists its folders as HTML; nothing here reads that."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def send_response(self, code: int, message: str | None = None) -> None:
        self._status = int(code)
        super().send_response(code, message)

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Content-Length" and self.command == "GET":
            self._length = int(value) // (2 if self._cut else 1)
        super().send_header(keyword, value)

    def end_headers(self) -> None:
        # Before the client can see the answer, so that whoever has it finds it in the log.
        self._log()
        super().end_headers()

    def _log(self) -> None:
        entry = {"time": round(time.time(), 3), "method": self.command, "path": self.path}
        self.server.write_log({**entry, "status": self._status, "bytes": self._length})

    def copyfile(self, source: Any, outputfile: Any) -> None:
        _copy(source, outputfile, self._length)
        self.close_connection = self.close_connection or self._cut

    def log_message(self, *_: Any) -> None:
        """The JSON log says it all."""


def _copy(source: IO[bytes], target: IO[bytes], left: int) -> None:
    while left and (block := source.read(min(left, 1 << 18))):
        target.write(block)
        left -= len(block)


def serve(folder: Path, port: int, log: Path, faults: Path | None = None) -> None:
    """Serve until the process ends; prints the URL once the port is open."""
    with Server(folder, port, log, faults) as server:
        print(f"{server.url}{_SERVED}cuda/repos", flush=True)
        server.serve_forever()


@contextmanager
def serving(folder: Path, log: Path, port: int = 0) -> Iterator[Server]:
    """A server in this process for the time of a ``with`` block, on a free port unless one is given. For tests."""
    with Server(folder, port, log) as server:
        thread = threading.Thread(target=server.serve_forever, name="cuda_repository", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


def set_faults(path: Path, rules: Iterable[tuple[str, int | str]]) -> None:
    """Write a faults file at once and whole: (prefix, answer) pairs; none of them makes the server well again."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps([{"prefix": prefix, "answer": answer} for prefix, answer in rules]))
    draft.replace(path)


def requests(log: Path) -> list[dict[str, Any]]:
    """The log of a server as dictionaries, oldest first; empty where no request came yet."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
