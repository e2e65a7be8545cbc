# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the API says no: HTTP status, reason phrase, and a body that some cases leave empty."""

from __future__ import annotations


class Refusal(Exception):
    """``errors``: parameter → complaint, of a 400. ``empty``: no body at all, as for 401 of a token, 595 and 596."""

    def __init__(self, status: int, reason: str, errors: dict[str, str] | None = None, empty: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.errors = errors
        self.empty = empty

    def body(self) -> dict[str, object]:
        body: dict[str, object] = {"data": None, "message": f"{self.reason}\n"}
        return body | ({"errors": self.errors} if self.errors else {})


def bad_parameter(**errors: str) -> Refusal:
    return Refusal(400, "Parameter verification failed.", errors)


class TaskFailed(Exception):
    """The end of a task that did not do its work; the text is its exit status."""
