# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role gpu_passthrough on the box: messes of devices and driver libraries, named, repaired or explained.

Everything is real but the driver: device nodes, devN entries, restarts, the files of the libraries' versions. Each
mess has a container of its own, and one play goes through them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.integration.box import Box
from tests.integration.nvidia import CYCLE, DRIVER, GOOD, LIBRARIES, NEWER, OLDER, Gpu, Node
from tests.integration.playbook_result import PlaybookResult
from tests.prepared import snapshot

FIRST = 330
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("quick_pct_in_module")]
RAW = [
    ("lxc.cgroup2.devices.allow", "c 195:* rwm"),
    ("lxc.cgroup2.devices.allow", "c 510:* rwm"),
    ("lxc.mount.entry", "/dev/nvidia0 dev/nvidia0 none bind,optional,create=file"),
]
TRAINER = {"group": "gpu", "fast_path_training_user": "trainer"}
FOR_TRAINER = {key: value.replace("gid=0", "gid=777") for key, value in GOOD.items()}
REPOSITORY = """\
set -e
mkdir -p /srv/repository && cd /srv/repository
for package in libcuda1 libnvidia-ml1; do
    case $package in libcuda1) library=libcuda ;; *) library=libnvidia-ml ;; esac
    mkdir -p $package/DEBIAN $package{libraries}
    touch $package{libraries}/$library.so.{driver}
    echo "Package: $package" > $package/DEBIAN/control
    printf 'Version: {driver}-1\\nArchitecture: amd64\\nMaintainer: a test <t@example.org>\\nDescription: x\\n' \\
        >> $package/DEBIAN/control
    dpkg-deb -b $package $package.deb >/dev/null
    cat $package/DEBIAN/control >> Packages
    printf 'Filename: ./%s.deb\\nSize: %s\\nSHA256: %s\\n\\n' $package "$(stat -c %s $package.deb)" \\
        "$(sha256sum $package.deb | cut -d' ' -f1)" >> Packages
done
echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list.d/driver.list
apt-get update -qq -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/driver.list -o Dir::Etc::sourceparts=- \\
    -o APT::Get::List-Cleanup=0
""".replace("{libraries}", LIBRARIES).replace("{driver}", DRIVER)


def nothing(gpu: Gpu) -> None:
    """In order as it is."""


@dataclass(frozen=True)
class Mess:
    """``devices`` and ``raw``: what the container was started with; ``wreck``: what came over it then.

    ``named``: what diagnose calls it; ``entries``: the devN entries afterwards.
    """

    named: str
    wreck: Callable[[Gpu], None] = nothing
    devices: dict[str, str] = field(default_factory=lambda: GOOD)
    raw: list[tuple[str, str]] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=lambda: GOOD)


def by_apt(gpu: Gpu) -> None:
    gpu.libraries(OLDER)
    gpu.run(REPOSITORY)
    gpu.run(f"rm {LIBRARIES}/*{OLDER}")


# In this order, from container 330 on. The first one's run also puts the node right.
REPAIRED = {
    "nothing handed in": Mess("gpu.node_missing", devices={}),
    "a node that came after the start": Mess("gpu.node_missing", devices={key: GOOD[key] for key in ("dev0", "dev1")}),
    "majors of an earlier boot": Mess("gpu.stale_major"),  # see `machine`
    "a file in a device's place": Mess(
        "gpu.not_a_device", lambda gpu: void(gpu.run("rm /dev/nvidia-uvm; touch /dev/nvidia-uvm"))
    ),
    "a folder in a device's place": Mess(
        "gpu.not_a_device", lambda gpu: void(gpu.run("rm /dev/nvidiactl; mkdir /dev/nvidiactl"))
    ),
    "a device that went": Mess("gpu.node_missing", lambda gpu: void(gpu.run("rm /dev/nvidia-uvm"))),
    "libraries that are missing": Mess("gpu.library_missing", lambda gpu: gpu.libraries()),
    "libraries that were left behind": Mess("gpu.library_mismatch", lambda gpu: gpu.libraries(OLDER)),
    "libraries of two versions": Mess("gpu.library_mismatch", lambda gpu: gpu.libraries(DRIVER, OLDER)),
    "libraries that apt has": Mess("gpu.library_missing", by_apt, variables={"runfile": None}),
    "raw lines, replaced on request": Mess(
        "gpu.node_missing",
        devices={"dev0": "/dev/null"},
        raw=RAW,
        variables={"replace_raw": True},
        # somebody else's entry keeps its number
        entries={"dev0": "/dev/null", **{f"dev{number + 1}": GOOD[f"dev{number}"] for number in range(4)}},
    ),
    "another group than the training user's": Mess("gpu.not_permitted", variables=TRAINER, entries=FOR_TRAINER),
    "a mode that lets nobody in": Mess(
        "gpu.not_permitted",
        devices={key: value.replace("0660", "0600") for key, value in FOR_TRAINER.items()},
        variables=TRAINER,
        entries=FOR_TRAINER,
    ),
    "an entry for an optional node that is gone": Mess(
        "gpu.ok",  # until the next start, which would fail: Device /dev/nvidia-modeset does not exist
        devices=GOOD | {"dev4": "/dev/nvidia-modeset,gid=0,mode=0660"},
    ),
    "an entry written twice": Mess("gpu.ok", devices={**GOOD, "dev7": "path=/dev/nvidia0"}),
    "none": Mess("gpu.ok"),
}
NAMES = list(REPAIRED)


def void(_output: str) -> None:
    """Of a command whose output nobody wants."""


@dataclass
class Machine:
    """The node, its containers by the mess that they had, what the play through all of them said, and the backup."""

    node: Node
    gpus: dict[str, Gpu]
    repaired: PlaybookResult
    inits: dict[str, str]
    confs: dict[str, str]

    @property
    def one(self) -> Gpu:
        """A container in order."""
        return self.gpus["none"]


@pytest.fixture(scope="module")
def machine(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    vmids = [str(FIRST + number) for number in range(len(REPAIRED))]
    node = Node(box, tmp_path_factory.mktemp("runfiles"))
    box.testbed("create", ",".join(vmids), "--stopped", "--from", snapshot("python"))
    gpus = {name: Gpu(node, vmid) for name, vmid in zip(REPAIRED, vmids, strict=True)}
    node.boot(majors={"nvidia": 195, "nvidia-uvm": 510})
    gpus["majors of an earlier boot"].configure()
    node.boot()
    node.sh("nvidia-modprobe -m")
    for name, mess in REPAIRED.items():
        if name != "majors of an earlier boot":
            gpus[name].configure(mess.devices, mess.raw)
        gpus[name].libraries(DRIVER)
        gpus[name].run("groupadd -g 777 gpu; useradd -m -G gpu trainer")
        mess.wreck(gpus[name])
    # The node itself: a number of an earlier boot, a file with something in it, a folder, and an optional node gone.
    node.sh("rm /dev/nvidia-modeset /dev/nvidia-uvm* /dev/nvidiactl; rm -rf /var/backups/proxmox_gpu")
    node.sh("mknod /dev/nvidia-uvm-tools c 510 1; echo left-over > /dev/nvidia-uvm; mkdir /dev/nvidiactl")
    inits = {name: gpu.init for name, gpu in gpus.items()}
    confs = {name: gpu.conf_path.read_text() for name, gpu in gpus.items()}
    repaired = node.play({gpus[name].host: mess.variables for name, mess in REPAIRED.items()}, CYCLE)
    yield Machine(node, gpus, repaired, inits, confs)
    node.forget_driver()
    (node.layout.folder / "nvidia.json").unlink()
    box.testbed("remove", ",".join(vmids))


# --- messes that are repaired: what diagnose calls each, and that a second run changes nothing


@pytest.mark.parametrize("name", NAMES)
def test_a_mess_is_named_and_repaired(machine: Machine, name: str) -> None:
    gpu, mess = machine.gpus[name], REPAIRED[name]
    mine = [one for one in machine.repaired.tasks if one.host == gpu.host]
    assert not [one for one in mine if one.status in ("failed", "unreachable")], machine.repaired.output
    before = machine.repaired.task("Look before", gpu.host).result["links"]["gpu"]
    after = machine.repaired.task("Look after", gpu.host).result["links"]["gpu"]
    assert (before["id"], after["id"]) == (mess.named, "gpu.ok")
    last = [one.task for one in mine].index("Look after")
    assert [one.task for one in mine[last:] if one.changed] == []
    assert gpu.entries == mess.entries
    assert gpu.raw == []


def test_one_in_order_is_left_alone(machine: Machine) -> None:
    assert machine.repaired.changed(machine.one.host) == 0
    assert machine.one.conf_path.read_text() == machine.confs["none"]


def test_a_restart_where_one_is_needed_alone(machine: Machine) -> None:
    """An added device is hot-plugged; what is in the way in the container, or counts from the start on, is not."""
    restarted = {name for name in NAMES if machine.gpus[name].init != machine.inits[name]}
    assert restarted == {
        "majors of an earlier boot",
        "a file in a device's place",
        "a folder in a device's place",
        "a device that went",
        "raw lines, replaced on request",
        "another group than the training user's",
        "a mode that lets nobody in",
        "an entry for an optional node that is gone",
        "an entry written twice",
    }


def test_what_was_replaced_is_kept(machine: Machine) -> None:
    """The configuration with its raw lines, and the content of the file that lay in a device's place."""
    name = "raw lines, replaced on request"
    host = machine.gpus[name].host
    tasks = [one for one in machine.repaired.tasks if one.host == host and "device entries" in one.task]
    assert machine.node.sh(f"cat {tasks[0].result['backup']}") == machine.confs[name]
    assert machine.node.sh("stat -c '%a' /var/backups/proxmox_gpu") == "700\n"
    assert machine.node.sh("cat /var/backups/proxmox_gpu/nvidia-uvm") == "left-over\n"


def test_the_packages_of_apt_are_held(machine: Machine) -> None:
    gpu = machine.gpus["libraries that apt has"]
    assert gpu.run("apt-mark showhold").split() == ["libcuda1", "libnvidia-ml1"]


# --- what is explained, and left. Each on a container that is in order by now


def sentence(result: PlaybookResult, host: str) -> str:
    """The one sentence of a container at which the role stopped."""
    assert "Traceback" not in result.output
    (failure,) = [one for one in result.failures() if one.host == host]
    return " ".join(failure.message.split())


@dataclass(frozen=True)
class Case:
    """A run of the role that is refused, or leaves something: what it says, and how it was brought about."""

    said: str
    prepare: Callable[[Gpu], None] = nothing
    variables: dict[str, Any] = field(default_factory=dict)
    refused: bool = True


def locked(gpu: Gpu) -> None:
    """With raw lines that are to be replaced: a refusal leaves them."""
    gpu.configure({}, RAW)
    gpu.node.box.node("pct", "set", gpu.vmid, "--lock", "backup")


def cannot_start(gpu: Gpu) -> None:
    """Its next start fails, since an entry names a node that is gone."""
    gpu.node.sh("nvidia-modprobe -m")
    gpu.configure(GOOD | {"dev4": "/dev/nvidia-modeset,gid=0,mode=0660"})
    gpu.node.sh("rm /dev/nvidia-modeset")
    gpu.stop()


CASES = {
    "no such GPU": Case("Node pve1 has no GPU /dev/nvidia3 (it has /dev/nvidia0)", variables={"devices": [3]}),
    "no GPU at all": Case("'card0' is no GPU", variables={"devices": ["card0"]}),
    "no such group": Case(
        "The container has no group nosuch, which gpu_passthrough_group names", variables={"group": "nosuch"}
    ),
    "a locked container": Case(
        "was refused: CT is locked (backup)", locked, variables={"replace_raw": True, "libraries": "none"}
    ),
    "no source has the version": Case(
        f"driver libraries are {OLDER}, the node's kernel module is {DRIVER}, and they must be equal to the last "
        "digit: no runfile is given (gpu_passthrough_runfile), and apt has no libcuda1",
        lambda gpu: gpu.libraries(OLDER),
        {"runfile": None},
    ),
    "a runfile of another version": Case(
        f"The runfile is of driver {OLDER}, and the node's kernel module is {DRIVER}",
        lambda gpu: gpu.libraries(),
        {"runfile": OLDER},
    ),
    "raw lines without being asked": Case(
        "gpu_passthrough_replace_raw=true replaces them",
        lambda gpu: gpu.configure({}, RAW),
        {"libraries": "none"},
        refused=False,
    ),
    "no leave to restart": Case(
        "gpu_passthrough_restart_ok=true lets this role restart it",
        lambda gpu: gpu.configure({**GOOD, "dev0": "/dev/nvidia0,mode=0600"}),
        {"restart_ok": False},
        refused=False,
    ),
    "a stopped container": Case("is stopped", cannot_start),
}


@pytest.fixture(scope="module")
def explained(machine: Machine) -> Iterator[tuple[PlaybookResult, dict[str, Gpu]]]:
    gpus = dict(zip(CASES, list(machine.gpus.values())[: len(CASES)], strict=True))
    for name, case in CASES.items():
        case.prepare(gpus[name])
    machine.node.runfile(OLDER)
    other = str(machine.node.folder / f"NVIDIA-Linux-x86_64-{OLDER}.run")
    variables = {gpus[name].host: dict(case.variables) for name, case in CASES.items()}
    variables[gpus["a runfile of another version"].host]["runfile"] = other
    inits = {name: gpu.init for name, gpu in gpus.items()}
    result = machine.node.play(variables)
    yield result, gpus
    assert {name: gpu.init for name, gpu in gpus.items()} == inits  # none was restarted
    machine.node.box.node("pct", "unlock", gpus["a locked container"].vmid)


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_is_explained(explained: tuple[PlaybookResult, dict[str, Gpu]], name: str) -> None:
    result, gpus = explained
    case, host = CASES[name], gpus[name].host
    if case.refused:
        assert case.said in sentence(result, host), result.output
    else:
        assert result.recap[host]["failures"] == 0, result.output
        said = [one.message for one in result.tasks if one.host == host and ": Say " in one.task]
        assert case.said in " ".join(" ".join(said).split())


def test_a_refusal_changes_nothing(explained: tuple[PlaybookResult, dict[str, Gpu]]) -> None:
    _result, gpus = explained
    for name in ("a locked container", "raw lines without being asked"):
        assert (gpus[name].raw, gpus[name].entries) == (RAW, {})


def test_a_stopped_container_can_start_again(explained: tuple[PlaybookResult, dict[str, Gpu]]) -> None:
    gpu = explained[1]["a stopped container"]
    assert gpu.entries == GOOD
    gpu.start()
    gpu.stop()


# --- states of the node, one after the other, since it is one node


def test_a_node_that_was_booted(machine: Machine) -> None:
    """No module loaded: the whole way, with the boot unit, whose command then does the same by itself."""
    node, gpu = machine.node, machine.one
    node.forget_driver()
    check = node.play({gpu.host: {"boot_unit": True}}, check=True)
    assert "Traceback" not in check.output and node.sh("ls /dev/nvidia* 2>/dev/null || true") == ""
    result = node.play({gpu.host: {"boot_unit": True}}, CYCLE).ok()
    assert result.task("Look before").result["links"]["gpu"]["id"] == "gpu.module_not_loaded"
    assert result.task("Look after").result["links"]["gpu"]["id"] == "gpu.ok"
    names = [one.task for one in result.tasks]
    assert [one.task for one in result.tasks[names.index("Look after") :] if one.changed] == []
    unit = node.sh("cat /etc/systemd/system/multi-user.target.wants/proxmox-gpu-devices.service")
    assert "Before=pve-guests.service" in unit
    made = node.sh("ls /dev/nvidia*")
    node.forget_driver()
    node.sh("modprobe nvidia")
    command = unit.split("ExecStart=/bin/sh -c '")[1].split("'\n")[0]
    node.sh(command.replace("/proc/driver", "/run/nvidia-standin/proc/driver"))
    assert node.sh("ls /dev/nvidia*") == made


def test_no_driver_on_the_node(machine: Machine) -> None:
    machine.node.forget_driver()
    machine.node.driver(driver=None)
    result = machine.node.play({machine.one.host: {}}, CYCLE)
    assert result.task("Look before").result["links"]["gpu"]["id"] == "gpu.module_not_loaded"
    said = sentence(result, machine.one.host)
    assert "The kernel module nvidia of node pve1 cannot be loaded" in said
    assert "install NVIDIA's driver for kernel" in said
    machine.node.boot()


def test_a_folder_that_is_not_empty(machine: Machine) -> None:
    machine.node.boot()
    machine.node.sh("rm /dev/nvidiactl; mkdir -p /dev/nvidiactl/x")
    assert "It is not empty" in sentence(machine.node.play({machine.one.host: {}}), machine.one.host)
    machine.node.sh("rm -r /dev/nvidiactl")


def test_a_node_whose_reboot_is_pending(machine: Machine) -> None:
    """Of a container that has what the node will run, the cure is the reboot. One with what runs is in order."""
    machine.node.boot(driver=NEWER, loaded=DRIVER)
    ahead = machine.gpus["an entry written twice"]
    ahead.libraries(NEWER)
    result = machine.node.play({machine.one.host: {}, ahead.host: {}}, CYCLE)
    assert result.recap[machine.one.host]["failures"] == 0, result.output
    told = " ".join(one.message for one in result.tasks if one.host == machine.one.host and ": Say " in one.task)
    assert f"was upgraded to {NEWER}, and {DRIVER} runs until it is rebooted" in " ".join(told.split())
    assert result.task("Look before", ahead.host).result["links"]["gpu"]["id"] == "gpu.library_mismatch"
    assert f"The node's driver was upgraded to {NEWER} and its reboot is pending" in sentence(result, ahead.host)


def test_no_restart_while_a_process_has_the_gpu_open(machine: Machine) -> None:
    """A device that can be opened: number 3 of major 1 is what /dev/null is. One process in a namespace of its own."""
    machine.node.boot(gpus=4, majors={"nvidia": 1, "nvidia-uvm": 511})
    machine.node.sh("nvidia-modprobe -c=3")
    gpu = machine.one
    gpu.configure({"dev0": "/dev/nvidia3,mode=0600"})
    gpu.run("setsid sleep 300 3</dev/nvidia3 >/dev/null 2>&1 &")
    gpu.run("setsid unshare --pid --fork sleep 300 3</dev/nvidia3 >/dev/null 2>&1 &")
    init = gpu.init
    result = machine.node.play({gpu.host: {"devices": ["/dev/nvidia3"], "libraries": "none"}}).ok()
    assert len(result.task("Set the container's device entries").result["busy"]) == 3
    assert "processes in it have the GPU open" in " ".join(result.output.split())
    assert gpu.init == init
