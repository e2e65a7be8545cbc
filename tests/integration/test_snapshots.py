# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""lxc_snapshot through the API stand-in, whose snapshots are real: files and configuration are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import client
from tests.integration.api import KEEPER, READER, Api
from tests.integration.box import Box, Container
from tests.integration.playbook_result import PlaybookResult

VMID = 320
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("api_alone")]


@pytest.fixture(scope="module")
def container(box: Box) -> Iterator[Container]:
    yield box.fresh(VMID)
    box.testbed("remove", str(VMID))


@pytest.fixture
def api(container: Container, tmp_path: Path) -> Iterator[Api]:
    """A running container without snapshots."""
    stand_in = Api(container.box, tmp_path)
    container.fresh()
    yield stand_in


def snapshot(api: Api, token: tuple[str, str] = KEEPER, check: bool = False, **options: Any) -> PlaybookResult:
    task = {"vmid": VMID, "limit": 20, **api.access(token), **options}
    play = [
        {
            "hosts": f"ct{VMID}",
            "gather_facts": False,
            "tasks": [
                {
                    "name": "Snapshot",
                    "proxmox_gpu.training.lxc_snapshot": task,
                    "delegate_to": "localhost",
                }
            ],
        }
    ]
    return api.box.run_playbook(json.dumps(play) + "\n", f"ct{VMID}", check=check)


def conf(api: Api) -> str:
    return (api.box.layout.nodes[0].pve_containers / f"{VMID}.conf").read_text()


def names(api: Api) -> list[str]:
    return re.findall(r"^\[(.*)\]$", conf(api), re.MULTILINE)


def test_taken_and_gone_back_to(api: Api, container: Container) -> None:
    container.write("/root/kept", "before\n")
    before = conf(api)
    taken = snapshot(api, reason="before provisioning torch").ok()
    name = taken.task("Snapshot").result["name"]
    assert re.fullmatch(r"provision-\d{8}T\d{6}Z", name)
    assert names(api) == [name]

    container.write("/root/kept", "after\n")
    container.write("/root/new", "x\n")
    container.run("rm /etc/hostname")
    api.box.node("pct", "set", str(VMID), "--memory", "1024", "--dev0", "/dev/null")

    back = snapshot(api, state="rolled_back").ok()
    assert back.task("Snapshot").result["name"] == name
    assert container.run("cat /root/kept") == "before\n"
    assert not container.exists("/root/new")
    assert container.exists("/etc/hostname")
    assert conf(api).split("\n[")[0].replace(f"parent: {name}\n", "").strip() == before.strip()


def test_the_last_of_its_own_are_kept_and_others_left_alone(api: Api) -> None:
    api.box.node("pvesh", "create", f"/nodes/pve1/lxc/{VMID}/snapshot", "-snapname", "provision-mine")
    for number in range(3):
        result = snapshot(api, name=f"provision-{number}", keep=2).ok()
    assert names(api) == ["provision-mine", "provision-1", "provision-2"]
    assert result.task("Snapshot").result["deleted"] == ["provision-0"]
    assert snapshot(api, name="provision-2", keep=2).ok().changed(f"ct{VMID}") == 0
    for state in ("rolled_back", "absent", "present"):
        refused = snapshot(api, name="provision-mine", state=state)
        assert "of this collection's" in refused.output or "not this collection's own" in refused.output
    snapshot(api, name="provision-1", state="absent").ok()
    assert names(api) == ["provision-mine", "provision-2"]


def test_check_mode_changes_nothing(api: Api) -> None:
    result = snapshot(api, check=True).ok()
    assert result.changed(f"ct{VMID}") == 1
    assert names(api) == []


def refusal(result: PlaybookResult) -> str:
    """The one sentence of a task that failed."""
    assert result.rc != 0 and "Traceback" not in result.output
    message: str = result.task("Snapshot").message
    return message


def test_what_can_be_said_before_is_said_before(api: Api, container: Container) -> None:
    """A locked container, a stopped one and a storage that cannot would each answer 200, and fail as a task."""
    api.box.node("pct", "set", str(VMID), "--lock", "backup")
    assert f"Container {VMID} on node pve1 is locked (backup)" in refusal(snapshot(api))
    api.box.node("pct", "unlock", str(VMID))
    with api.with_settings(unable_storages=["local"]):
        assert f"The storage local of container {VMID} has no snapshots" in refusal(snapshot(api))
    api.box.node("pct", "stop", str(VMID))
    assert "is stopped, and a snapshot before provisioning is of a running one" in refusal(snapshot(api))
    snapshot(api, need_running=False).ok()


def test_a_task_that_fails_is_an_error(api: Api, container: Container) -> None:
    """The API says 200 with a task id, and only the task fails: here because of a lock that came in between."""
    name = snapshot(api).ok().task("Snapshot").result["name"]
    api.box.node("pct", "set", str(VMID), "--lock", "backup")
    assert "Task vzrollback failed: CT is locked (backup)" in refusal(snapshot(api, state="rolled_back", name=name))


def test_by_pvesh_as_well_where_a_failed_task_exits_with_zero(api: Api, container: Container) -> None:
    words = [*client.ssh_options(api.box.layout), "-p", str(api.ports["sshd pve1"])]
    ways: dict[str, Any] = {"api_backend": "ssh", "api_user": "root", "api_ssh_arguments": words}
    name = snapshot(api, **ways).ok().task("Snapshot").result["name"]
    api.box.node("pct", "set", str(VMID), "--lock", "backup")
    said = refusal(snapshot(api, state="rolled_back", name=name, **ways))
    assert "Task vzrollback failed: CT is locked (backup)" in said


def test_privileges(api: Api) -> None:
    assert f"lacks the privilege VM.Snapshot on /vms/{VMID}" in refusal(snapshot(api, READER))
    assert "the id is wrong, or it lacks VM.Audit on /vms/999" in refusal(snapshot(api, vmid=999))


def test_names_that_are_not_its_own(api: Api) -> None:
    assert "it has to begin with provision-" in refusal(snapshot(api, name="mine"))
    assert "no snapshot of this collection's (it has made none there)" in refusal(snapshot(api, state="rolled_back"))


# --- provision


def provision(api: Api, **variables: Any) -> PlaybookResult:
    """A run that fails in the middle: its apt goes to a proxy that is not there."""
    broken = {"bootstrap_http_proxy": "http://127.0.0.1:9", "bootstrap_apt_mirror": "http://127.0.0.1:9/debian"}
    values = {"provision_snapshot": True, "bootstrap_apt_lock_timeout": 5, **broken, **variables}
    return api.box.run_playbook("proxmox_gpu.training.provision", f"ct{VMID}", values, timeout=300)


def test_a_failed_provision_prints_the_way_back(api: Api, container: Container) -> None:
    result = provision(api, provision_snapshot_api=api.access(KEEPER), bootstrap_minimum_free_bytes=1 << 60)
    assert result.rc != 0
    (name,) = names(api)
    assert f"pct rollback {VMID} {name} --start 1" in " ".join(result.output.split())


def test_a_failed_provision_goes_back_by_itself(api: Api, container: Container) -> None:
    """By the node's own pvesh, through the login of the connection: nothing is configured for it."""
    container.write("/root/kept", "before\n")
    listing = "find / -xdev -newer /root/kept -type f -not -path '/proc/*' -not -path '/sys/*' | sort"
    before = container.run(listing)
    result = provision(api, provision_snapshot_rollback=True)
    assert result.rc != 0
    assert result.task("Go back to the snapshot").result["changed"], result.output
    assert container.run("cat /root/kept") == "before\n"
    assert container.run(listing) == before
