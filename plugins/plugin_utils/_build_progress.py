# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""What a person reads while a build runs: a line when something changed, and one now and then so that it looks
alive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

QUIET = 30.0  # seconds after which a line is due even if nothing changed


class Reporter:
    """Turns the status of a build, looked at again and again, into few lines."""

    def __init__(
        self, host: str, write: Callable[[str], None], quiet: float = QUIET, estimate: float | None = None
    ) -> None:
        self._host, self._write, self._quiet, self._estimate = host, write, quiet, estimate
        self._last: object = None
        self._written = -quiet

    def show(self, status: Mapping[str, Any], seconds: float) -> None:
        """``status``: what, phase, compiling[], done, total, targets[], estimate; ``seconds``: since the beginning.
        ``what`` may be missing where the phase says it."""
        if not status:
            return
        state = (status.get("phase"), tuple(status.get("compiling") or ()), status.get("done"))
        if state == self._last and seconds - self._written < self._quiet:
            return
        self._last, self._written = state, seconds
        whole = status.get("estimate") or self._estimate
        about = f" of about {duration(whole)}, as an earlier build took" if whole else ""
        self._write(f"{self._host}: {line(status)} ({duration(seconds)}{about})")


def line(status: Mapping[str, Any]) -> str:
    """ "causal-conv1d 1.7.0: compiling causal_conv1d_bwd.cu for sm_90, 3 of 4 sources done"."""
    text = ": ".join(str(status[name]) for name in ("what", "phase") if status.get(name))
    compiling = [str(name) for name in status.get("compiling") or []]
    if compiling:
        text += f" {', '.join(compiling)}"
    targets = [str(target) for target in status.get("targets") or []]
    if targets:
        text += f" for {' '.join(targets)}"
    if status.get("total"):
        text += f", {status.get('done')} of {status['total']} sources done"
    return text


def duration(seconds: float) -> str:
    """65.2 -> "1 min 05 s"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
