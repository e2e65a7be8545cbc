# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a request to its answer: paths, the privileges they need, and what is proxied to another node."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.api_standin import access, guests, settings, snapshots
from testbed.api_standin.access import Caller, Tickets, require
from testbed.api_standin.refusal import Refusal, bad_parameter
from testbed.api_standin.tasks import Tasks
from testbed.layout import Layout


@dataclass(frozen=True)
class Request:
    """``asked``: the node that was asked; ``parts``: what the route's pattern caught."""

    world: World
    settings: dict[str, Any]
    caller: Caller
    asked: str
    parameters: dict[str, str]
    parts: tuple[str, ...]

    @property
    def guest(self) -> guests.Guest:
        return guests.find(self.world.box, self.settings, self.parts[0], self.parts[1])

    def require_vm(self, *wanted: str) -> None:
        if not self.parts[1].isdecimal():
            raise bad_parameter(vmid=f"type check ('integer') failed - got '{self.parts[1]}'")
        require(self.settings, self.caller, f"/vms/{self.parts[1]}", *wanted)

    def may(self, path: str, privilege: str) -> bool:
        return privilege in access.privileges(self.settings, self.caller, path)


class World:
    """The box as the stand-in serves it."""

    def __init__(self, box: Layout) -> None:
        self.box = box
        self.tickets = Tickets()
        self.tasks = Tasks()

    @property
    def settings_path(self) -> Path:
        return self.box.state / "api.json"

    def answer(self, caller: Caller, asked: str, method: str, path: str, parameters: dict[str, str]) -> Any:
        """The ``data`` of an answer; raises `Refusal`."""
        given = settings.load(self.settings_path)
        for wanted, pattern, run in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and wanted == method:
                parts = list(match.groups())
                if path.startswith("/nodes/"):
                    parts[0] = asked if parts[0] == "localhost" else parts[0]
                    self._proxied(given, parts[0], asked)
                return run(Request(self, given, caller, asked, parameters, tuple(parts)))
        raise Refusal(501, f"Method '{method} {path}' not implemented")

    def _proxied(self, given: dict[str, Any], node: str, asked: str) -> None:
        if node not in [one.name for one in self.box.nodes]:
            reason = f"failed to get address info for: {node}: Name or service not known"
            raise Refusal(500, f"hostname lookup '{node}' failed - {reason}")
        if node in given["offline"] and node != asked:
            raise Refusal(595, "No route to host", empty=True)


def version(request: Request) -> dict[str, str]:
    return {"version": "9.2.11", "release": "9.2", "repoid": "0123456789abcdef"}


def permissions(request: Request) -> dict[str, dict[str, int]]:
    return access.permissions(request.settings, request.caller)


def nodes(request: Request) -> list[dict[str, object]]:
    offline = request.settings["offline"]
    return [
        {
            "node": node.name,
            "id": f"node/{node.name}",
            "type": "node",
            "status": "offline" if node.name in offline else "online",
            "level": "",
        }
        for node in request.world.box.nodes
    ]


def cluster_status(request: Request) -> list[dict[str, object]]:
    require(request.settings, request.caller, "/", "Sys.Audit")
    return guests.cluster_status(request.world.box, request.settings, request.asked)


def resources(request: Request) -> list[dict[str, object]]:
    kind = request.parameters.get("type")
    if kind not in (None, "vm", "storage", "node", "sdn"):
        raise bad_parameter(type=f"value '{kind}' does not have a value in the enumeration 'vm, storage, node, sdn'")
    rows = []
    for guest in guests.guests(request.world.box, request.settings) if kind in (None, "vm") else ():
        if request.may(f"/vms/{guest.vmid}", "VM.Audit"):
            row = guests.resource(guest, request.settings)
            if not request.may(f"/pool/{row.get('pool')}", "Pool.Audit"):
                row.pop("pool", None)
            rows.append(row)
    return rows + (nodes(request) if kind in (None, "node") else [])


def containers_of_node(request: Request) -> list[dict[str, object]]:
    found = guests.guests(request.world.box, request.settings)
    here = [guest for guest in found if guest.kind == "lxc" and guest.node == request.parts[0]]
    return [guests.status(guest) for guest in here if request.may(f"/vms/{guest.vmid}", "VM.Audit")]


def audited(show: Callable[[Request], Any]) -> Callable[[Request], Any]:
    def run(request: Request) -> Any:
        request.require_vm("VM.Audit")
        return show(request)

    return run


def feature(request: Request) -> dict[str, int]:
    return {"hasFeature": int(snapshots.able(request.guest.conf, request.settings))}


def set_config(request: Request) -> None:
    if any(re.fullmatch(r"dev\d+", key) for key in request.parameters) and not request.caller.literal_root:
        reason = "configuring device passthrough is only allowed for root@pam"
        raise Refusal(403, f"Permission check failed ({reason})")
    raise Refusal(501, "The testbed's stand-in of the API changes no configuration: use pct on the node")


def task(kind: str, *privileges: str) -> Callable[[Callable[[Request], Callable[[], None]]], Callable[[Request], str]]:
    """A route that answers with an UPID; the decorated function checks the request and returns the work."""

    def decorate(prepare: Callable[[Request], Callable[[], None]]) -> Callable[[Request], str]:
        def run(request: Request) -> str:
            request.require_vm(*privileges)
            work = prepare(request)
            return request.world.tasks.run(request.parts[0], kind, request.parts[1], request.caller, work)

        return run

    return decorate


def _container(request: Request) -> snapshots.Container:
    return snapshots.Container(request.world.box, request.settings, request.parts[0], request.parts[1])


@task("vzsnapshot", "VM.Snapshot")
def create_snapshot(request: Request) -> Callable[[], None]:
    name = snapshots.check_name(request.parameters.get("snapname"))
    text = request.parameters.get("description", "")
    return lambda: snapshots.create(_container(request), name, text)


@task("vzrollback", "VM.Snapshot", "VM.Snapshot.Rollback")
def rollback(request: Request) -> Callable[[], None]:
    start = _boolean(request, "start")
    return lambda: snapshots.rollback(_container(request), request.parts[2], start)


@task("vzdelsnapshot", "VM.Snapshot")
def delete_snapshot(request: Request) -> Callable[[], None]:
    return lambda: snapshots.delete(_container(request), request.parts[2])


def power(action: str, kind: str) -> Callable[[Request], str]:
    @task(kind, "VM.PowerMgmt")
    def run(request: Request) -> Callable[[], None]:
        guest = request.guest
        if action == "start" and guest.running:
            raise Refusal(500, f"CT {guest.vmid} already running")
        if action != "start" and not guest.running:
            raise Refusal(500, f"CT {guest.vmid} not running")
        node = request.world.box.node(request.parts[0])
        return lambda: snapshots.pct(node, "start" if action == "start" else "stop", guest.vmid)

    return run


def task_status(request: Request) -> dict[str, object]:
    return _own_task(request).status()


def task_log(request: Request) -> list[dict[str, object]]:
    return [{"n": number, "t": line} for number, line in enumerate(_own_task(request).log, 1)]


def _own_task(request: Request) -> Any:
    found = request.world.tasks.find(request.parts[1], request.parts[0])
    if found.caller.who != request.caller.who and found.caller.user != request.caller.who:
        require(request.settings, request.caller, f"/nodes/{request.parts[0]}", "Sys.Audit")
    return found


def _boolean(request: Request, name: str) -> bool:
    text = request.parameters.get(name, "0")
    if text not in ("0", "1"):
        raise Refusal(400, "Parameter verification failed.", {name: f"type check ('boolean') failed - got '{text}'"})
    return text == "1"


CT = r"/nodes/([^/]+)/lxc/([^/]+)"
ROUTES: list[tuple[str, str, Callable[[Request], Any]]] = [
    ("GET", "/version", version),
    ("GET", "/access/permissions", permissions),
    ("GET", "/nodes", nodes),
    ("GET", "/cluster/status", cluster_status),
    ("GET", "/cluster/resources", resources),
    ("GET", "/nodes/([^/]+)/lxc", containers_of_node),
    ("GET", f"{CT}/config", audited(lambda r: guests.config(r.guest, _boolean(r, "current")))),
    ("GET", f"{CT}/pending", audited(lambda r: guests.pending(r.guest))),
    ("GET", f"{CT}/feature", audited(feature)),
    ("GET", f"{CT}/status/current", audited(lambda r: {**guests.status(r.guest), "ha": {"managed": 0}})),
    ("GET", f"{CT}/snapshot", audited(lambda r: guests.snapshots(r.guest))),
    ("GET", f"{CT}/snapshot/([^/]+)/config", audited(lambda r: guests.snapshot_config(r.guest, r.parts[2]))),
    ("PUT", f"{CT}/config", set_config),
    ("POST", f"{CT}/snapshot", create_snapshot),
    ("POST", f"{CT}/snapshot/([^/]+)/rollback", rollback),
    ("DELETE", f"{CT}/snapshot/([^/]+)", delete_snapshot),
    ("POST", f"{CT}/status/start", power("start", "vzstart")),
    ("POST", f"{CT}/status/stop", power("stop", "vzstop")),
    ("POST", f"{CT}/status/shutdown", power("shutdown", "vzshutdown")),
    ("GET", "/nodes/([^/]+)/tasks/([^/]+)/status", task_status),
    ("GET", "/nodes/([^/]+)/tasks/([^/]+)/log", task_log),
]
