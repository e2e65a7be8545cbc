# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""lxc_snapshot through the API stand-in, whose snapshots are real: files and configuration are compared."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import client
from testbed.layout import CHECKOUT
from tests.integration.api import KEEPER, NOBODY, READER, Api
from tests.integration.box import Box, Container
from tests.integration.playbook_result import PlaybookResult, TaskResult

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


Step = dict[str, Any] | str


def run(api: Api, *steps: Step) -> list[TaskResult]:
    """Each step's result, in one play: options of lxc_snapshot (and ``check``), or a command for the node's root."""
    tasks = []
    for number, step in enumerate(steps):
        if isinstance(step, str):
            argv = [sys.executable, "-m", "testbed", "exec", "node", "--", *step.split()]
            task: dict[str, Any] = {"ansible.builtin.command": {"argv": argv, "chdir": str(CHECKOUT)}}
        else:
            options = {"vmid": VMID, "limit": 20, **api.access(KEEPER), **step}
            task = {"check_mode": options.pop("check", False), "proxmox_gpu.training.lxc_snapshot": options}
        tasks.append({"name": f"Step {number}", "delegate_to": "localhost", "ignore_errors": True, **task})
    play = [{"hosts": f"ct{VMID}", "gather_facts": False, "tasks": tasks}]
    result = api.box.run_playbook(
        json.dumps(play) + "\n", f"ct{VMID}", environment={"ANSIBLE_INJECT_INVOCATION": "1"}
    ).ok()
    assert "Traceback" not in result.output
    done = [one for one in result.tasks if one.task.startswith("Step ")]
    told = result.output + str([one.result for one in done])  # with the modules' arguments, as -vvv may show them
    assert "api_token_secret" in told
    for name in ("secret", "password"):
        assert not [one for one in secrets(api, name) if one in told]
    return done


def secrets(api: Api, kind: str) -> list[str]:
    """Every secret that the stand-in has of this kind."""
    return re.findall(rf'"{kind}": "([^"]+)"', api.path.read_text())


def refusal(one: TaskResult) -> str:
    """The sentence of a task that failed."""
    assert one.status == "ignored", one.result
    return one.message


def conf(api: Api) -> str:
    return (api.box.layout.nodes[0].pve_containers / f"{VMID}.conf").read_text()


def current(api: Api) -> list[str]:
    """The configuration that counts, but for the snapshot that it descends from."""
    return [line for line in conf(api).split("\n[")[0].splitlines() if line and not line.startswith("parent:")]


def names(api: Api) -> list[str]:
    return re.findall(r"^\[(.*)\]$", conf(api), re.MULTILINE)


def test_taken_and_gone_back_to(api: Api, container: Container) -> None:
    container.write("/root/kept", "before\n")
    before = current(api)
    (taken,) = run(api, {"reason": "before provisioning torch"})
    name = taken.result["name"]
    assert re.fullmatch(r"provision-\d{8}T\d{6}Z", name)
    assert names(api) == [name]

    container.write("/root/kept", "after\n")
    container.write("/root/new", "x\n")
    container.run("rm /etc/hostname")
    api.box.node("pct", "set", str(VMID), "--memory", "1024", "--dev0", "/dev/null")

    (back,) = run(api, {"state": "rolled_back"})
    assert back.result["name"] == name
    assert container.run("cat /root/kept") == "before\n"
    assert not container.exists("/root/new")
    assert container.exists("/etc/hostname")
    assert current(api) == before


def test_the_last_of_its_own_are_kept_and_others_left_alone(api: Api) -> None:
    mine = {"name": "provision-mine"}
    done = run(
        api,
        f"pvesh create /nodes/pve1/lxc/{VMID}/snapshot -snapname provision-mine",
        {"check": True},
        *({"name": f"provision-{number}", "keep": 2} for number in range(3)),
        {"name": "provision-2", "keep": 2},
        {**mine, "state": "rolled_back"},
        {**mine, "state": "absent"},
        mine,
        {"name": "provision-1", "state": "absent"},
    )
    assert [one.changed for one in done] == [True, True, True, True, True, False, False, False, False, True]
    assert done[1].result["snapshots"] == [done[1].result["name"]]  # in check mode, which took none
    assert (done[4].result["snapshots"], done[4].result["deleted"]) == (["provision-1", "provision-2"], ["provision-0"])
    assert "others are left alone" in refusal(done[6]) and "others are left alone" in refusal(done[7])
    assert "not this collection's own" in refusal(done[8])
    assert names(api) == ["provision-mine", "provision-2"]


def test_what_goes_wrong_is_one_sentence(api: Api) -> None:
    """What can be said before is said before; what only the task says is its error, by pvesh as well.

    A locked container, a stopped one and a storage that cannot would each answer 200, and pvesh exits with 0.
    """
    words = [*client.ssh_options(api.box.layout), "-p", str(api.ports["sshd pve1"])]
    pvesh: dict[str, Any] = {"api_backend": "ssh", "api_user": "root", "api_ssh_arguments": words}
    nobody = {"api_token_id": None, "api_token_secret": None, "api_password": "hunter2"}
    done = run(
        api,
        api.access(READER),
        {"vmid": 999},
        {"name": "mine"},
        {"state": "rolled_back"},
        nobody,
        {"name": "provision-kept"},
        f"pct set {VMID} --lock backup",
        {},
        {"state": "rolled_back"},
        {**pvesh, "state": "rolled_back"},
        f"pct unlock {VMID}",
        f"pct stop {VMID}",
        {},
        {**pvesh, "name": "provision-stopped", "need_running": False},
    )
    said = [one.message for one in done if one.status == "ignored"]
    wanted = [
        f"lacks the privilege VM.Snapshot on /vms/{VMID}",
        "the id is wrong, or it lacks VM.Audit on /vms/999",
        "it has to begin with provision-",
        "no snapshot of this collection's (it has made none there)",
        "does not accept the password of user keeper@pve",
        f"Container {VMID} on node pve1 is locked (backup)",
        "Task vzrollback failed: CT is locked (backup)",
        "Task vzrollback failed: CT is locked (backup)",
        "is stopped, and a snapshot before provisioning is of a running one",
    ]
    assert len(said) == len(wanted) and all(part in text for part, text in zip(wanted, said, strict=True)), said
    assert names(api) == ["provision-kept", "provision-stopped"]


def test_each_privilege_missing(api: Api) -> None:
    """VM.Snapshot is missing above. Without VM.PowerMgmt the files are put back, and the container stays stopped."""
    users = {"keeper@pve": ["VM.Audit", "VM.Snapshot"], "nobody@pve": ["VM.Snapshot"]}
    tokens = {"keeper@pve!snapshots": users["keeper@pve"], "nobody@pve!none": users["nobody@pve"]}
    acl = [{"path": "/vms", "who": who, "privileges": names} for who, names in {**users, **tokens}.items()]
    with api.with_settings(acl=acl):
        _taken, blind, back = run(api, {"name": "provision-a"}, api.access(NOBODY), {"state": "rolled_back"})
    assert f"token nobody@pve!none sees no container {VMID} in the cluster" in refusal(blind)
    assert f"lacks VM.Audit on /vms/{VMID}" in refusal(blind)
    assert f"token keeper@pve!snapshots lacks the privilege VM.PowerMgmt on /vms/{VMID}" in refusal(back)


def test_a_storage_without_snapshots(api: Api) -> None:
    with api.with_settings(unable_storages=["local"]):
        (done,) = run(api, {})
    assert f"The storage local of container {VMID} has no snapshots" in refusal(done)


# --- provision


def provision(api: Api, *arguments: str, **variables: Any) -> PlaybookResult:
    """A run that fails in the middle: its apt goes to a proxy that is not there."""
    broken = {"bootstrap_http_proxy": "http://127.0.0.1:9", "bootstrap_apt_mirror": "http://127.0.0.1:9/debian"}
    values = {"provision_snapshot": True, "bootstrap_apt_retries": 0, **broken, **variables}
    return api.box.run_playbook("proxmox_gpu.training.provision", f"ct{VMID}", values, timeout=300, arguments=arguments)


FILES = "find /etc /root /opt /usr /var/lib -xdev -type f -exec sha256sum {} + | sort -k 2"


def test_a_failed_provision_prints_the_way_back(api: Api, container: Container) -> None:
    """What it prints is then done, and the files are those of before."""
    before = container.run(FILES)
    result = provision(api, provision_snapshot_api=api.access(KEEPER))
    assert result.rc != 0 and not [one for one in secrets(api, "secret") if one in result.output]
    (name,) = names(api)
    way = f"pct rollback {VMID} {name} --start 1"
    assert way in " ".join(result.output.split())
    assert before != container.run(FILES)  # it had begun to change things


def test_a_failed_provision_goes_back_by_itself(api: Api, container: Container) -> None:
    """By the node's own pvesh, through the login of the connection: nothing is configured for it."""
    before, kept = container.run(FILES), current(api)
    result = provision(api, provision_snapshot_rollback=True)
    assert result.rc != 0
    assert [one.task for one in result.tasks if one.changed and one.host == f"ct{VMID}"][:-1], result.output
    assert result.task("Go back to the snapshot").result["changed"], result.output
    assert container.run(FILES) == before
    assert current(api) == kept


def test_a_run_that_succeeds_keeps_its_snapshot_and_goes_nowhere(api: Api) -> None:
    result = provision(api, "--tags", "nothing", provision_snapshot_rollback=True).ok()
    assert len(names(api)) == 1
    ways = ("Go back to the snapshot", "Say how to go back")
    assert not [one.task for one in result.tasks if one.task in ways and one.status != "skipped"]
