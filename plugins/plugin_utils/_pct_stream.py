# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""The controller's half of a transfer: a file goes through a running process block by block, and memory stays small."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
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


def framed(data: bytes) -> bytes:
    """Return a file's bytes followed by their checksum, as the container's half expects it."""
    return data + hashlib.sha256(data).hexdigest().encode("ascii") + b"\n"


def send(stream: Stream, source: t.BinaryIO, size: int) -> None:
    """Write size bytes of a file and then their checksum, as the container's half expects it.

    The kernel moves the bytes (sendfile) while another thread reads them for the checksum: on a busy controller the
    transfer itself is what the processors are needed for. A file that changes meanwhile fails by its checksum.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        digest = pool.submit(_digest, source.fileno(), size)
        done = 0
        while done < size:
            moved = stream.send_file(source.fileno(), done, min(BLOCK, size - done))
            if not moved:
                return  # It became shorter, or the other side stopped: the container's half says which.
            done += moved
        stream.write(digest.result() + b"\n")


def _digest(source: int, size: int) -> bytes:
    digest = hashlib.sha256()
    done = 0
    while done < size and (block := os.pread(source, min(BLOCK, size - done), done)):
        digest.update(block)
        done += len(block)
    return digest.hexdigest().encode("ascii")


def receive(stream: Stream, target: t.BinaryIO) -> tuple[bool, str]:
    """Write what the container's half sends to a file; return whether all of it came, and its checksum."""
    digest = hashlib.sha256()
    header = b""
    while b"\n" not in header:
        block = stream.read()
        if not block:
            return False, ""
        header += block
    first, _newline, block = header.partition(b"\n")
    left = int(first)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        hashing: concurrent.futures.Future[None] | None = None
        while left:
            block = block[:left]
            left -= len(block)
            if hashing:
                hashing.result()
            hashing = pool.submit(digest.update, block)
            target.write(block)
            if left:
                block = stream.read()
                if not block:
                    return False, ""
    while stream.read():
        pass
    return True, digest.hexdigest()
