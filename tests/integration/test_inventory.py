# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""lxc_hosts against the API stand-in of the box: what is listed of both nodes, and what can be done with it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from testbed import pve_files
from testbed.layout import CHECKOUT
from tests.integration import inventory_cluster
from tests.integration.api import Api, Listed
from tests.integration.box import Box
from tests.integration.inventory_cluster import FIRST, NAMELESS, RAW, SECOND, write_conf

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("api_alone")]


@pytest.fixture(scope="module")
def cluster(box: Box) -> Iterator[Box]:
    with inventory_cluster.made(box) as made:
        yield made


@pytest.fixture
def api(cluster: Box, tmp_path: Path) -> Api:
    return Api(cluster, tmp_path)


# --- what is listed


@dataclass
class Plain:
    """One run without any option, and what it asked for."""

    listed: Listed
    requests: list[str]
    ports: dict[str, int]


@pytest.fixture(scope="module")
def plain(cluster: Box, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    api = Api(cluster, tmp_path_factory.mktemp("plain"))
    api.forget()
    with api.with_settings(pools={"train": [int(FIRST)]}):
        listed = api.inventory()
    return Plain(listed, api.requests(), api.ports)


def test_both_nodes_are_listed_with_what_the_connection_needs(plain: Plain) -> None:
    first, second = plain.listed.hosts[f"ct{FIRST}"], plain.listed.hosts[f"ct{SECOND}"]
    assert first["ansible_connection"] == "proxmox_gpu.training.pct_exec"
    assert (first["pct_vmid"], first["pve_node"], first["ansible_port"]) == (310, "pve1", plain.ports["sshd pve1"])
    assert (second["pct_vmid"], second["pve_node"], second["ansible_port"]) == (311, "pve2", plain.ports["sshd pve2"])
    assert (first["pve_name"], first["pve_status"], first["pve_tags"]) == ("ct310", "stopped", ["b", "a"])


def test_how_a_gpu_is_handed_in(plain: Plain) -> None:
    hosts = plain.listed.hosts
    first, second = hosts[f"ct{FIRST}"]["pve_gpu"], hosts[f"ct{SECOND}"]["pve_gpu"]
    assert (first["how"], first["gpus"]) == ("devices", [0])
    assert first["devices"] == {"dev0": "/dev/nvidia0,gid=44,mode=0660", "dev1": "/dev/nvidiactl"}
    assert (second["how"], second["gpus"]) == ("raw", [0])
    assert [tuple(pair) for pair in second["raw"]] == RAW  # repeated keys are all there, in their order
    assert hosts["ct200"]["pve_gpu"]["how"] == "none"


def test_groups(plain: Plain) -> None:
    listed = plain.listed
    assert listed.group("gpu") == {f"ct{FIRST}", f"ct{SECOND}"}
    assert listed.group("gpu_devices") == {f"ct{FIRST}"}
    assert listed.group("gpu_raw") == {f"ct{SECOND}"}
    assert listed.group("pool_train") == listed.group("tag_a") == {f"ct{FIRST}"}
    assert {f"ct{SECOND}"} <= listed.group("node_pve2") and f"ct{FIRST}" in listed.group("node_pve1")
    assert {"ct200", "ct201"} <= listed.group("status_running")


def test_few_requests(plain: Plain) -> None:
    assert plain.listed.rc == 0
    configurations = [line for line in plain.requests if "/config" in line]
    for vmid in (FIRST, SECOND, NAMELESS):
        assert sum(f"/lxc/{vmid}/config" in line for line in configurations) == 1
    assert sorted(set(plain.requests) - set(configurations)) == [
        "GET /access/permissions",
        "GET /cluster/resources?type=vm",
        "GET /cluster/status",
    ]


def test_filters_save_requests(api: Api) -> None:
    api.forget()
    listed = api.inventory(filters=["pve_node == 'pve1'", "pve_gpu.how != 'none'", "'a' in pve_tags"])
    assert set(listed.hosts) == {f"ct{FIRST}"}
    assert [line for line in api.requests() if "/config" in line] == [f"GET /nodes/pve1/lxc/{FIRST}/config"]


def test_compose_groups_and_keyed_groups(api: Api) -> None:
    listed = api.inventory(
        compose={"gpus": "pve_gpu.gpus | length"},
        groups={"trains": "'a' in pve_tags"},
        keyed_groups=[{"key": "pve_gpu.how", "prefix": "how"}],
    )
    assert listed.hosts[f"ct{FIRST}"]["gpus"] == 1
    assert listed.group("trains") == {f"ct{FIRST}"}
    assert listed.group("how_raw") == {f"ct{SECOND}"}


def test_strict_says_which_expression_is_wrong(api: Api) -> None:
    loose = api.inventory(filters=["no_such_variable == 1"])
    assert loose.hosts == {}
    strict = api.inventory(filters=["no_such_variable == 1"], strict=True)
    assert strict.rc != 0 and "The filter 'no_such_variable == 1' cannot be judged" in strict.said


def test_what_comes_from_the_cluster_is_never_a_template(api: Api) -> None:
    listed = api.inventory(want_config=True, compose={"seen": "pve_tags"})
    host = listed.hosts[f"ct{SECOND}"]
    assert host["pve_tags"] == host["seen"] == ["{{", "7", "*", "}}"]
    assert host["pve_config"]["description"] == "{{ lookup('pipe', 'id') }}"
    marked = listed.data["_meta"]["hostvars"][f"ct{SECOND}"]["pve_config"]["description"]
    assert set(marked) == {"__ansible_unsafe"}
    play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - ansible.builtin.debug: {var: pve_config.description}\n"
    source = api.write_source(want_config=True)
    result = api.box.run_playbook(play, f"ct{SECOND}", arguments=["-i", str(source)], environment=api.environment())
    assert "uid=0" not in result.output


def test_a_guest_without_a_name_gets_its_id(api: Api) -> None:
    with api.with_settings(no_broadcast=[NAMELESS]):
        hosts = api.inventory().hosts
    assert hosts[NAMELESS]["pct_vmid"] == int(NAMELESS)
    assert hosts[NAMELESS]["pve_status"] == "unknown"
    assert hosts[NAMELESS]["pve_gpu"]["how"] == "none"  # its configuration is there all the same


def test_two_of_one_name(api: Api) -> None:
    write_conf(api.box, "pve2", NAMELESS, hostname="twin")
    write_conf(api.box, "pve2", SECOND, raw=RAW, hostname="twin")
    try:
        listed = api.inventory()
    finally:
        write_conf(api.box, "pve2", NAMELESS, hostname=f"ct{NAMELESS}")
        write_conf(api.box, "pve2", SECOND, raw=RAW, hostname=f"ct{SECOND}", tags="{{ 7 * 7 }}")
    assert {f"twin-{SECOND}", f"twin-{NAMELESS}"} <= set(listed.hosts)
    assert "2 containers are named twin" in listed.said


def test_of_a_running_container_what_runs_and_what_waits(api: Api) -> None:
    """An added device waits for the next start here, as it does before Proxmox 9.0."""
    path = api.box.layout.nodes[0].pve_containers / "200.conf"
    before = path.read_text()
    conf = pve_files.parse_conf(before)
    pve_files.write_file(path, pve_files.format_conf(conf, None, pve_files.Pending({"dev0": "/dev/nvidia0"}, {"swap"})))
    try:
        host = api.inventory(read_pending=True).hosts["ct200"]
    finally:
        pve_files.write_file(path, before)
    assert host["pve_gpu"]["how"] == "none"
    assert host["pve_pending"] == {"dev0": "/dev/nvidia0", "swap": None}


def test_the_cache_saves_every_request(api: Api, tmp_path: Path) -> None:
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(tmp_path / "cache")}
    first = api.inventory(**cache)
    api.forget()
    assert api.inventory(**cache).hosts == first.hosts
    assert api.requests() == []
    api.inventory("--flush-cache", **cache)
    assert api.requests()


# --- as written down


@pytest.mark.parametrize("path", ["docs/guides/inventory.md", "inventories/cluster/lxc_hosts.yml"])
def test_an_example_as_written(api: Api, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """With this box's address in place of the example's; the secret comes from the environment, as it says."""
    text = (CHECKOUT / path).read_text()
    if path.endswith(".md"):
        text = textwrap.dedent(text.split("```yaml\n")[1].split("```")[0])
    here = {name: api.access()[name] for name in ("api_host", "api_port", "api_ca_file")}
    options = yaml.safe_load(text) | here | {"cache_connection": str(api.folder / "cache")}
    monkeypatch.setitem(api.box.environment, "PVE_TOKEN_SECRET", api.access()["api_token_secret"])
    assert api.inventory(**options).group("gpu") == {f"ct{FIRST}", f"ct{SECOND}"}


# --- a container that moves


MOVING = """\
- hosts: all
  gather_facts: false
  tasks:
    - {name: Before, ansible.builtin.raw: hostname}
    - name: Move
      ansible.builtin.command: {argv: [python3, -m, testbed, migrate, "313", "{{ to }}"], chdir: "{{ checkout }}"}
      delegate_to: localhost
      vars: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}
    - {name: After, ansible.builtin.raw: hostname}
"""


def test_a_move_in_mid_play(api: Api) -> None:
    """The play goes on where the container is now; without the option it says so, and where."""
    api.box.testbed("create", "313", "--node", "pve1")
    variables = {"checkout": str(CHECKOUT)}
    try:
        moved = api.playbook(MOVING, "ct313", variables | {"to": "pve2"})
        assert moved.returncode == 0, moved.stdout
        assert "Container 313 is on node pve2 now; the play goes on there." in moved.stdout + moved.stderr
        lost = api.playbook(MOVING, "ct313", variables | {"to": "pve1"}, follow_moved=False)
        assert "Container 313 is on node pve1, not on node pve2" in lost.stdout + lost.stderr
    finally:
        api.box.testbed("remove", "313")


def test_diagnose_finds_its_way_by_this_inventory_alone(api: Api) -> None:
    """On both nodes, one of them with a GPU handed in and stopped."""
    done = api.playbook("proxmox_gpu.training.diagnose", f"ct200,ct{SECOND}", {"diagnose_format": "json"})
    assert "base.python3_missing" in done.stdout, done.stdout + done.stderr
    assert f"Container {SECOND} on node pve2 is stopped" in done.stdout
