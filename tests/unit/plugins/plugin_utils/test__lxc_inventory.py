# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts, variables and groups from the API's answers, and what is asked for them, with a fake API."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_access import Access, access_from
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_errors import FORBIDDEN, MISSING, ApiError
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _lxc_collect, _lxc_inventory

ROW: dict[str, Any] = {
    "vmid": 200,
    "type": "lxc",
    "node": "pve1",
    "status": "running",
    "name": "one",
    "tags": "ml;gpu",
    "pool": "train",
}


class FakeApi:
    """Answers by path; an ApiError is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "/cluster/status": [
                {"type": "cluster", "name": "lab"},
                node("pve1", "192.0.2.1"),
                node("pve2", "192.0.2.2"),
            ],
            "/access/permissions": {"/": {"VM.Audit": 1, "Pool.Audit": 1, "Sys.Audit": 1}},
            **answers,
        }
        self.access = Access(host="h", user="reader@pve", token_id="t", parallel=2)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def get(self, path: str, *keys: str, **parameters: Any) -> Any:
        self.asked.append((path, parameters))
        answer = self.answers[path]
        answer = answer.pop(0) if isinstance(answer, list) and answer and isinstance(answer[0], list) else answer
        if isinstance(answer, ApiError):
            raise answer
        return answer

    get_list = get_dict = get


def node(name: str, ip: str, online: int = 1) -> dict[str, Any]:
    return {"type": "node", "name": name, "ip": ip, "online": online}


def collect(api: FakeApi, pending: bool = False) -> Any:
    return _lxc_collect.collect(api, lambda row, nodes: True, pending)  # type: ignore[arg-type]


def test_a_running_one_is_asked_for_what_runs_and_a_stopped_one_for_its_next_start() -> None:
    rows = [ROW, ROW | {"vmid": 201, "status": "stopped"}, ROW | {"vmid": 300, "type": "qemu"}]
    api = FakeApi(**{"/cluster/resources": rows, "/nodes/pve1/lxc/200/config": {}, "/nodes/pve1/lxc/201/config": {}})
    collect(api)
    asked = dict(api.asked)
    assert asked["/nodes/pve1/lxc/200/config"] == {"current": 1}
    assert asked["/nodes/pve1/lxc/201/config"] == {}
    assert not any("300" in path for path in asked)


def test_pending_changes_are_told_apart() -> None:
    rows: list[dict[str, Any]] = [
        {"key": "memory", "value": 1, "pending": 2},
        {"key": "dev1", "value": "x", "delete": 1},
        {"key": "cores"},
    ]
    assert _lxc_collect.pending_changes(rows) == {"memory": 2, "dev1": None}


def test_a_container_that_moved_in_between_is_asked_for_at_its_new_node() -> None:
    api = FakeApi(
        **{
            "/cluster/resources": [[dict(ROW)], [ROW | {"node": "pve2"}]],
            "/nodes/pve1/lxc/200/config": ApiError("gone", MISSING),
            "/nodes/pve2/lxc/200/config": {"hostname": "one"},
        }
    )
    cluster = collect(api)
    assert cluster["containers"][0]["node"] == "pve2"
    assert cluster["containers"][0]["config"] == {"hostname": "one"}
    assert cluster["warnings"] == []


def test_an_offline_node_is_not_asked() -> None:
    api = FakeApi(**{"/cluster/status": [node("pve1", "192.0.2.1", online=0)], "/cluster/resources": [dict(ROW)]})
    cluster = collect(api)
    assert len(cluster["containers"]) == 1
    assert "Node pve1 is offline" in cluster["warnings"][0]
    assert not any("config" in path for path, _ in api.asked)


def test_a_forbidden_configuration_is_said_once_for_all() -> None:
    rows = [ROW | {"vmid": 200 + number} for number in range(12)]
    refusal = ApiError("token lacks the privilege VM.Audit", FORBIDDEN, ("/vms/200", "VM.Audit"))
    api = FakeApi(**{"/cluster/resources": rows, **{f"/nodes/pve1/lxc/{row['vmid']}/config": refusal for row in rows}})
    assert collect(api)["warnings"] == [
        "The configuration of containers 200, 201, 202, 203, 204, 205, 206, 207 and 4 more is not known: "
        "token lacks the privilege VM.Audit"
    ]


def test_addresses_by_map_status_and_name() -> None:
    nodes: dict[str, dict[str, Any]] = {
        "a": {"address": "192.0.2.1"},
        "b": {"address": "192.0.2.2"},
        "c": {"address": None},
    }
    found = _lxc_inventory.node_addresses(nodes, {"b": {"host": "10.0.0.2", "port": 2222}, "d": "10.0.0.4"})
    assert found == {
        "a": {"host": "192.0.2.1", "port": None},
        "b": {"host": "10.0.0.2", "port": 2222},
        "c": {"host": "c", "port": None},
        "d": {"host": "10.0.0.4", "port": None},
    }


def test_variables_of_a_guest_that_nothing_is_heard_of() -> None:
    found = _lxc_inventory.base_variables({"vmid": "300", "node": "b", "type": "lxc", "status": "unknown"}, {})
    assert (found["pct_vmid"], found["pve_name"], found["pve_status"]) == (300, "300", "unknown")
    assert "ansible_port" not in found


@pytest.mark.parametrize(
    ("gpu", "group"),
    [
        ({"how": "devices"}, "gpu_devices"),
        ({"how": "raw"}, "gpu_raw"),
        ({"how": "both"}, "gpu_both"),
        (None, "gpu_unknown"),
    ],
)
def test_groups(gpu: Any, group: str) -> None:
    variables = _lxc_inventory.base_variables(ROW, {}) | ({"pve_gpu": gpu} if gpu else {})
    names = _lxc_inventory.group_names(variables)
    assert {"node_pve1", "status_running", "tag_ml", "tag_gpu", "pool_train", group} <= set(names)
    assert ("gpu" in names) == (gpu is not None)


def test_a_container_without_a_gpu_is_in_no_group_of_gpus() -> None:
    variables = _lxc_inventory.base_variables(ROW, {}) | {"pve_gpu": {"how": "none"}}
    assert not [name for name in _lxc_inventory.group_names(variables) if name.startswith("gpu")]


def test_names() -> None:
    rows = [ROW, ROW | {"vmid": 201}, ROW | {"vmid": 202, "name": "two"}, {"vmid": 203}]
    names, said = _lxc_inventory.host_names(rows, "name")
    assert names == {200: "one-200", 201: "one-201", 202: "two", 203: "203"}
    assert said == ["2 containers are named one, so they are listed as one-200, one-201."]
    assert _lxc_inventory.host_names(rows, "id")[0] == {200: "200", 201: "201", 202: "202", 203: "203"}


def test_a_name_that_is_taken_or_means_something_else() -> None:
    """A container called localhost would otherwise be where delegate_to: localhost runs."""
    rows = [{"vmid": 200, "name": "web"}, {"vmid": 201, "name": "web"}, {"vmid": 202, "name": "web-200"}]
    names, said = _lxc_inventory.host_names([*rows, {"vmid": 203, "name": "localhost"}], "name")
    assert names == {200: "web-200-200", 201: "web-201", 202: "web-200-202", 203: "localhost-203"}
    assert said[0] == "A container named localhost is listed as localhost-203."


def test_a_token_in_the_users_name() -> None:
    access = access_from({"api_host": "h", "api_user": "reader@pve!inventory", "api_token_secret": "s"})
    assert (access.user, access.token_id, access.who) == ("reader@pve", "inventory", "token reader@pve!inventory")
