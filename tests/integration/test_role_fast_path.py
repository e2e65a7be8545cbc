# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role fast_path in containers with a real CUDA build of torch.

No GPU is here: the device nodes, the driver's files and the proof's answer are STAND-INS, and causal_conv1d is a FAKE;
transformers, fla, the child process and the lock are real.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import fast_path_fakes as fakes
from tests.integration.box import Box, Container
from tests.prepared import snapshot

pytestmark = pytest.mark.timeout(1500)

STANDINS = Path(__file__).parent / "standins"
PLAY = "- hosts: all\n  gather_facts: false\n  roles: [proxmox_gpu.training.fast_path]\n"
VARIABLES: dict[str, Any] = {"cuda_extensions_wanted": []}
LOCK = "/etc/proxmox_gpu/training.lock.json"
GPU = r"""
set -e
for name in nvidia0 nvidiactl nvidia-uvm; do mknod -m 666 /dev/$name c 1 3; done
mount -t tmpfs none /proc/driver
mkdir -p /proc/driver/nvidia/gpus/0000:01:00.0
echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159  Tue' > /proc/driver/nvidia/version
echo 'Model: NVIDIA H200' > /proc/driver/nvidia/gpus/0000:01:00.0/information
for name in libcuda libnvidia-ml libnvidia-ptxjitcompiler; do
    touch /usr/lib/x86_64-linux-gnu/$name.so.580.159
    ln -sf $name.so.580.159 /usr/lib/x86_64-linux-gnu/$name.so.1
done
useradd -m trainer
mv /opt/training/bin/python /opt/training/bin/python-real
cat > /opt/training/bin/python
chmod 755 /opt/training/bin/python
"""


@pytest.fixture(scope="module")
def host(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A host whose functions are all bound (the fake computes nothing here)."""
    made = "268" not in box.status()["containers"]
    container = box.container(268).fresh("--from", snapshot("torch"))
    site = container.run("echo /opt/training/lib/python3*/site-packages").strip()
    folder = fakes.conv(tmp_path_factory.mktemp("conv"))
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        container.write(f"{site}/{file.relative_to(folder)}", file.read_text())
    yield container
    if made:
        box.testbed("remove", "268")


@pytest.fixture(scope="module")
def play(box: Box, host: Container) -> Callable[..., Any]:
    def run(check: bool = False, **more: Any) -> Any:
        return box.run_playbook(PLAY, host.host, {**VARIABLES, **more}, check=check, diff=check)

    return run


def test_check_writes_nothing(host: Container, play: Callable[..., Any]) -> None:
    result = play(check=True).ok()
    assert result.changed(host.host) > 0
    assert not host.exists(LOCK) and not host.exists("/var/lib/proxmox_gpu/binding.json")


def test_bound_is_recorded_and_locked(host: Container, play: Callable[..., Any]) -> None:
    play().ok()
    lock = json.loads(host.run(f"cat {LOCK}"))
    assert lock["distributions"]["causal-conv1d"] == "1.7.0" and lock["distributions"]["tokenizers"][0].isdigit()
    assert len(lock["binding"]["functions"]) == 4 and lock["proof"] is None


def test_second_run_and_second_check_change_nothing(host: Container, play: Callable[..., Any]) -> None:
    before = host.run(f"stat -c %Y {LOCK}; md5sum {LOCK}")
    assert play().ok().changed(host.host) == 0
    assert play(check=True).ok().changed(host.host) == 0
    assert host.run(f"stat -c %Y {LOCK}; md5sum {LOCK}") == before


def test_a_required_proof_without_a_gpu_fails_in_a_sentence(play: Callable[..., Any]) -> None:
    result = play(fast_path_require_proof=True)
    assert result.rc != 0
    assert "No GPU here" in result.output and "fast_path_require_proof" in result.output


@pytest.fixture(scope="class")
def gpu(host: Container) -> None:
    host.run(GPU, stdin=(STANDINS / "training_interpreter.py").read_text())
    host.write("/srv/proof.json", (STANDINS / "h200_proof_ok.json").read_text())


@pytest.mark.usefixtures("gpu")
class TestWithAGpu:
    """Everything from here on has the stand-ins for a GPU."""

    OPTIONS: dict[str, Any] = {"fast_path_training_user": "trainer", "fast_path_metrics_path": "/srv/fast_path.prom"}

    def test_it_is_proven_as_the_training_user(self, host: Container, play: Callable[..., Any]) -> None:
        play(**self.OPTIONS).ok()
        proof = json.loads(host.run("cat /var/lib/proxmox_gpu/proof.json"))
        assert (proof["ok"], proof["gpu"], proof["slower"]) == (True, "NVIDIA H200", [])
        assert json.loads(host.run("cat /var/lib/proxmox_gpu/binding.json"))["binding"]["uid"] != 0
        assert json.loads(host.run(f"cat {LOCK}"))["proof"]["figures"]
        assert "proxmox_gpu_fast_path_ratio" in host.run("cat /srv/fast_path.prom")
        assert host.run("stat -c %U /var/cache/proxmox_gpu/triton").strip() == "trainer"
        login = "su - trainer -c 'echo $TRITON_CACHE_DIR'"
        assert host.run(login).strip() == "/var/cache/proxmox_gpu/triton"

    def test_a_second_run_proves_nothing_again(self, host: Container, play: Callable[..., Any]) -> None:
        assert play(**self.OPTIONS).ok().changed(host.host) == 0

    def test_a_slow_down_is_named_and_the_lock_stays(self, host: Container, play: Callable[..., Any]) -> None:
        before = host.run(f"md5sum {LOCK}")
        answer = json.loads((STANDINS / "h200_proof_ok.json").read_text())
        for row in answer["gpus"][0]["fast"]["rows"]:
            row.update(forward_ms=row["forward_ms"] * 1.2, training_ms=row["training_ms"] * 1.2)
        host.write("/srv/proof.json", json.dumps(answer))
        # A proof that still counts is made again on request alone: so a night's run finds a slow-down.
        assert play(**self.OPTIONS).ok().changed(host.host) == 0
        assert play(**self.OPTIONS, fast_path_prove_again=True).changed(host.host) > 0
        slower = json.loads(host.run("cat /var/lib/proxmox_gpu/proof.json"))["slower"]
        assert "proxmox_gpu_fast_path_slower 4" in host.run("cat /srv/fast_path.prom")
        assert len(slower) == 4 and "20 % more than the" in slower[0]
        assert host.run(f"md5sum {LOCK}") == before

    def test_another_model_is_proven_and_compared_with_nothing(self, host: Container, play: Callable[..., Any]) -> None:
        play(**self.OPTIONS, fast_path_proof_lengths=[1024])
        proof = json.loads(host.run("cat /var/lib/proxmox_gpu/proof.json"))
        assert (proof["slower"], proof["key"]["lengths"]) == ([], "1024")

    def test_a_backward_that_refuses_fails_with_what_to_do(self, host: Container, play: Callable[..., Any]) -> None:
        host.write("/srv/proof.json", (STANDINS / "h200_proof_backward_refuses.json").read_text())
        host.run("rm /var/lib/proxmox_gpu/proof.json")
        result = play(**self.OPTIONS)
        assert result.rc != 0
        (failure,) = result.failures()
        assert failure.task.endswith("Stop if the proof failed")
        assert json.loads(host.run("cat /var/lib/proxmox_gpu/proof.json"))["ok"] is False
