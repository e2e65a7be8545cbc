# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role cuda_toolkit on real containers with the real nvcc: what it leaves behind, and what it says when it cannot.

Numbers in brackets are rows of the field reports that the test provokes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cuda_repository import faults, server
from tests import prepared
from tests.integration import role_runs
from tests.integration.box import Box, Container

pytestmark = pytest.mark.timeout(900)

ROLE = "cuda_toolkit"
HOME = "/usr/local/cuda-13.0"
PINS = "/etc/apt/preferences.d/proxmox_gpu-cuda"
RECORD = "/var/lib/proxmox_gpu/compile_probe.json"
REGISTERED = "toolkit-tests-registered"
DRIVERS = r"dpkg-query -W -f '${Package}\n' | grep -E '^(cuda-drivers|nvidia-driver|nvidia-open|libcuda1|libnvidia-)'"
VMIDS = (250, 251, 252, 253, 254, 255)


@pytest.fixture(scope="module", autouse=True)
def gone_afterwards(box: Box) -> Iterator[None]:
    before = set(box.status()["containers"])
    yield
    if made := sorted({str(vmid) for vmid in VMIDS} & set(box.status()["containers"]) - before):
        box.testbed("remove", ",".join(made))


@pytest.fixture(scope="module")
def registered(box: Box) -> str:
    """A snapshot with torch and the CUDA repository, and no toolkit."""
    if REGISTERED not in box.status()["snapshots"]:
        container = box.container(250).fresh("--from", prepared.snapshot("torch"))
        assert role_runs.run_one("cuda_repository", container).sentence == ""
        container.snapshot(REGISTERED)
    return REGISTERED


@pytest.fixture(scope="module")
def finished(box: Box) -> Container:
    """A container with the toolkit, as the role left it."""
    return box.container(251).fresh("--from", prepared.snapshot("toolkit"))


# ---- what it leaves behind


def test_check_mode_shows_the_plan_and_installs_nothing(box: Box, registered: str) -> None:
    container = box.container(250).fresh("--from", registered)
    outcome = role_runs.run_one(ROLE, container, check=True, diff=True)
    assert outcome.sentence == ""
    assert outcome.changed == 2  # the packages and the preferences file
    assert "+Pin: version 13.0.88-1" in outcome.result.output
    assert not container.exists(HOME)
    assert not container.exists(PINS)


def test_nvcc_is_of_torchs_own_cuda(finished: Container) -> None:
    cuda = finished.run(
        "sed -n \"s/^cuda.*= '\\(.*\\)'/\\1/p\" /opt/training/lib/python3*/site-packages/torch/version.py"
    ).strip()
    assert f"release {cuda}," in finished.run(f"{HOME}/bin/nvcc --version")


def test_no_driver_package(finished: Container) -> None:
    assert finished.attach(DRIVERS).stdout == ""


def test_drivers_have_no_candidate_and_what_sounds_like_one_has(finished: Container) -> None:
    policy = finished.run(
        "apt-cache policy cuda-drivers nvidia-open libnvidia-ml1 nvidia-container-toolkit cuda-driver-dev-13-0"
    )
    candidates = re.findall(r"^(\S+):\n.*\n  Candidate: (\S+)", policy, re.MULTILINE)
    found = dict(candidates)
    assert {found[name] for name in ("cuda-drivers", "nvidia-open")} == {"(none)"}
    assert found["nvidia-container-toolkit"] != "(none)"
    assert found["cuda-driver-dev-13-0"] != "(none)"


def test_the_meta_package_is_refused_by_apt_itself(finished: Container) -> None:
    """[13]"""
    refused = finished.attach("apt-get install -s cuda-13-0 2>&1")
    assert refused.returncode != 0
    assert "nvidia-open" in refused.stdout


def test_the_whole_set_is_held_and_pinned(finished: Container) -> None:
    """[14, 88]"""
    held = set(finished.run("apt-mark showhold").split())
    assert {"cuda-nvcc-13-0", "cuda-crt-13-0", "libnvvm-13-0", "libnvptxcompiler-13-0", "cuda-cudart-dev-13-0"} <= held
    pins = finished.run(f"cat {PINS}")
    versions = dict(re.findall(r"^Package: (\S+)\nPin: version (\S+)$", pins, re.MULTILINE))
    assert set(versions) == held
    installed = finished.run("dpkg-query -W -f '${Package} ${Version}\\n' " + " ".join(sorted(held)))
    assert dict(line.split() for line in installed.splitlines()) == versions


def test_the_probe_is_recorded_with_its_key(finished: Container) -> None:
    record = json.loads(finished.run(f"cat {RECORD}"))
    assert record["ok"] is True
    assert record["key"]["nvcc"] == "13.0.88"
    assert record["key"]["torch"].startswith("2.14.1")
    assert record["targets"]


@pytest.mark.parametrize("check", [False, True])
def test_a_second_run_looks_and_does_nothing_else(finished: Container, check: bool) -> None:
    outcome = role_runs.run_one(ROLE, finished, check=check)
    assert (outcome.sentence, outcome.changed) == ("", 0)
    assert "Plan the packages" not in outcome.result.output


# ---- drift


def test_a_moved_part_and_a_lost_hold_are_put_back(box: Box) -> None:
    """[88] A version pin that nobody holds drifts."""
    container = box.container(252).fresh("--from", prepared.snapshot("toolkit"))
    container.run(
        f"rm {PINS} && apt-mark unhold cuda-crt-13-0 cuda-nvcc-13-0 && "
        "apt-get install -y --allow-downgrades cuda-crt-13-0=13.0.48-1 cuda-nvcc-13-0=13.0.48-1 >/dev/null",
        timeout=300,
    )
    outcome = role_runs.run_one(ROLE, container, {"cuda_toolkit_versions": {"cuda-nvcc-13-0": "13.0.88-1"}})
    assert outcome.sentence == ""
    assert "cuda-crt-13-0" in container.run("apt-mark showhold")
    assert "release 13.0, V13.0.88" in container.run(f"{HOME}/bin/nvcc --version")
    assert container.run("dpkg-query -W -f '${Version}' cuda-crt-13-0") == "13.0.88-1"


def test_another_nvcc_on_path_and_a_turned_link_do_not_matter(box: Box) -> None:
    """[18, 2] The distribution's nvcc first on PATH, /usr/local/cuda elsewhere, a CUDA_HOME with a stray colon."""
    container = box.container(253).fresh("--from", prepared.snapshot("toolkit"))
    container.write("/usr/bin/nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 11.8, V11.8.89'\n")
    container.run(f"chmod +x /usr/bin/nvcc && ln -sfn /nowhere /usr/local/cuda && rm {RECORD}")
    outcome = role_runs.run_one(ROLE, container, environment={"CUDA_HOME": ":/usr/local/cuda"})
    assert outcome.sentence == ""
    # The probe compiled with the right one, and so does a build by hand from now on.
    assert json.loads(container.run(f"cat {RECORD}"))["ok"] is True
    assert container.run("bash -lc 'command -v nvcc'") == f"{HOME}/bin/nvcc\n"


def test_what_is_set_later_is_done_and_a_second_series_by_hand_is_left_alone(box: Box) -> None:
    """The chain held before: the variables are compared with what is there, and only our own series must be held."""
    container = box.container(252).fresh("--from", prepared.snapshot("toolkit"))
    container.run("apt-get install -y --no-install-recommends cuda-nvcc-12-8 >/dev/null 2>&1", timeout=300)
    assert role_runs.run_one(ROLE, container).sentence == ""
    again = role_runs.run_one(ROLE, container)
    assert (again.sentence, again.changed) == ("", 0)
    assert "Plan the packages" not in again.result.output
    assert "12-8" not in container.run("apt-mark showhold")
    # The second version is not the pinned one.
    for version in ("13.0.0.19-1", "13.1.1.3-1"):
        wish = {
            "cuda_toolkit_versions": {"libcublas-dev-13-0": version},
            "cuda_toolkit_extra_packages": ["libcublas-dev", "libcurand-dev"],
        }
        assert role_runs.run_one(ROLE, container, wish).sentence == ""
        assert container.run("dpkg-query -W -f '${Version}' libcublas-dev-13-0") == version
        assert {"libcublas-dev-13-0", "libcurand-dev-13-0"} <= set(container.run("apt-mark showhold").split())
    finished = role_runs.run_one(ROLE, container, wish)
    assert (finished.sentence, finished.changed) == ("", 0)
    assert "Plan the packages" not in finished.result.output


# ---- what it says when it cannot


def test_each_obstacle_is_one_sentence_and_nothing_is_installed(box: Box, registered: str) -> None:
    wishes: dict[str, dict[str, object]] = {
        "250": {"cuda_toolkit_extra_packages": ["cuda-13-0"]},
        "251": {"cuda_toolkit_versions": {"cuda-nvcc-13-0": "13.0.88-1", "cuda-crt-13-0": "13.0.48-1"}},
        "252": {"cuda_toolkit_versions": {"cuda-nvcc-13-0": "13.0.99-1"}},
        "253": {"cuda_toolkit_extra_packages": ["libnothing-dev"]},
        "254": {"cuda_toolkit_policy": "newest"},
    }
    expected = {
        "250": "would also install a GPU driver",  # [13]
        "251": "cuda-nvcc-13-0 Depends: cuda-crt-13-0 (>= 13.0.88) but 13.0.48-1 is to be installed",  # [14]
        "252": "the apt sources offer 13.0.88-1, 13.0.48-1",  # [60]
        "253": "do not offer the package libnothing-dev-13-0",
        "254": "same_major",
    }
    containers = role_runs.containers(box, [int(vmid) for vmid in wishes], registered)
    outcomes = role_runs.run_role(ROLE, containers, wishes)
    for container in containers:
        assert expected[container.vmid] in outcomes[container.vmid].sentence
        assert not container.exists(HOME)
        assert not container.exists(PINS)


def test_a_series_that_the_repository_lacks(box: Box, registered: str, tmp_path: Path) -> None:
    """[52] torch of CUDA 13.0 and a repository without 13-0: another minor, or a sentence that lists what there is."""
    folder = faults.without_series(box.layout.cuda_repository, tmp_path / "repository", series="13-0")
    exact, same_major = role_runs.containers(box, (254, 255), registered)
    with server.serving(folder, tmp_path / "access.log") as running:
        mirror = {"cuda_repository_mirror": f"{running.url}/compute/cuda/repos"}
        both = dict.fromkeys(("254", "255"), mirror)
        fetched = role_runs.run_role("cuda_repository", (exact, same_major), both)
        assert {outcome.sentence for outcome in fetched.values()} == {""}
        policies = {
            "254": {**mirror, "cuda_toolkit_policy": "exact"},
            "255": {**mirror, "cuda_toolkit_policy": "same_major"},
        }
        outcomes = role_runs.run_role(ROLE, (exact, same_major), policies)
    assert "offered series: 12-8, 13-2" in outcomes["254"].sentence
    assert "cuda_toolkit_policy: same_major" in outcomes["254"].sentence
    assert outcomes["255"].sentence == ""
    assert "series 13-2 is taken instead" in outcomes["255"].result.output
    assert json.loads(same_major.run(f"cat {RECORD}"))["key"]["nvcc"] == "13.2.86"


def test_a_compiler_that_is_too_new_and_files_that_are_gone(box: Box) -> None:
    """[15, 46] A gcc that this CUDA does not take is said before anything is tried; deleted headers and programs come
    back."""
    newer, headless, blind = role_runs.containers(box, (253, 254, 255), prepared.snapshot("toolkit"))
    for name in ("gcc", "g++", "c++"):
        newer.write(
            f"/usr/local/bin/{name}",
            f'#!/bin/sh\ncase $1 in -dump*) echo 17.1.0;; *) exec /usr/bin/{name} "$@";; esac\n',
        )
    newer.run(f"chmod +x /usr/local/bin/* && rm {RECORD}")
    headless.run(f"rm {RECORD} && find {HOME}/ -name cub -type d | xargs rm -r")
    blind.run(f"rm {HOME}/bin/nvcc")
    outcomes = role_runs.run_role(ROLE, (newer, headless, blind))
    assert "CUDA 13.0 takes gcc up to 15, and this container has gcc 17.1.0" in outcomes["253"].sentence
    assert not newer.exists(RECORD)
    assert (outcomes["254"].sentence, outcomes["255"].sentence) == ("", "")
    assert json.loads(headless.run(f"cat {RECORD}"))["ok"] is True
    assert "release 13.0" in blind.run(f"{HOME}/bin/nvcc --version")


def test_a_probe_that_fails_names_the_cause_and_is_tried_again(box: Box) -> None:
    """[46] A header that torch's own headers need is gone; it comes back, and so does the proof."""
    (container,) = role_runs.containers(box, (254,), prepared.snapshot("toolkit"))
    header = "/usr/include/python3.11/pyconfig.h"
    container.run(f"rm {RECORD} && mv {header} /root/")
    outcome = role_runs.run_one(ROLE, container)
    assert "the compile probe: the header" in outcome.sentence
    assert "pyconfig.h" in outcome.sentence
    record = json.loads(container.run(f"cat {RECORD}"))
    assert (record["ok"], record["cause"]) == (False, "header_missing")
    container.run(f"mv /root/pyconfig.h {header}")
    assert role_runs.run_one(ROLE, container).sentence == ""
    assert json.loads(container.run(f"cat {RECORD}"))["ok"] is True


def test_a_driver_in_the_container_is_a_fault_and_goes_on_request(box: Box, registered: str) -> None:
    """[61] A meta package was installed by hand."""
    (container,) = role_runs.containers(box, (252,), registered)
    container.run("apt-get install -y --no-install-recommends cuda-drivers >/dev/null 2>&1", timeout=300)
    kept = role_runs.run_one(ROLE, container)
    assert "cuda-drivers" in kept.sentence
    assert "cuda_toolkit_purge_drivers" not in kept.sentence or "node" in kept.sentence
    purged = role_runs.run_one(ROLE, container, {"cuda_toolkit_purge_drivers": True})
    assert purged.sentence == ""
    assert "cuda-drivers" not in container.attach(DRIVERS).stdout


def test_what_stops_apt_is_named(box: Box, registered: str) -> None:
    """[58, 9] Another process holds dpkg's lock; a package that does not have the checksum of the index."""
    locked, broken = role_runs.containers(box, (253, 254), registered)
    locked.run(
        'setsid python3 -c \'import fcntl, os, time; f = open("/var/lib/dpkg/lock-frontend", "w");'
        " fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(240)' >/dev/null 2>&1 </dev/null &"
    )
    broken.run("mkdir -p /var/cache/apt/archives/partial && mount -t tmpfs -o size=1m none /var/cache/apt/archives")
    outcomes = role_runs.run_role(ROLE, (locked, broken), {"253": {"cuda_toolkit_apt_lock_timeout": 1}})
    for outcome in outcomes.values():
        assert "The CUDA toolkit could not be installed: " in outcome.sentence
        assert "Traceback" not in outcome.sentence
    assert "is locked" in outcomes["253"].sentence
    assert "python3" in outcomes["253"].sentence  # who holds it
    assert "full" in outcomes["254"].sentence or "space" in outcomes["254"].sentence
