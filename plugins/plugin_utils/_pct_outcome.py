# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""What became of a command: read from the supervisor's report, never from what the container printed."""

from __future__ import annotations

import json
import typing as t

#: Outcomes that are not the command's own end.
STOPPED, MISSING, ELSEWHERE, NOT_A_CONTAINER = "stopped", "missing", "elsewhere", "not_a_container"
FROZEN, SILENT, RESTARTED, REFUSED, NO_SHELL = "frozen", "silent", "restarted", "refused", "no_shell"


class Report(t.NamedTuple):
    """The supervisor's report. state, host, vmlist, conf and text are empty where they were not asked for."""

    rc: int  # exit status of lxc-attach or pct exec; -1: it was not run or given up
    started: bool  # the start mark was seen: the command ran inside
    method: str  # lxc-attach or pct
    fell: bool  # lxc-attach was not permitted, pct was used instead
    sudo: bool  # the node's login is not root
    refused: bool = False  # sudo does not allow the login what the method needs
    state: str = ""  # RUNNING, STOPPED, FROZEN ... as lxc-info or pct say; SILENT, RESTARTED: seen by the supervisor
    host: str = ""  # the node's own name
    vmlist: str = ""  # this id's entry in /etc/pve/.vmlist as JSON, {} when it has none, empty when unreadable
    conf: str = ""  # config files of this id under /etc/pve/nodes
    init: str = ""  # pid, on the node, of the container's first process, where it was asked for
    text: str = ""  # what lxc-attach, pct or sudo printed before the start mark


class Place(t.NamedTuple):
    """Where the cluster keeps an id. node is empty when unknown."""

    known: bool
    node: str = ""
    kind: str = ""  # lxc or qemu


def split_report(stderr: bytes, end: str) -> tuple[bytes, Report | None]:
    """Take the report off the end of stderr. None: the supervisor wrote none, or it was cut off."""
    start = stderr.rfind(end.encode("ascii") + b"\n")
    if start < 0:
        return stderr, None
    fields: dict[str, str] = {}
    complete = False
    for line in stderr[start:].split(b"\n")[1:]:
        if line == b"end":
            complete = True
            break
        key, _sep, value = line.partition(b"=")
        try:
            fields[key.decode("ascii")] = bytes.fromhex(value.decode("ascii")).decode("utf-8", "replace")
        except ValueError:
            break
    if not complete:
        return stderr[:start], None
    return stderr[:start], Report(
        rc=int(fields.get("rc", "-1")),
        started=fields.get("started") == "1",
        method=fields.get("method", ""),
        fell=fields.get("fell") == "1",
        sudo=fields.get("sudo", "0") not in ("", "0"),
        refused=fields.get("refused") == "1",
        state=fields.get("state", ""),
        host=fields.get("host", "").strip(),
        vmlist=fields.get("vmlist", ""),
        conf=fields.get("conf", ""),
        init=fields.get("init", ""),
        text=fields.get("text", "").strip(),
    )


def place_of(vmlist: str, conf: str) -> Place:
    """Read where a guest is: from its entry in .vmlist, else from the path of its config file."""
    if vmlist:
        try:
            entry = json.loads(vmlist)
        except ValueError:
            entry = None
        if isinstance(entry, dict):
            return Place(True, str(entry.get("node", "")), str(entry.get("type", "")))
    for path in conf.split():
        parts = path.split("/")  # /etc/pve/nodes/NODE/lxc/200.conf
        if len(parts) == 7:
            return Place(True, parts[4], {"lxc": "lxc", "qemu-server": "qemu"}.get(parts[5], ""))
    return Place(False)


def classify(report: Report, vmid: int) -> tuple[str, str] | None:
    """Return None when the command ran to its own end, else (outcome, sentence)."""
    place = place_of(report.vmlist, report.conf)
    node = f"node {report.host}" if report.host else "the node"
    if report.started:
        return _cut_short(report, place, vmid, node)
    return _not_reached(report, place, vmid, node)


def _cut_short(report: Report, place: Place, vmid: int, node: str) -> tuple[str, str] | None:
    if report.state in ("", "RUNNING"):
        return None
    when = "while the command ran"
    if report.state == "RESTARTED":
        return RESTARTED, f"Container {vmid} was restarted {when}; nothing is known about the command's end."
    if report.state == "FROZEN":
        return FROZEN, f"Container {vmid} on {node} was frozen {when}; thaw it with `lxc-unfreeze -n {vmid}`."
    if place.node and place.node != report.host:
        return ELSEWHERE, f"Container {vmid} went to node {place.node} {when}; set ansible_host to that node."
    return STOPPED, f"Container {vmid} on {node} was stopped {when}; start it with `pct start {vmid}`."


def _not_reached(report: Report, place: Place, vmid: int, node: str) -> tuple[str, str]:
    said = _last(report.text) or f"exit status {report.rc}"
    container = f"Container {vmid} on {node}"
    if report.state == "FROZEN":
        return FROZEN, f"{container} is frozen; thaw it with `lxc-unfreeze -n {vmid}` (or `pct resume {vmid}`)."
    if report.refused:
        return REFUSED, (
            f"The login on {node} may not run {report.method} through sudo ({said}); "
            "add the sudoers line of the plugin's documentation, or log in as root."
        )
    if report.state == "SILENT":
        return SILENT, f"{container} took no command in time; look at its load, or raise pct_attach_timeout."
    if place.kind == "qemu":
        return NOT_A_CONTAINER, f"{vmid} is a virtual machine of node {place.node}, not a container; correct pct_vmid."
    if place.node and report.host and place.node != report.host:
        return ELSEWHERE, f"Container {vmid} is on node {place.node}, not on {node}; set ansible_host to that node."
    if report.state == "RUNNING":
        if report.rc in (126, 127):
            return NO_SHELL, f"{container} can't run /bin/sh and env: {said}."
        return REFUSED, f"{report.method} on {node} could not enter container {vmid}: {said}."
    if report.state == "STOPPED" or (not report.state and place.kind == "lxc"):
        return STOPPED, f"{container} is stopped; start it with `pct start {vmid}`."
    if report.state:
        return STOPPED, f"{container} is {report.state.lower()}, not running; look at `lxc-info -n {vmid}`."
    if place.known or not report.sudo:
        return MISSING, (
            f"Container {vmid} does not exist on {node}, nor elsewhere in its cluster; correct pct_vmid (`pct list`)."
        )
    return MISSING, f"Container {vmid} does not exist on {node}: {said}."


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else ""
