# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each fault of the API as one sentence, tasks to their end, and which snapshots are the collection's own."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _lxc_snapshots as snapshots
from ansible_collections.proxmox_gpu.training.plugins.module_utils import _pve_errors as errors
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_access import Access
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_api import Api

WHERE, WHO = "https://pve1:8006", "token reader@pve!inventory"


class ResourceException(Exception):
    """As proxmoxer's: status_code, content (the reason phrase), errors."""

    def __init__(self, status_code: int, content: Any, fields: Any = None) -> None:
        super().__init__(str(content))
        self.status_code, self.content, self.errors = status_code, content, fields


SSLError = type("SSLError", (Exception,), {})
ConnectionError_ = type("ConnectionError", (Exception,), {})
ReadTimeout = type("ReadTimeout", (Exception,), {})

FAULTS = [
    (ResourceException(401, "Authentication failed!"), errors.LOGIN, "does not accept token reader@pve!inventory"),
    (ResourceException(403, "Permission check failed (/vms/250, VM.Audit)"), errors.FORBIDDEN, "VM.Audit on /vms/250"),
    (
        ResourceException(403, "Permission check failed (/vms/2, VM.Snapshot|VM.Snapshot.Rollback)"),
        errors.FORBIDDEN,
        "VM.Snapshot or VM.Snapshot.Rollback on /vms/2",
    ),
    (ResourceException(595, "No route to host"), errors.OFFLINE, "Node pve2 does not answer"),
    (ResourceException(500, b"proxy handler failed: ssh: connect"), errors.OFFLINE, "Node pve2 does not answer"),
    (
        ResourceException(500, "Configuration file 'nodes/n1/lxc/9.conf' does not exist"),
        errors.MISSING,
        "does not exist",
    ),
    (
        ResourceException(400, "Parameter verification failed.", {"snapname": "invalid format\n"}),
        errors.REFUSED,
        "(400): snapname: invalid format.",
    ),
    (SSLError("certificate verify failed: certificate has expired (_ssl.c)"), errors.CERTIFICATE, "has expired"),
    (SSLError("certificate verify failed: self-signed certificate"), errors.CERTIFICATE, "pve-root-ca.pem"),
    (SSLError("certificate verify failed: Hostname mismatch"), errors.CERTIFICATE, "is not for that name"),
    (SSLError("Fingerprints did not match"), errors.CERTIFICATE, "another fingerprint"),
    (ConnectionError_("[Errno 111] Connection refused"), errors.UNREACHABLE, "nothing listens there"),
    (ConnectionError_("Name or service not known"), errors.UNREACHABLE, "the name is unknown"),
    (ConnectionError_("('Connection aborted.', RemoteDisconnected())"), errors.HALF, "half an answer"),
    (ReadTimeout("read timed out"), errors.UNREACHABLE, "no answer to /nodes/pve2/lxc/2/config in time"),
    (KeyError("data"), errors.HALF, "half an answer"),
]


@pytest.mark.parametrize(("fault", "kind", "words"), FAULTS)
def test_one_sentence_each(fault: Exception, kind: str, words: str) -> None:
    found = errors.explain(fault, WHERE, WHO, "/nodes/pve2/lxc/2/config")
    assert (found.kind, words in str(found)) == (kind, True), str(found)
    assert "\n" not in str(found) and str(found).endswith(".")


@given(st.integers(400, 599), st.text(), st.none() | st.dictionaries(st.text(), st.text()))
def test_whatever_it_says_there_is_a_sentence(status: int, text: str, fields: Any) -> None:
    found = errors.explain(ResourceException(status, text, fields), WHERE, WHO, "/version")
    assert str(found)


class FakeApi(Api):
    """Its tasks' states come from a list."""

    def __init__(self, *states: dict[str, Any], log: list[str] | None = None) -> None:
        self.states = list(states)
        self.log = log or []
        self.access = Access(host="pve1")

    def get(self, path: str, **parameters: Any) -> Any:
        if path.endswith("/log"):
            return [{"n": number, "t": line} for number, line in enumerate(self.log)]
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


UPID = "UPID:pve1:00004DDA:000C5695:6B0D8EB2:vzsnapshot:251:root@pam!t1:"
RUNNING = {"status": "running", "type": "vzsnapshot"}


@pytest.mark.parametrize("outcome", ["OK", "WARNINGS: 1"])
def test_a_task_that_ends_well(outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    FakeApi(RUNNING, {"status": "stopped", "exitstatus": outcome}).wait(UPID, 5)


def test_a_task_that_fails_tells_its_last_lines() -> None:
    ended = {"status": "stopped", "exitstatus": "lvcreate failed", "type": "vzsnapshot"}
    api = FakeApi(ended, log=["creating", "thin pool is full", "TASK ERROR: lvcreate failed"])
    with pytest.raises(
        errors.ApiError, match=re.escape("Task vzsnapshot failed: lvcreate failed (its log ends: creating")
    ):
        api.wait(UPID, 5)


def test_a_task_that_does_not_end() -> None:
    with pytest.raises(errors.ApiError, match="did not end within 0 s and goes on"):
        FakeApi(RUNNING).wait(UPID, 0)


def test_what_is_no_task() -> None:
    with pytest.raises(errors.ApiError, match="half an answer"):
        FakeApi(RUNNING).wait(None, 5)


def row(name: str, moment: int, own: bool = True) -> dict[str, Any]:
    return {"name": name, "snaptime": moment, "description": snapshots.description("x") if own else "mine"}


def test_only_its_own_are_too_many() -> None:
    rows = [row("provision-3", 3), row("provision-1", 1), row("provision-0", 0, own=False), row("other-2", 2)]
    assert [one["name"] for one in snapshots.ours(rows, "provision")] == ["provision-1", "provision-3"]
    assert snapshots.surplus(rows, "provision", 1) == ["provision-1"]
    assert snapshots.surplus(rows, "provision", 5) == []


@given(st.floats(0, 4e9))
def test_names_are_names_for_proxmox(moment: float) -> None:
    name = snapshots.new_name("provision", moment)
    assert re.fullmatch(r"[a-z][a-z0-9_-]+", name, re.IGNORECASE) and len(name) <= snapshots.LONGEST_NAME


@given(st.lists(st.integers(0, 2**31), min_size=2, unique=True))
def test_names_sort_by_time(moments: list[int]) -> None:
    names = [snapshots.new_name("provision", moment) for moment in sorted(moments)]
    assert names == sorted(names)
