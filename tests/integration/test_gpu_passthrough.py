# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role gpu_passthrough on the box: messes of devices and driver libraries, named, repaired or explained.

Everything is real but the driver: device nodes, devN entries, restarts, the files of the libraries' versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.box import Box
from tests.integration.nvidia import DRIVER, GOOD, LIBRARIES, NEWER, OLDER, Gpu
from tests.prepared import snapshot

VMID = "330"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def machine(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpu]:
    container = box.fresh(VMID, "--from", snapshot("python"))
    gpu = Gpu(box, container, tmp_path_factory.mktemp("runfiles"))
    gpu.boot()
    container.run("groupadd -g 777 gpu; useradd -m -G gpu trainer")
    yield gpu
    gpu.forget_driver()
    (gpu.node.folder / "nvidia.json").unlink()
    box.testbed("remove", VMID)


@pytest.fixture
def gpu(machine: Gpu) -> Iterator[Gpu]:
    """A container in order: its GPU handed in, its libraries those of the module."""
    machine.boot()
    machine.configure(GOOD)
    machine.libraries(DRIVER)
    yield machine
    machine.box.node("pct", "unlock", VMID)


def test_one_in_order_is_left_alone(gpu: Gpu) -> None:
    assert gpu.look()["state"] == "ok"
    before = gpu.conf_path.read_text()
    assert gpu.role().ok().changed("ct330") == 0
    assert gpu.conf_path.read_text() == before


def test_into_a_container_without_anything(gpu: Gpu) -> None:
    """Nothing loaded on the node, no entry, no library: the whole way, with the boot unit. Then a second run."""
    gpu.forget_driver()
    gpu.configure({})
    gpu.libraries()
    check = gpu.role(check=True, boot_unit=True)
    assert "Traceback" not in check.output and gpu.conf.get("dev0") is None
    gpu.role(boot_unit=True, libraries="none").ok()
    gpu.share_proc()
    gpu.role(boot_unit=True).ok()
    assert {key: value for key, value in gpu.conf.items() if key.startswith("dev")} == GOOD
    assert gpu.look()["state"] == "ok"
    assert gpu.role(boot_unit=True).ok().changed("ct330") == 0
    unit = gpu.sh("cat /etc/systemd/system/multi-user.target.wants/proxmox-gpu-devices.service")
    assert "nvidia-modprobe -u -c=0" in unit and "Before=pve-guests.service" in unit


# --- messes that are repaired: what diagnose calls each, and that a second run changes nothing

Break = Callable[[Gpu], None]
RAW = [
    ("lxc.cgroup2.devices.allow", "c 195:* rwm"),
    ("lxc.cgroup2.devices.allow", "c 510:* rwm"),
    ("lxc.mount.entry", "/dev/nvidia0 dev/nvidia0 none bind,optional,create=file"),
]


def without_uvm(gpu: Gpu) -> None:
    gpu.configure({key: GOOD[key] for key in ("dev0", "dev1")})


def stale_majors(gpu: Gpu) -> None:
    """The node booted and gave nvidia-uvm another major; the container still has the old one, and so has the node."""
    gpu.sh("rm /dev/nvidia-uvm* /run/nvidia-standin/proc/devices")
    gpu.sh("mknod /dev/nvidia-uvm c 510 0; mknod /dev/nvidia-uvm-tools c 510 1")
    gpu.configure(GOOD)
    gpu.sh("modprobe nvidia-uvm")
    gpu.share_proc()


def a_file_for_a_device(gpu: Gpu) -> None:
    gpu.sh("rm /dev/nvidia-uvm; echo left-over > /dev/nvidia-uvm")
    gpu.container.run("rm /dev/nvidia-uvm; touch /dev/nvidia-uvm")


def a_folder_for_a_device(gpu: Gpu) -> None:
    gpu.sh("rm /dev/nvidiactl; mkdir /dev/nvidiactl")
    gpu.container.run("rm /dev/nvidiactl; mkdir /dev/nvidiactl")


def an_optional_node_that_is_gone(gpu: Gpu) -> None:
    """The next start would fail: `Device /dev/nvidia-modeset does not exist`."""
    gpu.sh("nvidia-modprobe -m")
    gpu.configure(GOOD | {"dev4": "/dev/nvidia-modeset,gid=0,mode=0660"})
    gpu.sh("rm /dev/nvidia-modeset")


def written_twice(gpu: Gpu) -> None:
    gpu.configure({**GOOD, "dev7": "path=/dev/nvidia0"})


def mismatch(gpu: Gpu) -> None:
    gpu.libraries(OLDER)


def raw_lines(gpu: Gpu) -> None:
    gpu.configure({"dev0": "/dev/null"}, RAW)


MESSES: dict[str, tuple[Break, str, dict[str, Any]]] = {
    "a node that came after the start": (without_uvm, "gpu.node_missing", {}),
    "majors of an earlier boot": (stale_majors, "gpu.stale_major", {}),
    "a file in a device's place": (a_file_for_a_device, "gpu.not_a_device", {}),
    "a folder in a device's place": (a_folder_for_a_device, "gpu.not_a_device", {}),
    "an entry for an optional node that is gone": (an_optional_node_that_is_gone, "gpu.ok", {}),
    "an entry written twice": (written_twice, "gpu.ok", {}),
    "libraries that are missing": (lambda gpu: gpu.libraries(), "gpu.library_missing", {}),
    "libraries that were left behind": (mismatch, "gpu.library_mismatch", {}),
    "libraries of two versions": (lambda gpu: gpu.libraries(DRIVER, OLDER), "gpu.library_mismatch", {}),
    "raw lines, replaced on request": (raw_lines, "gpu.node_missing", {"replace_raw": True}),
}


@pytest.mark.parametrize("name", MESSES)
def test_a_mess_is_named_and_repaired(gpu: Gpu, name: str) -> None:
    wreck, finding, variables = MESSES[name]
    wreck(gpu)
    assert gpu.cycle(**variables) == (finding, "ok", [])
    assert {value for key, value in gpu.conf.items() if "nvidia" in value} == set(GOOD.values())


def test_what_was_replaced_is_kept(gpu: Gpu) -> None:
    """The configuration with its raw lines, and the content of a file that lay in a device's place; order stays."""
    raw_lines(gpu)
    before = gpu.conf_path.read_text()
    gpu.sh("rm /dev/nvidia-uvm; echo left-over > /dev/nvidia-uvm; rm -rf /var/backups/proxmox_gpu")
    result = gpu.role(replace_raw=True).ok()
    backup = result.task("Set the container's device entries").result["backup"]
    assert gpu.sh(f"cat {backup}") == before
    assert gpu.sh("cat /var/backups/proxmox_gpu/nvidia-uvm") == "left-over\n"
    assert gpu.raw == []
    assert gpu.conf["dev0"] == "/dev/null"  # somebody else's entry keeps its number
    assert gpu.conf["dev1"] == GOOD["dev0"]


def test_the_group_is_looked_up_in_the_container(gpu: Gpu) -> None:
    """Not permitted to the training user, until the entries have the container's own group."""
    user = {"fast_path_training_user": "trainer"}
    assert gpu.look(**user)["id"] == "gpu.not_permitted"
    gpu.role(group="gpu").ok()
    gpu.share_proc()
    assert gpu.conf["dev0"] == "/dev/nvidia0,gid=777,mode=0660"
    assert gpu.look(**user)["state"] == "ok"


# --- what is explained, and left


def sentence(gpu: Gpu, **variables: Any) -> str:
    result = gpu.role(**variables)
    assert result.rc != 0 and "Traceback" not in result.output
    return " ".join(result.failures()[0].message.split())


def test_no_driver_on_the_node(gpu: Gpu) -> None:
    gpu.forget_driver()
    gpu.driver(driver=None)
    said = sentence(gpu)
    assert (
        "The kernel module nvidia of node pve1 cannot be loaded" in said
        and "install NVIDIA's driver for kernel" in said
    )


def test_no_such_gpu(gpu: Gpu) -> None:
    assert "Node pve1 has no GPU /dev/nvidia3 (it has /dev/nvidia0)" in sentence(gpu, devices=[3])
    assert "'card0' is no GPU" in sentence(gpu, devices=["card0"])


def test_a_folder_that_is_not_empty(gpu: Gpu) -> None:
    gpu.sh("rm /dev/nvidiactl; mkdir -p /dev/nvidiactl/x")
    assert "It is not empty" in sentence(gpu)
    gpu.sh("rm -r /dev/nvidiactl")


def test_no_such_group(gpu: Gpu) -> None:
    assert "The container has no group nosuch, which gpu_passthrough_group names" in sentence(gpu, group="nosuch")


def test_a_locked_container(gpu: Gpu) -> None:
    without_uvm(gpu)
    gpu.box.node("pct", "set", VMID, "--lock", "backup")
    assert "`pct set 330` was refused: CT is locked (backup)" in sentence(gpu)


def test_a_node_whose_reboot_is_pending(gpu: Gpu) -> None:
    """The container has what the node will run: the cure is the reboot. One with the running module's is in order."""
    gpu.boot(driver=NEWER, loaded=DRIVER)
    gpu.share_proc()
    told = gpu.role().ok()
    assert f"was upgraded to {NEWER}, and {DRIVER} runs until it is rebooted" in " ".join(told.output.split())
    gpu.libraries(NEWER)
    assert f"The node's driver was upgraded to {NEWER} and its reboot is pending" in sentence(gpu)


def test_no_source_has_the_version(gpu: Gpu) -> None:
    gpu.libraries(OLDER)
    said = sentence(gpu, runfile=None)
    assert f"driver libraries are {OLDER}, the node's kernel module is {DRIVER}" in said
    assert "no runfile is given (gpu_passthrough_runfile), and apt has no libcuda1" in said


REPOSITORY = """\
set -e
rm -rf /srv/repository && mkdir -p /srv/repository && cd /srv/repository
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
"""


def test_libraries_by_apt_at_the_exact_version(gpu: Gpu) -> None:
    """From a repository in the container that has it; the packages are held."""
    gpu.libraries(OLDER)
    gpu.container.run(f"rm {LIBRARIES}/*{OLDER}")
    gpu.container.run(REPOSITORY.replace("{libraries}", LIBRARIES).replace("{driver}", DRIVER))
    try:
        gpu.role(runfile=None).ok()
        assert gpu.container.run("apt-mark showhold").split() == ["libcuda1", "libnvidia-ml1"]
        assert gpu.look()["state"] == "ok"
        assert gpu.role(runfile=None).ok().changed("ct330") == 0
    finally:
        gpu.container.run("apt-mark unhold libcuda1 libnvidia-ml1; dpkg --purge libcuda1 libnvidia-ml1")
        gpu.container.run("rm -rf /srv/repository /etc/apt/sources.list.d/driver.list")


def test_a_runfile_of_another_version(gpu: Gpu) -> None:
    gpu.libraries()
    gpu.runfile(OLDER)
    path = str(gpu.folder / f"NVIDIA-Linux-x86_64-{OLDER}.run")
    assert f"The runfile is of driver {OLDER}, and the node's kernel module is {DRIVER}" in sentence(gpu, runfile=path)


def test_raw_lines_are_left_without_being_asked(gpu: Gpu) -> None:
    raw_lines(gpu)
    before = gpu.conf_path.read_text()
    result = gpu.role(libraries="none").ok()
    assert gpu.conf_path.read_text() == before
    assert "gpu_passthrough_replace_raw=true replaces them" in " ".join(result.output.split())


def test_no_restart_without_leave(gpu: Gpu) -> None:
    gpu.configure({**GOOD, "dev0": "/dev/nvidia0,mode=0600"})
    init = gpu.sh(f"lxc-info -n {VMID} -p -H")
    result = gpu.role(restart_ok=False).ok()
    assert "gpu_passthrough_restart_ok=true lets this role restart it" in " ".join(result.output.split())
    assert gpu.sh(f"lxc-info -n {VMID} -p -H") == init
    assert gpu.role(restart_ok=False).ok().changed("ct330") == 0


def test_no_restart_while_a_process_has_the_gpu_open(gpu: Gpu) -> None:
    """A device that can be opened: number 3 of major 1 is what /dev/null is."""
    gpu.boot(gpus=4, majors={"nvidia": 1, "nvidia-uvm": 511})
    gpu.sh("nvidia-modprobe -c=3")
    gpu.configure({"dev0": "/dev/nvidia3,mode=0600"})
    gpu.container.run("setsid sleep 300 3</dev/nvidia3 >/dev/null 2>&1 &")
    init = gpu.sh(f"lxc-info -n {VMID} -p -H")
    result = gpu.role(devices=["/dev/nvidia3"], libraries="none").ok()
    assert len(result.task("Set the container's device entries").result["busy"]) == 1
    assert "processes in it have the GPU open" in " ".join(result.output.split())
    assert gpu.sh(f"lxc-info -n {VMID} -p -H") == init


@pytest.fixture(autouse=True)
def _no_slow_pct(quick_pct: None, tmp_path: Path) -> None:
    """Without the start-up cost of pct."""
