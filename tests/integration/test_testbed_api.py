# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API stand-in and pvesh answer as the real ones were seen to: status, reason phrase, body, exit code."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.api import KEEPER, NOBODY, READER, Api
from tests.integration.box import Box

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("api_alone")]


class Client:
    """Plain https, verified by the box's CA. ``get("/version")`` → (status, reason, body as text)."""

    def __init__(self, api: Api, node: str = "pve1") -> None:
        self.api = api
        self.port = api.ports[f"api {node}"]
        self.context = ssl.create_default_context(cafile=str(api.box.layout.client / "pve-root-ca.pem"))

    def ask(self, method: str, path: str, headers: dict[str, str], **parameters: Any) -> tuple[int, str, str]:
        words = urllib.parse.urlencode(parameters)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=self.context)
        target = f"/api2/json{path}" + (f"?{words}" if words and method == "GET" else "")
        connection.request(method, target, words if method == "POST" else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.reason, answer.read().decode()

    def token(self, token: tuple[str, str]) -> dict[str, str]:
        secret = self.api.accounts[token[0]]["tokens"][token[1]]["secret"]
        return {"Authorization": f"PVEAPIToken={token[0]}!{token[1]}={secret}"}

    def get(self, path: str, token: tuple[str, str] = READER, **parameters: Any) -> tuple[int, str, str]:
        return self.ask("GET", path, self.token(token), **parameters)

    def data(self, path: str, token: tuple[str, str] = READER, **parameters: Any) -> Any:
        status, reason, body = self.get(path, token, **parameters)
        assert status == 200, reason
        return json.loads(body)["data"]


@pytest.fixture
def api(box: Box, tmp_path: Path, quick_pct: None) -> Iterator[Api]:
    yield Api(box, tmp_path)


@pytest.fixture
def client(api: Api) -> Client:
    return Client(api)


def test_nothing_sent_is_an_empty_401_after_a_while(api: Api, client: Client) -> None:
    with api.with_settings():
        assert client.ask("GET", "/version", {}) == (401, "No ticket", "")
        wrong = {"Authorization": "PVEAPIToken=reader@pve!inventory=wrong"}
        assert client.ask("GET", "/version", wrong) == (401, "Authentication failed!", "")
    began = time.monotonic()
    assert client.ask("GET", "/version", {})[0] == 401
    assert time.monotonic() - began > 2.9


def test_a_ticket_and_its_csrf_token(api: Api, client: Client) -> None:
    password = api.accounts["reader@pve"]["password"]
    status, _reason, body = client.ask("POST", "/access/ticket", {}, username="reader@pve", password=password)
    ticket = json.loads(body)["data"]
    cookie = {"Cookie": f"PVEAuthCookie={ticket['ticket']}"}
    assert (status, client.ask("GET", "/version", cookie)[0]) == (200, 200)
    with api.with_settings():
        said = client.ask("POST", "/nodes/pve1/lxc/200/snapshot", cookie, snapname="x")
        assert said == (401, "Permission denied - invalid csrf token", "")
        said = client.ask("POST", "/access/ticket", {}, username="reader@pve", password="wrong")
        assert (said[0], said[1]) == (401, "authentication failure")
    csrf = {**cookie, "CSRFPreventionToken": ticket["CSRFPreventionToken"]}
    assert client.ask("POST", "/nodes/pve1/lxc/200/snapshot", csrf, snapname="x")[0] == 403


def test_how_it_says_no(client: Client) -> None:
    status, reason, body = client.get("/nodes/pve1/lxc/200/config", NOBODY)
    assert (status, reason) == (403, "Permission check failed (/vms/200, VM.Audit)")
    assert json.loads(body) == {"data": None, "message": f"{reason}\n"}
    missing = "Configuration file 'nodes/pve1/lxc/999.conf' does not exist"
    assert client.get("/nodes/pve1/lxc/999/config")[:2] == (500, missing)
    assert client.get("/nodes/pve1/lxc/200/nothing")[0] == 501
    assert "hostname lookup 'nope' failed" in client.get("/nodes/nope/lxc")[1]
    status, reason, body = client.get("/cluster/resources", type="foo")
    assert (status, reason) == (400, "Parameter verification failed.")
    assert "does not have a value in the enumeration" in json.loads(body)["errors"]["type"]
    assert client.get("/nodes/pve1/lxc/200/config", current="True")[0] == 400  # a boolean is 0 or 1


def test_what_one_may_not_see_is_left_out(client: Client) -> None:
    assert client.data("/cluster/resources", NOBODY, type="vm") == []
    assert client.data("/access/permissions", NOBODY) == {}
    assert client.data("/nodes/pve1/lxc", NOBODY) == []


def test_order_is_random(client: Client) -> None:
    """Of keys and of lists; what is told is the same."""
    bodies = {client.get("/cluster/status")[2] for _ in range(8)}
    assert len(bodies) > 1
    told = {json.dumps(sorted(json.loads(body)["data"], key=lambda row: row["id"]), sort_keys=True) for body in bodies}
    assert len(told) == 1


def test_a_node_that_is_off(api: Api, client: Client) -> None:
    with api.with_settings(offline=["pve2"]):
        assert client.get("/nodes/pve2/lxc") == (595, "No route to host", "")
        rows = {row["name"]: row["online"] for row in client.data("/cluster/status") if row["type"] == "node"}
    assert rows == {"pve1": 1, "pve2": 0}


def test_either_node_answers_for_both(api: Api) -> None:
    first, second = Client(api, "pve1"), Client(api, "pve2")
    assert {row["vmid"] for row in first.data("/cluster/resources", type="vm")} == {
        row["vmid"] for row in second.data("/cluster/resources", type="vm")
    }
    local = {row["name"] for row in second.data("/cluster/status") if row.get("local")}
    assert local == {"pve2"}


def test_only_the_task_of_a_locked_container_fails(api: Api, client: Client) -> None:
    api.box.node("pct", "set", "202", "--lock", "backup")
    try:
        status, _reason, body = client.ask("POST", "/nodes/pve1/lxc/202/snapshot", client.token(KEEPER), snapname="x")
    finally:
        task = json.loads(body)["data"]
        while (found := client.data(f"/nodes/pve1/tasks/{task}/status", KEEPER))["status"] == "running":
            time.sleep(0.05)
        api.box.node("pct", "unlock", "202")
    assert (status, found["exitstatus"]) == (200, "CT is locked (backup)")
    assert client.data(f"/nodes/pve1/tasks/{task}/log", KEEPER)[-1]["t"] == "TASK ERROR: CT is locked (backup)"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("get", "/nodes/pve1/lxc/999/config"), 2, "Configuration file 'nodes/pve1/lxc/999.conf' does not exist"),
        (("get", "/nosuch"), 1, "No 'get' handler defined for '/nosuch'"),
        (("create", "/nodes/pve1/lxc/200/snapshot"), 255, "400 Parameter verification failed."),
        (("get", "/version", "-bogus"), 255, "Unknown option: bogus"),
        (("create", "/nodes/pve1/lxc/202/snapshot/none/rollback"), 0, "snapshot 'none' does not exist"),
    ],
)
def test_pvesh(api: Api, words: tuple[str, ...], code: int, said: str) -> None:
    done = api.box.node("pvesh", *words)
    assert done.returncode == code
    assert said in done.stderr
    if code == 0:
        assert done.stdout.startswith('"UPID:pve1:')


def test_pvesh_is_root_and_sorts_its_keys(api: Api) -> None:
    done = api.box.node("pvesh", "get", "/nodes/pve2/lxc", "--output-format", "json", on="pve2")
    assert done.returncode == 0 and done.stderr == ""
    assert api.box.node_ssh("pvesh get /version", user="ansible").returncode == 255


def test_the_second_node_is_one_of_its_own(box: Box) -> None:
    box.testbed("create", "340", "--node", "pve2")
    try:
        assert box.node("hostname", on="pve2").stdout == "pve2\n"
        assert "340" in box.node("ls", "/etc/pve/local/lxc", on="pve2").stdout
        assert "340" not in box.node("ls", "/etc/pve/local/lxc").stdout
        assert box.attach(340, "touch /root/kept; hostname").stdout == "ct340\n"
        box.testbed("migrate", "340", "pve1")
        assert "340" in box.node("ls", "/etc/pve/lxc/").stdout
        assert box.attach(340, "ls /root").stdout == "kept\n"
        assert json.loads((box.layout.pve / ".vmlist").read_text())["ids"]["340"]["node"] == "pve1"
        box.node("touch", "/dev/testbed-own", on="pve2")
        assert not Path("/dev/testbed-own").exists()
    finally:
        box.testbed("remove", "340")
        box.node("rm", "-f", "/dev/testbed-own", on="pve2")
