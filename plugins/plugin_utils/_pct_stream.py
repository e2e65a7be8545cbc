# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""The controller's half of a transfer: a file goes through a running process block by block, and memory stays small."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import typing as t

BLOCK = 1 << 20


class Stalled(Exception):
    """No byte moved for the whole time allowed."""


def descriptor(pipe: t.IO[bytes] | None) -> int:
    """Return the descriptor of a pipe that the process was started with."""
    if pipe is None:
        raise AssertionError("the process was started without this pipe")
    return pipe.fileno()


class Stream:
    """Reads and writes of a process that give up after a time without progress."""

    def __init__(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        self._process = process
        self._timeout = timeout
        for pipe in (process.stdin, process.stdout):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
                with contextlib.suppress(OSError, AttributeError):
                    fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, BLOCK)

    def write(self, data: bytes) -> bool:
        """Write all of data; False when the other side stopped reading (its status says why)."""
        fd = descriptor(self._process.stdin)
        view = memoryview(data)
        while view:
            if not select.select([], [fd], [], self._timeout)[1]:
                raise Stalled
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return False
        return True

    def send_file(self, source: int, offset: int, count: int) -> int:
        """Write up to count bytes of an open file; 0 at the file's end or when the other side stopped reading."""
        fd = descriptor(self._process.stdin)
        while True:
            if not select.select([], [fd], [], self._timeout)[1]:
                raise Stalled
            try:
                return os.sendfile(fd, source, offset, count)
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return 0
            except OSError:
                # Not every kernel and file can do that; then through our memory.
                block = os.pread(source, count, offset)
                return len(block) if block and self.write(block) else 0

    def read(self) -> bytes:
        """Return the next bytes, empty at the end."""
        fd = descriptor(self._process.stdout)
        while True:
            if not select.select([fd], [], [], self._timeout)[0]:
                raise Stalled
            with contextlib.suppress(BlockingIOError):
                return os.read(fd, BLOCK)

    def finish(self) -> None:
        """Close the input and wait for the end."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            raise Stalled from None


def send(stream: Stream, source: t.BinaryIO, size: int) -> None:
    """Write size bytes of a file, moved by the kernel; fewer when it became shorter, which the other half notices."""
    done = 0
    while done < size:
        moved = stream.send_file(source.fileno(), done, min(BLOCK, size - done))
        if not moved:
            return  # The file's end, or the other side stopped: the container's half says which.
        done += moved


def receive(stream: Stream, target: t.BinaryIO) -> bool:
    """Write what the container's half sends to a file; return whether all of it came."""
    header = b""
    while b"\n" not in header:
        block = stream.read()
        if not block:
            return False
        header += block
    first, _newline, block = header.partition(b"\n")
    left = int(first)
    while left:
        block = block[:left] if block else stream.read()[:left]
        if not block:
            return False
        target.write(block)
        left -= len(block)
        block = b""
    while stream.read():
        pass
    return True
