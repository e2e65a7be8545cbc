# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""lxc_hosts against the API stand-in of the box: each way in, each privilege missing, each fault."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import client, state
from testbed.api_standin import certificates
from testbed.layout import CHECKOUT
from tests.integration import inventory_cluster
from tests.integration.api import NOBODY, Api
from tests.integration.box import Box
from tests.integration.inventory_cluster import FIRST, NAMELESS, SECOND

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("api_alone")]
AUDIT = ["VM.Audit", "Sys.Audit", "Pool.Audit"]


@pytest.fixture(scope="module")
def cluster(box: Box) -> Iterator[Box]:
    with inventory_cluster.made(box) as made:
        yield made


@pytest.fixture
def api(cluster: Box, tmp_path: Path) -> Api:
    return Api(cluster, tmp_path)


def permissions(api: Api, *entries: tuple[str, list[str]]) -> list[dict[str, Any]]:
    """An access list: these paths and privileges for the reader and its token."""
    who = ("reader@pve", "reader@pve!inventory")
    return [{"path": path, "who": one, "privileges": names} for path, names in entries for one in who]


def by_ticket(api: Api) -> dict[str, Any]:
    return {"api_token_id": None, "api_token_secret": None, "api_password": api.accounts["reader@pve"]["password"]}


# --- the ways in


def test_by_ticket(api: Api) -> None:
    assert f"ct{FIRST}" in api.inventory(**by_ticket(api)).hosts


def test_by_fingerprint(api: Api) -> None:
    pin: dict[str, Any] = {"api_ca_file": None, "api_fingerprint": certificates.fingerprint(api.box.layout)}
    for way in ({}, by_ticket(api)):
        listed = api.inventory(**pin, **way)
        assert f"ct{FIRST}" in listed.hosts and "Insecure" not in listed.said


def test_by_pvesh_over_ssh(api: Api) -> None:
    words = [*client.ssh_options(api.box.layout), "-p", str(api.ports["sshd pve2"])]
    listed = api.inventory(api_backend="ssh", api_user="root", api_ssh_arguments=words)
    assert {f"ct{FIRST}", f"ct{SECOND}"} <= listed.group("gpu")


def test_by_pvesh_on_the_node_itself(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pvesh of the node, put on this machine's PATH for once."""
    program = tmp_path / "bin" / "pvesh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncd {CHECKOUT}\nexec {sys.executable} -m testbed exec pve1 -- pvesh "$@"\n')
    program.chmod(0o755)
    monkeypatch.setitem(api.box.environment, "PATH", f"{program.parent}:{os.environ['PATH']}")
    listed = api.inventory(api_backend="pvesh", filters=[f"pve_vmid in [{FIRST}, {SECOND}]"])
    assert listed.group("gpu") == {f"ct{FIRST}", f"ct{SECOND}"}


# --- what the token may not see


def test_without_any_right(api: Api) -> None:
    listed = api.inventory(**api.access(NOBODY))
    assert listed.hosts == {}
    assert "token nobody@pve!none lacks VM.Audit on /vms, so of the cluster's containers it sees none" in listed.said
    assert "lacks Sys.Audit on /" in listed.said


def test_one_container_alone(api: Api) -> None:
    with api.with_settings(acl=permissions(api, (f"/vms/{FIRST}", ["VM.Audit"]))):
        listed = api.inventory()
    assert set(listed.hosts) == {f"ct{FIRST}"}
    assert "it sees only 1 that it was given one by one" in listed.said


def test_without_sys_audit_the_map_gives_addresses(api: Api) -> None:
    with api.with_settings(acl=permissions(api, ("/vms", ["VM.Audit"]), ("/pool", ["Pool.Audit"]))):
        listed = api.inventory()
        bare = api.inventory(node_addresses=None)
    assert "lacks Sys.Audit on /, so the nodes' addresses are not known" in listed.said
    assert listed.hosts[f"ct{SECOND}"]["ansible_host"] == "127.0.0.1"
    assert bare.hosts[f"ct{SECOND}"]["ansible_host"] == "pve2"


def test_without_pool_audit(api: Api) -> None:
    with api.with_settings(acl=permissions(api, ("/", ["VM.Audit", "Sys.Audit"])), pools={"train": [int(FIRST)]}):
        listed = api.inventory()
    assert "lacks Pool.Audit on /pool" in listed.said
    assert listed.group("pool_train") == set()


def test_a_token_has_no_more_than_its_own_and_its_users_rights(api: Api) -> None:
    entries = [{"path": "/", "who": "reader@pve", "privileges": AUDIT}]
    with api.with_settings(acl=entries):
        listed = api.inventory()
    assert listed.hosts == {}
    assert "a token with privilege separation alike" in listed.said


# --- what goes wrong: one sentence each


def refused(listed: Any) -> str:
    """The sentence of an inventory that could not be read."""
    assert listed.rc != 0
    assert "Traceback" not in listed.said
    said: str = listed.said
    return said


@pytest.fixture(scope="module")
def wrong(cluster: Box, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ansible-inventory says to each of many sources that are wrong in one thing, all in one run."""
    words = [*client.ssh_options(cluster.layout), "-p", str(state.load_ports(cluster.layout)["sshd pve1"])]
    by_ssh: dict[str, Any] = {"api_backend": "ssh", "api_ssh_arguments": words}
    sources: dict[str, dict[str, Any]] = {
        "token": {"api_token_secret": "00000000-0000-4000-8000-000000000000"},
        "ticket and port": {**by_ticket(Api(cluster, Path())), "api_port": 1},
        "password": {"api_token_id": None, "api_token_secret": None, "api_password": "hunter2"},
        "fingerprint": {"api_fingerprint": certificates.fingerprint(cluster.layout, "foreign")},
        "port": {"api_port": 1},
        "no host": {"api_host": None},
        "no realm": {"api_user": "reader"},
        "no secret": {"api_token_secret": None},
        "no login": {**by_ssh, "api_user": "nobody"},
        "no sudoers line": {**by_ssh, "api_user": "ansible", "api_sudo": True},
        "no pvesh": {"api_backend": "pvesh"},
    }
    api = Api(cluster, tmp_path_factory.mktemp("wrong"))
    with api.with_settings():
        said = api.refusals(sources)
    assert "00000000-0000" not in "".join(said.values()) and "hunter2" not in "".join(said.values())
    return said


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("token", "does not accept token reader@pve!inventory (Authentication failed!)"),
        ("password", "does not accept the password of user reader@pve (authentication failure)"),
        ("fingerprint", "has another fingerprint than the configured one"),
        ("port", "is not to be reached (nothing listens there)"),
        ("ticket and port", "is not to be reached (nothing listens there)"),
        ("no host", "api_host is not set"),
        ("no realm", "give user@realm"),
        ("no secret", "Neither api_token_id with api_token_secret nor api_password"),
        ("no login", "ssh to 127.0.0.1 failed: nobody@127.0.0.1: Permission denied (publickey)"),
        ("no sudoers line", "login ansible may not run pvesh through sudo on 127.0.0.1"),
        ("no pvesh", "pvesh on this node has no such program"),
    ],
)
def test_what_is_wrong_with_a_source(wrong: dict[str, str], what: str, sentence: str) -> None:
    assert sentence in wrong[what]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("expired", "has expired; renew it on the node"), ("foreign", "signed by an authority that is not trusted here")],
)
def test_certificates(api: Api, kind: str, sentence: str) -> None:
    with api.with_settings(certificate=kind):
        said = api.refusals({"token": {}, "ticket": by_ticket(api)})
    assert sentence in said["token"] and sentence in said["ticket"]


@pytest.mark.parametrize("fault", ["cut", "html", "empty", "close", "half"])
def test_half_an_answer(api: Api, fault: str) -> None:
    with api.with_settings(broken={"/cluster/resources|/access/ticket": fault}):
        said = api.refusals({"token": {}, "ticket": by_ticket(api)})
    assert "gave half an answer to /cluster/resources" in said["token"]
    assert "gave half an answer to /access/ticket" in said["ticket"]


def test_no_answer_in_time(api: Api) -> None:
    with api.with_settings(slow={"/cluster/resources|/access/ticket": 3}):
        said = api.refusals({"token": {"api_timeout": 1}, "ticket": {**by_ticket(api), "api_timeout": 1}})
    assert "gave no answer to /cluster/resources in time" in said["token"]
    assert "gave no answer to /access/ticket in time" in said["ticket"]


def test_a_node_that_is_offline(api: Api) -> None:
    with api.with_settings(offline=["pve2"]):
        listed = api.inventory()
    assert f"ct{SECOND}" in listed.hosts
    assert "Node pve2 is offline: its containers (" in listed.said
    assert f"ct{SECOND}" in listed.group("gpu_unknown")


def test_a_node_that_went_away_in_between(api: Api) -> None:
    words = [*client.ssh_options(api.box.layout), "-p", str(api.ports["sshd pve1"])]
    by_ssh = {"api_backend": "ssh", "api_user": "root", "api_ssh_arguments": words}
    with api.with_settings(broken={"/nodes/pve2/lxc/.*/config": "595"}):
        for way in ({}, by_ssh):
            listed = api.inventory(filters=[f"pve_vmid in [{FIRST}, {SECOND}, {NAMELESS}]"], **way)
            assert f"{SECOND}, {NAMELESS} is not known: Node pve2 does not answer " in listed.said
            assert f"ct{FIRST}" in listed.group("gpu")
