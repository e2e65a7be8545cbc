# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role cuda_extensions on real containers, with a real CUDA extension that compiles in seconds.

Numbers in brackets are rows of the field reports that the test provokes.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import role_runs, tiny_extension
from tests.integration.box import Box, Container
from tests.integration.extension_containers import (
    BUILT,
    HOUSE,
    IMPORT,
    LOG,
    RECORD,
    ROLE,
    SITE,
    gone_afterwards,
    installed_targets,
    started,
    wait_for,
)

pytestmark = pytest.mark.timeout(1200)

CHECKOUT = Path(__file__).resolve().parents[2]
VMIDS = (255, 256, 257, 258, 259)


@pytest.fixture(scope="module", autouse=True)
def tidy(box: Box) -> Iterator[None]:
    with gone_afterwards(box, VMIDS):
        yield


@pytest.fixture(scope="module")
def first_run(box: Box) -> role_runs.Outcome:
    (container,) = started(box, 256)
    outcome = role_runs.run_one(ROLE, container, tiny_extension.variables())
    if outcome.sentence == "" and BUILT not in box.status()["snapshots"]:
        container.snapshot(BUILT)
    return outcome


@pytest.fixture
def built(box: Box, first_run: role_runs.Outcome) -> Container:
    """A container with the built extension, as the role left it."""
    assert first_run.sentence == ""
    return box.container(256)


# ---- what a good build leaves behind


def test_the_first_run_builds(first_run: role_runs.Outcome) -> None:
    assert (first_run.sentence, first_run.changed) == ("", 1)


def test_progress_is_shown(first_run: role_runs.Outcome) -> None:
    assert "ct256: tiny-gpu-ops 1.0: compiling" in first_run.result.output


def test_it_imports_in_the_training_interpreter(built: Container) -> None:
    assert "add_one" in built.run(IMPORT)


def test_the_one_wanted_target_is_inside_and_no_other(built: Container) -> None:
    """[42] Its setup hard-codes sm_80 and sm_90."""
    assert installed_targets(built) == ["sm_90"]


def test_the_key_is_in_the_installed_wheel(built: Container) -> None:
    record = json.loads(built.run(f"cat {RECORD}"))
    assert (
        record["key"]["source_sha256"] == json.loads(built.run(f"cat {HOUSE}/torch-*/*.json"))["key"]["source_sha256"]
    )
    assert record["key"]["gpu_targets"] == ["sm_90"]
    assert record["built"]["sources"]["kernel.cu"]["memory"] > 50 << 20


def test_the_whole_log_is_kept(built: Container) -> None:
    assert "Successfully built" in built.run(f"cat {LOG}")


def test_nothing_else_is_left(built: Container) -> None:
    assert (
        built.run("ls /var/tmp; ls /run/proxmox_gpu 2>/dev/null; ls /root/.ansible_async 2>/dev/null; true").strip()
        == ""
    )


def test_torch_did_not_move(built: Container) -> None:
    """[4, 39] Its pyproject asks for torch, so an isolated build would have fetched another one."""
    assert built.run(f"ls -d {SITE}/torch-*.dist-info").strip().endswith("torch-2.14.1.dist-info")


@pytest.mark.parametrize("check", [False, True])
def test_a_second_run_changes_nothing(built: Container, check: bool) -> None:
    outcome = role_runs.run_one(ROLE, built, tiny_extension.variables(), check=check)
    assert (outcome.sentence, outcome.changed) == ("", 0)


# ---- the wheelhouse


def test_a_wheel_of_the_key_is_installed_without_a_compiler_and_a_network(box: Box, built: Container) -> None:
    """[16] The second container of a key: no nvcc, no network, seconds."""
    archive = built.run(f"tar c {HOUSE} | base64", timeout=120)
    (other,) = started(box, 257, options=("--no-network",))
    other.run("base64 -d | tar x -C /", stdin=archive, timeout=120)
    other.run("mv /usr/local/cuda-13.0/bin/nvcc /root/")
    known = tiny_extension.variables(sha256=json.loads(built.run(f"cat {RECORD}"))["key"]["source_sha256"])
    outcome = role_runs.run_one(ROLE, other, known)
    assert (outcome.sentence, outcome.changed) == ("", 1)
    assert "compiling" not in outcome.result.output
    assert "add_one" in other.run(IMPORT)
    # The same file as somebody else's, under the name that upstreams give to theirs.
    prebuilt = "/root/tiny_gpu_ops-1.0+cu13torch2.14-cp311-cp311-linux_x86_64.whl"
    other.run(
        f"/opt/training/bin/python -m pip uninstall -qy tiny-gpu-ops; cp {HOUSE}/torch-*/*.whl {prebuilt}", timeout=300
    )
    given = tiny_extension.variables(wheel=prebuilt, sha256=other.run(f"sha256sum {prebuilt}").split()[0])
    outcome = role_runs.run_one(ROLE, other, given)
    assert (outcome.sentence, outcome.changed) == ("", 1)
    assert json.loads(other.run(f"cat {RECORD}"))["key"]["flags"] == ["prebuilt"]


def test_a_damaged_wheel_is_refused_and_built_again_without_a_network(box: Box, first_run: role_runs.Outcome) -> None:
    """[40] And nothing but the archive is needed to build."""
    (container,) = started(box, 257, options=("--no-network",), snapshot=BUILT)
    container.run(
        f"/opt/training/bin/python -m pip uninstall -qy tiny-gpu-ops && for f in {HOUSE}/*/*.whl; do printf x >>"
        " $f; done",
        timeout=300,
    )
    fields: dict[str, Any] = {"source": tiny_extension.ARCHIVE}
    outcome = role_runs.run_one(ROLE, container, tiny_extension.variables(**fields))
    assert (outcome.sentence, outcome.changed) == ("", 1)
    assert "does not have the checksum" in outcome.result.output
    assert "add_one" in container.run(IMPORT)


def test_the_wheel_of_a_fleet_is_built_once_and_installed_without_a_compiler_or_a_network(
    box: Box, tmp_path: Path
) -> None:
    """[16] Playbook build_wheels, then the role, on two containers; the first one cannot compile and has no network."""
    bare, builder = started(box, 257, options=("--no-network",))[0], started(box, 258)[0]
    bare.run("mount -t tmpfs none /usr/local/cuda-13.0")
    house = tmp_path / "house"
    variables = {
        **tiny_extension.variables(source=tiny_extension.ARCHIVE),
        "cuda_extensions_shared_wheelhouse": str(house),
    }
    limit = f"{bare.host},{builder.host}"
    wheels = box.run_playbook(CHECKOUT / "playbooks" / "build_wheels.yml", limit, variables, timeout=900).ok()
    assert (wheels.changed(bare.host), wheels.changed(builder.host)) == (0, 1), wheels.output
    assert [path.name.split("-")[0] for path in house.glob("torch-*/*.whl")] == ["tiny_gpu_ops"]
    assert not any(one.exists(RECORD) for one in (bare, builder))
    again = box.run_playbook(CHECKOUT / "playbooks" / "build_wheels.yml", limit, variables, timeout=900).ok()
    assert (again.changed(bare.host), again.changed(builder.host)) == (0, 0), again.output
    own = {one.vmid: variables for one in (bare, builder)}
    outcomes = role_runs.run_role(ROLE, [bare, builder], own, timeout=900)
    for one in (bare, builder):
        assert (outcomes[one.vmid].sentence, outcomes[one.vmid].changed) == ("", 1)
        assert "add_one" in one.run(IMPORT)
    assert "compiling" not in outcomes[bare.vmid].result.output


# ---- changes


def test_a_changed_torch_is_noticed_and_named(box: Box, first_run: role_runs.Outcome) -> None:
    """[5] The record of another torch (a real one: tests/e2e): the installed wheel's key differs from today's."""
    (container,) = started(box, 257, snapshot=BUILT)
    container.run(f"sed -i 's/2.14.1+cu130/2.13.0+cu130/' {RECORD}")
    check = role_runs.run_one(ROLE, container, tiny_extension.variables(), check=True, diff=True)
    assert check.changed == 1
    assert "-tiny-gpu-ops 1.0 for sm_90, torch 2.13.0+cu130" in check.result.output
    outcome = role_runs.run_one(ROLE, container, tiny_extension.variables())
    assert (outcome.sentence, outcome.changed) == ("", 1)
    assert "2.14.1+cu130" in container.run(f"cat {RECORD}")


def test_a_failed_replacement_leaves_what_was_there(box: Box, first_run: role_runs.Outcome) -> None:
    """[5] The new wheel does not load into this torch: the old one stays, installed and importing."""
    (container,) = started(box, 257, snapshot=BUILT)
    outcome = role_runs.run_one(ROLE, container, tiny_extension.variables("symbol", targets=("8.0", "9.0")))
    assert "undefined symbol" in outcome.sentence
    assert "built against another torch release" in outcome.sentence
    assert installed_targets(container) == ["sm_90"]
    assert "add_one" in container.run(IMPORT)


# ---- what it says when it cannot


def test_early_obstacles_are_one_sentence_each(box: Box) -> None:
    wishes = {
        "256": tiny_extension.variables(sha256="0" * 64),
        "257": tiny_extension.variables("absent"),
        "258": tiny_extension.variables(targets=("7.0",)),
        "259": tiny_extension.variables(version="2.0"),
        "255": tiny_extension.variables(version="1"),
    }
    expected = {
        "256": "expects 0000",
        "257": "lacks absent.cu: this version cannot be built",
        "258": "cannot compile for sm_70; it knows",  # [43]
        "259": "no source archive for tiny-gpu-ops==2.0",
        "255": "write version: 1.0",
    }
    containers = started(box, *VMIDS)
    outcomes = role_runs.run_role(ROLE, containers, wishes, timeout=900)
    for container in containers:
        assert expected[container.vmid] in outcomes[container.vmid].sentence
        assert "\n" not in outcomes[container.vmid].sentence
        assert not container.exists(RECORD)
        assert container.run("ls /var/tmp").strip() == ""


def test_obstacles_in_the_machine(box: Box) -> None:
    wishes = {vmid: tiny_extension.variables() for vmid in ("256", "257", "258", "259", "255")}
    wishes["258"]["cuda_extensions_tmpdir"] = "/small"
    expected = {
        "256": "no working nvcc for CUDA 13.0",  # [1, 3]
        "257": "is a CPU build",  # [1]
        "258": "free space, or set cuda_extensions_tmpdir to a larger disk",  # [90]
        "259": "setuptools is missing",  # [91]
        "255": "ninja is missing",  # [89]
    }
    containers = started(box, *VMIDS[1:], VMIDS[0])
    containers[0].run(
        # Hidden, not moved: moving the toolkit out of an overlay's lower layer copies all of it.
        "mount -t tmpfs none /usr/local/cuda-13.0 && mkdir -p /usr/local/cuda-12.8/bin && cd /usr/local/cuda-12.8/bin"
        " && "
        "printf '#!/bin/sh\\necho Cuda compilation tools, release 12.8, V12.8.93\\n' > nvcc && chmod +x nvcc"
    )
    # What a CPU build of torch says of itself; the real one's behaviour is a fixture of the classifier's tests.
    containers[1].run(f'sed -i "s/^cuda.*=.*/cuda: Optional[str] = None/" {SITE}/torch/version.py')
    containers[2].run("mkdir /small && mount -t tmpfs -o size=20m none /small")
    containers[3].run("/opt/training/bin/python -m pip uninstall -qy setuptools", timeout=300)
    containers[4].run(
        "/opt/training/bin/python -m pip uninstall -qy ninja; rm -f /usr/bin/ninja /opt/training/bin/ninja", timeout=300
    )
    outcomes = role_runs.run_role(ROLE, containers, wishes, timeout=900)
    for container in containers:
        assert expected[container.vmid] in outcomes[container.vmid].sentence, outcomes[container.vmid].result.output


def test_failures_of_the_compiler(box: Box) -> None:
    wishes = {
        "256": tiny_extension.variables("header"),
        "257": tiny_extension.variables("cxx17"),
        "258": tiny_extension.variables(variables={}, skip_variables={"TINY_FORCE_BUILD": "TRUE"}),
    }
    expected = {
        "256": "cusparse.h is missing; it comes with libcusparse-dev-13-0",  # [46]
        "257": "needs C++20",
        "258": "needs the variable that forces a build from source",  # [41]
    }
    containers = started(box, 256, 257, 258)
    outcomes = role_runs.run_role(ROLE, containers, wishes, timeout=900)
    for container in containers:
        assert expected[container.vmid] in outcomes[container.vmid].sentence
        assert LOG in outcomes[container.vmid].sentence
        assert container.exists(LOG)


def test_killed_for_memory_says_so_with_the_number_of_jobs(box: Box) -> None:
    """[12] A container with too little memory for a compiler; the number of jobs is forced up.

    Whom the kernel ends (a compiler, pip, the setup that loads torch) depends on the machine; the sentence does not.
    """
    (container,) = started(box, 259, options=("--memory", "300"))
    fields: dict[str, Any] = {"source": tiny_extension.ARCHIVE}
    wish = {**tiny_extension.variables(**fields), "cuda_extensions_jobs": 2}
    outcome = role_runs.run_one(ROLE, container, wish, timeout=900)
    assert "the build was killed for lack of memory (1 compiler process at once" in outcome.sentence
    assert "container with a limit of 0.3 GiB" in outcome.sentence
    assert "tried again with one job" in outcome.result.output


# ---- interruptions


def test_a_build_that_was_killed_is_finished_by_the_next_run(box: Box) -> None:
    (container,) = started(box, 258)
    outcomes: list[role_runs.Outcome] = []
    runner = threading.Thread(
        target=lambda: outcomes.append(role_runs.run_one(ROLE, container, tiny_extension.variables(), timeout=900))
    )
    runner.start()
    status = wait_for(container, '"compiling"')
    container.run(f"kill -{signal.SIGKILL} {status['pid']} && pkill -9 -f '^/usr/local/cuda-13.0/bin/nvcc'; true")
    runner.join(timeout=900)
    assert outcomes[0].sentence
    assert not container.exists(RECORD)
    again = role_runs.run_one(ROLE, container, tiny_extension.variables(), timeout=900)
    assert (again.sentence, again.changed) == ("", 1)
    assert "add_one" in container.run(IMPORT)


def test_two_runs_at_once_make_one_build(box: Box) -> None:
    (container,) = started(box, 258)
    outcomes: list[role_runs.Outcome] = []

    def run() -> None:
        outcomes.append(role_runs.run_one(ROLE, container, tiny_extension.variables(), timeout=900))

    runners = [threading.Thread(target=run) for _number in range(2)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join(timeout=1000)
    assert [outcome.sentence for outcome in outcomes] == ["", ""]
    assert container.run(f"grep -c 'Successfully built' {LOG}").strip() == "1"
    assert not container.exists(f"{LOG}.1")


def test_a_build_goes_on_when_the_playbook_is_gone(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person presses Ctrl-C, or the control node goes down: the build ends by itself, and the next run finds it."""
    (container,) = started(box, 258)
    processes: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def remember(*arguments: Any, **options: Any) -> Any:
        processes.append(real(*arguments, **options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)

    def run() -> None:
        # It has no recap, being killed; when its last fork lets go of its output depends on the machine.
        with contextlib.suppress(AssertionError):
            role_runs.run_one(ROLE, container, tiny_extension.variables(), timeout=900)

    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    wait_for(container, '"compiling"')
    playbook = next(one for one in processes if "ansible-playbook" in " ".join(map(str, one.args)))  # type: ignore[arg-type]
    playbook.kill()
    monkeypatch.undo()
    again = role_runs.run_one(ROLE, container, tiny_extension.variables(), timeout=900)
    runner.join(timeout=300)
    assert again.sentence == ""
    assert container.run(f"grep -c 'Successfully built' {LOG}").strip() == "1"
    assert "add_one" in container.run(IMPORT)
