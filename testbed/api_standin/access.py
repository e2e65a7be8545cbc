# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who asks, and what they may: tokens, tickets, CSRF, and privileges with privilege separation."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any

from testbed.api_standin.refusal import Refusal

TICKET_LIFE = 7200  # seconds
ALL = frozenset(
    {"VM.Audit", "VM.Snapshot", "VM.Snapshot.Rollback", "VM.PowerMgmt", "VM.Config.Options", "Sys.Audit"}
) | {
    "Pool.Audit",
    "Datastore.Audit",
}


@dataclass(frozen=True)
class Caller:
    """``who``: user@realm, or user@realm!token. ``literal_root``: root@pam by ticket or pvesh, not by token."""

    who: str
    literal_root: bool = False

    @property
    def user(self) -> str:
        return self.who.partition("!")[0]


class Tickets:
    """Tickets given out, in memory: a restart of the stand-in ends them all."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str, float]] = {}

    def login(self, settings: dict[str, Any], parameters: dict[str, str]) -> dict[str, object]:
        user = parameters.get("username", "")
        account = settings["users"].get(user)
        if account is None or account.get("disabled") or account["password"] != parameters.get("password"):
            raise Refusal(401, "authentication failure")
        ticket, csrf = f"PVE:{user}:{int(time.time()):08X}::{secrets.token_urlsafe(24)}", secrets.token_hex(20)
        self._known[ticket] = (user, csrf, time.time())
        return {"username": user, "ticket": ticket, "CSRFPreventionToken": csrf, "cap": {}}

    def caller(self, settings: dict[str, Any], headers: dict[str, str], method: str) -> Caller:
        """Raises the 401 that the headers deserve. ``headers``: names in lower case."""
        failed = Refusal(401, "Authentication failed!", empty=True)
        text = headers.get("authorization", "")
        if text.startswith("PVEAPIToken="):
            who, _, secret = text.removeprefix("PVEAPIToken=").partition("=")
            user, _, token = who.partition("!")
            account = settings["users"].get(user) or {}
            if account.get("disabled") or account.get("tokens", {}).get(token, {}).get("secret") != secret:
                raise failed
            return Caller(who)
        cookies = dict(one.strip().split("=", 1) for one in headers.get("cookie", "").split(";") if "=" in one)
        if "PVEAuthCookie" not in cookies:
            raise Refusal(401, "No ticket", empty=True)
        user, csrf, made = self._known.get(cookies["PVEAuthCookie"], ("", "", 0.0))
        if not user or time.time() - made > TICKET_LIFE:
            raise failed
        if method != "GET" and headers.get("csrfpreventiontoken") != csrf:
            raise Refusal(401, "Permission denied - invalid csrf token", empty=True)
        return Caller(user, literal_root=user == "root@pam")


def privileges(settings: dict[str, Any], caller: Caller, path: str) -> set[str]:
    """What a caller may at a path; a container's pool gives as well."""
    if caller.user == "root@pam":
        return set(ALL)
    own = _granted(settings, caller.user, path)
    _, _, token = caller.who.partition("!")
    if token and settings["users"][caller.user]["tokens"][token].get("privsep", 1):
        own &= _granted(settings, caller.who, path)
    return own


def _granted(settings: dict[str, Any], who: str, path: str) -> set[str]:
    """The entry of the longest path counts, as in Proxmox; pools add theirs."""
    pools = [f"/pool/{name}" for name, ids in settings["pools"].items() if path in [f"/vms/{vmid}" for vmid in ids]]
    granted: set[str] = set()
    for each in (path, *pools):
        entries = [
            entry
            for entry in settings["acl"]
            if entry["who"] == who
            and (entry["path"] == each or (entry.get("propagate", 1) and _below(each, entry["path"])))
        ]
        if entries:
            longest = max(len(entry["path"]) for entry in entries)
            for entry in entries:
                granted |= set(entry["privileges"]) if len(entry["path"]) == longest else set()
    return granted


def _below(path: str, parent: str) -> bool:
    return parent == "/" or path.startswith(f"{parent}/")


def require(settings: dict[str, Any], caller: Caller, path: str, *wanted: str) -> None:
    """One of these privileges, else Proxmox's 403."""
    if not privileges(settings, caller, path) & set(wanted):
        raise Refusal(403, f"Permission check failed ({path}, {'|'.join(wanted)})")


def permissions(settings: dict[str, Any], caller: Caller) -> dict[str, dict[str, int]]:
    """GET /access/permissions: the paths where the caller has something."""
    paths = {"/", "/vms", "/nodes", "/pool", "/storage", "/access"} | {entry["path"] for entry in settings["acl"]}
    found = {path: dict.fromkeys(privileges(settings, caller, path), 1) for path in paths}
    return {path: names for path, names in found.items() if names}
