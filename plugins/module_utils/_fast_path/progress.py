# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what a proof is doing, on stderr, and its time limit.

A first proof compiles for minutes, and it may hang in a driver. So each step says its name and the seconds since the
start; past a stage's limit the next step raises ``Expired``, with the lines where all threads stood on stderr; and
where no next step comes, a watchdog hands over what is known so far.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

# Seconds that a step may go on past its stage's limit before the watchdog gives it up.
GRACE_S = 20.0


class Expired(Exception):
    """A stage's time is over; the message is one sentence for the reader."""


class Progress:
    """Steps of one proof. ``limit`` is the seconds of the whole; a stage gets a share of what is left of it.

    ``give_up`` is called by the watchdog, from another thread, with a sentence, when a step outlasts its stage's limit
    by ``grace`` seconds: it must not return into the proof.
    """

    def __init__(
        self,
        limit: float = 900.0,
        stream: Any = None,
        give_up: Callable[[str], None] | None = None,
        grace: float = GRACE_S,
    ) -> None:
        self.started = time.monotonic()
        self.end = self.started + limit
        self.stream, self.give_up, self.grace = stream, give_up, grace
        self.name, self.step, self.deadline, self.share_s = "start", "", self.end, limit

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def say(self, step: str) -> None:
        """Name the step that begins; raises ``Expired`` when the stage's time is over."""
        self.step = step
        self.write(step)
        self.check()

    def write(self, text: str) -> None:
        if self.stream is not None:
            with suppress(OSError, ValueError):
                self.stream.write(f"[{self.elapsed:6.1f} s] {self.name}: {text}\n")
                self.stream.flush()

    def check(self) -> None:
        if time.monotonic() > self.deadline:
            raise Expired(self.reason())

    def reason(self) -> str:
        return f"{self.name} was not done within its {self.share_s:.0f} s; it was at: {self.step or 'its start'}"

    @contextmanager
    def stage(self, name: str, share: float = 1.0) -> Iterator[None]:
        """One stage: ``share`` of the seconds that are left. An ``Expired`` of it goes through to the caller."""
        left = max(0.0, self.end - time.monotonic())
        self.name, self.step, self.share_s = name, "", left * share
        self.deadline = time.monotonic() + self.share_s
        watchdog = threading.Timer(self.share_s + self.grace, self._bark)
        watchdog.daemon = True
        watchdog.start()
        self._dump_after(self.share_s)
        self.write("begins")
        try:
            yield
        finally:
            watchdog.cancel()
            with suppress(ValueError, OSError):
                faulthandler.cancel_dump_traceback_later()
            self.write("ends")

    def _dump_after(self, seconds: float) -> None:
        # stderr may be a stream without a descriptor: then there is no dump, and nothing else is lost.
        with suppress(ValueError, OSError, AttributeError):
            if sys.__stderr__ is not None:
                faulthandler.dump_traceback_later(max(seconds, 0.01), file=sys.__stderr__)

    def _bark(self) -> None:
        self.write(f"given up: {self.reason()}")
        if self.give_up is not None:
            self.give_up(self.reason())
