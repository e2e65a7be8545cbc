# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supervisor's report and what it means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _pct_outcome
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._pct_outcome import Report

END = "pct_exec-end-00112233445566778899aabbccddeeff"


def written(fields: dict[str, str]) -> bytes:
    lines = [f"{name}={value.encode().hex()}" for name, value in fields.items()]
    return "\n".join([END, *lines, "end", ""]).encode()


@given(st.binary(max_size=300), st.text(max_size=50))
def test_the_report_is_split_off_and_the_rest_stays_exact(stderr: bytes, text: str) -> None:
    fields = {"rc": "3", "started": "1", "method": "pct", "fell": "1", "sudo": "2", "text": text}
    rest, report = _pct_outcome.split_report(stderr + written(fields) + b"debug1: from ssh\n", END)
    assert rest == stderr
    assert report == Report(rc=3, started=True, method="pct", fell=True, sudo=True, text=text.strip())


@given(st.integers(0, 200))
def test_a_report_that_was_cut_off_is_none(length: int) -> None:
    whole = written({"rc": "0", "started": "1", "method": "lxc-attach", "fell": "0", "state": ""})
    cut = whole[: min(length, len(whole) - 2)]
    rest, report = _pct_outcome.split_report(b"said" + cut, END)
    assert report is None
    assert rest.startswith(b"said")


@pytest.mark.parametrize(
    ("vmlist", "conf", "place"),
    [
        ('{ "node": "pve2", "type": "lxc", "version": 39 }', "", (True, "pve2", "lxc")),
        ('{ "node": "pve1", "type": "qemu", "version": 44 }', "", (True, "pve1", "qemu")),
        ("{}", "", (True, "", "")),
        ("", "/etc/pve/nodes/pve3/lxc/200.conf", (True, "pve3", "lxc")),
        ("", "/etc/pve/nodes/pve3/qemu-server/200.conf", (True, "pve3", "qemu")),
        ("", "", (False, "", "")),
        ("not json", "", (False, "", "")),
    ],
)
def test_the_place_of_a_guest(vmlist: str, conf: str, place: tuple[bool, str, str]) -> None:
    assert _pct_outcome.place_of(vmlist, conf) == place


HERE = '{"node": "pve1", "type": "lxc"}'
AWAY = '{"node": "pve2", "type": "lxc"}'
VM = '{"node": "pve1", "type": "qemu"}'
NOT_STARTED = Report(rc=1, started=False, method="lxc-attach", fell=False, sudo=False, host="pve1")
STARTED = Report(rc=137, started=True, method="lxc-attach", fell=False, sudo=False, host="pve1")


@pytest.mark.parametrize(
    ("report", "changes", "outcome"),
    [
        (STARTED, {}, None),
        (STARTED, {"rc": 255, "state": "RUNNING"}, None),
        (STARTED, {"state": "STOPPED", "vmlist": HERE}, "stopped"),
        (STARTED, {"state": "", "vmlist": AWAY}, None),
        (STARTED, {"state": "STOPPED", "vmlist": AWAY}, "elsewhere"),
        (STARTED, {"state": "RESTARTED"}, "restarted"),
        (STARTED, {"state": "FROZEN"}, "frozen"),
        (NOT_STARTED, {"state": "STOPPED", "vmlist": HERE}, "stopped"),
        (NOT_STARTED, {"state": "", "vmlist": HERE}, "stopped"),
        (NOT_STARTED, {"state": "STARTING", "vmlist": HERE}, "stopped"),
        (NOT_STARTED, {"state": "", "vmlist": AWAY}, "elsewhere"),
        (NOT_STARTED, {"state": "", "conf": "/etc/pve/nodes/pve2/lxc/200.conf"}, "elsewhere"),
        (NOT_STARTED, {"state": "", "vmlist": VM}, "not_a_container"),
        (NOT_STARTED, {"state": "", "vmlist": "{}"}, "missing"),
        (NOT_STARTED, {"state": ""}, "missing"),
        (NOT_STARTED, {"state": "", "sudo": True}, "missing"),
        (NOT_STARTED, {"state": "", "sudo": True, "refused": True, "vmlist": HERE}, "refused"),
        (NOT_STARTED, {"state": "FROZEN", "vmlist": HERE}, "frozen"),
        (NOT_STARTED, {"state": "SILENT"}, "silent"),
        (NOT_STARTED, {"state": "RUNNING", "rc": 127, "vmlist": HERE}, "no_shell"),
        (NOT_STARTED, {"state": "RUNNING", "rc": 1, "vmlist": HERE, "text": "lxc-attach: no"}, "refused"),
    ],
)
def test_each_outcome_is_told_apart(report: Report, changes: dict[str, object], outcome: str | None) -> None:
    found = _pct_outcome.classify(report._replace(**changes), 200)  # type: ignore[arg-type]
    assert (found[0] if found else None) == outcome
    if found:
        assert "200" in found[1] or outcome == "refused"
        assert found[1].endswith((".", ")"))
        assert "\n" not in found[1]
        if outcome == "elsewhere":
            assert "pve2" in found[1]


@given(
    st.builds(
        Report,
        rc=st.integers(-1, 255),
        started=st.booleans(),
        method=st.sampled_from(["lxc-attach", "pct"]),
        fell=st.booleans(),
        sudo=st.booleans(),
        refused=st.booleans(),
        state=st.sampled_from(["", "RUNNING", "STOPPED", "FROZEN", "SILENT", "RESTARTED", "ABORTING"]),
        host=st.sampled_from(["", "pve1"]),
        vmlist=st.sampled_from(["", "{}", HERE, AWAY, VM, "junk"]),
        conf=st.sampled_from(["", "/etc/pve/nodes/pve1/lxc/200.conf", "/x"]),
        text=st.text(max_size=30),
    )
)
def test_only_a_command_that_ran_to_its_end_is_no_failure(report: Report) -> None:
    found = _pct_outcome.classify(report, 200)
    assert (found is None) == (report.started and report.state in ("", "RUNNING"))
    if found:
        assert found[1].strip()
