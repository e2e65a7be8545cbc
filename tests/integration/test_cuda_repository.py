# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA repository stand-in against a real apt, and NVIDIA's compiler out of it against a real .cu file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import cuda_repository
from testbed.cuda_repository import faults, server
from tests.integration.box import Box, Container

pytestmark = pytest.mark.timeout(600)

NAME = "debian12/x86_64"
KEYRING = f"compute/cuda/repos/{NAME}/cuda-keyring_1.1-1_all.deb"
NVIDIA = "https://developer.download.nvidia.com/compute/cuda/repos"
DRIVERS = re.compile(r"^Inst (cuda-drivers|nvidia-|libnvidia|libcuda1)", re.MULTILINE)
# apt with the stand-in as its only source, its state apart, and every warning an error.
APT = "-o Dir::Etc::sourcelist=/root/cuda.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=/root/lists"
UPDATE = f"mkdir -p /root/lists && apt-get update --error-on=any -o Acquire::Retries=0 {APT} 2>&1"

PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
#include <cub/cub.cuh>
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <cusparse.h>
__global__ void twice(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }
int main() {
    int version = 0;
    cudaError_t error = cudaRuntimeGetVersion(&version);
    twice<<<1, 1>>>(nullptr, 0);
    std::printf("%d %d\n", (int)error, version);
}
"""


def register(container: Container, running: server.Server) -> None:
    """Install the keyring of ``running`` as a person would, and put its address for NVIDIA's."""
    listed = "/etc/apt/sources.list.d/cuda-debian12-x86_64.list"
    container.run(
        f"cd /root && rm -rf lists cuda.list keyring.deb && /usr/lib/apt/apt-helper download-file "
        f"{running.url}/{KEYRING} keyring.deb && dpkg --purge cuda-keyring 2>&1 && dpkg -i keyring.deb && "
        f"sed 's|{NVIDIA}|{running.url}/compute/cuda/repos|' {listed} > cuda.list"
    )


@pytest.fixture(scope="module")
def built(box: Box) -> Path:
    return cuda_repository.build(box.layout.cuda_repository, box.layout.cache / "cuda_repository", print)


@pytest.fixture(scope="module")
def container(box: Box) -> Iterator[Container]:
    yield box.fresh(270)
    box.testbed("remove", "270")


@pytest.fixture(scope="module")
def good(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Server]:
    with server.serving(built, tmp_path_factory.mktemp("good") / "access.log") as running:
        yield running


@pytest.fixture
def registered(container: Container, good: server.Server) -> Container:
    register(container, good)
    container.run(UPDATE)
    return container


def test_second_build_does_nothing(box: Box, built: Path) -> None:
    before = (built / "manifest.json").stat().st_mtime_ns
    said: list[str] = []
    cuda_repository.build(box.layout.cuda_repository, box.layout.cache / "cuda_repository", said.append)
    assert said == []
    assert (built / "manifest.json").stat().st_mtime_ns == before


def test_keyring_names_nvidias_true_address(registered: Container) -> None:
    line = registered.run("cat /etc/apt/sources.list.d/cuda-debian12-x86_64.list").strip()
    assert line == f"deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {NVIDIA}/{NAME}/ /"


def test_apt_takes_candidates_with_nvidias_label_and_priority(registered: Container) -> None:
    policy = registered.run(f"apt-cache policy {APT}")
    assert "l=NVIDIA CUDA" in policy and re.search(r"^ 600 http://127", policy, re.MULTILINE)
    candidate = registered.run(f"apt-cache policy {APT} cuda-nvcc-13-0")
    assert "Candidate: 13.0.88-1" in candidate and "13.0.48-1 600" in candidate


@pytest.mark.parametrize(
    ("package", "pulls_driver"),
    [("cuda", True), ("cuda-13-0", True), ("cuda-runtime-12-8", True), ("cuda-minimal-build-13-0", False)],
)
def test_traps_spring_in_a_simulation(
    container: Container, good: server.Server, package: str, pulls_driver: bool
) -> None:
    register(container, good)
    both = "cat /root/cuda.list > /etc/apt/sources.list.d/cuda-debian12-x86_64.list && apt-get update -qq 2>/dev/null"
    plan = container.run(f"{both}; apt-get install -s --no-install-recommends {package}")
    assert bool(DRIVERS.search(plan)) is pulls_driver
    assert f"Inst {package} (" in plan


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (faults.wrong_signature, "NO_PUBKEY"),
        (faults.expired_key, "EXPKEYSIG"),
        (faults.unsigned, "is not signed"),
        (faults.publishing_index, "File has unexpected size"),
        (faults.missing_packages, "404"),
        (faults.malformed_packages, "section with no Package: header"),
        (faults.keyring_foreign_key, "NO_PUBKEY"),
    ],
)
def test_apt_refuses_a_broken_copy(
    built: Path, container: Container, tmp_path: Path, fault: faults.Fault, sentence: str
) -> None:
    target = fault(built, tmp_path / "broken")
    with server.serving(target, tmp_path / "access.log") as running:
        register(container, running)
        done = container.attach(UPDATE)
    assert done.returncode == 100
    assert sentence in done.stdout


def test_apt_refuses_a_package_that_is_being_published(built: Path, container: Container, tmp_path: Path) -> None:
    target = faults.publishing_pool(built, tmp_path / "broken", package="cuda-crt-13-0")
    with server.serving(target, tmp_path / "access.log") as running:
        register(container, running)
        container.run(UPDATE)
        done = container.attach(f"cd /root && apt-get download {APT} cuda-crt-13-0 2>&1")
    assert done.returncode == 100
    assert "Hash Sum mismatch" in done.stdout or "unexpected size" in done.stdout


def test_a_series_can_be_missing(built: Path, container: Container, tmp_path: Path) -> None:
    target = faults.without_series(built, tmp_path / "broken")
    with server.serving(target, tmp_path / "access.log") as running:
        register(container, running)
        container.run(UPDATE)
        names = container.run(f"apt-cache pkgnames {APT} cuda-nvcc-").split()
        assert container.attach(f"apt-get install -s {APT} cuda-nvcc-13-0").returncode == 100
    assert sorted(names) == ["cuda-nvcc-12-8", "cuda-nvcc-13-2"]


def test_keyring_of_a_changed_copy_installs_and_has_another_checksum(
    built: Path, container: Container, tmp_path: Path
) -> None:
    target = faults.keyring_checksum(built, tmp_path / "broken")
    wanted = json.loads((target / "manifest.json").read_text())["repositories"][NAME]["keyring_sha256"]
    with server.serving(target, tmp_path / "access.log") as running:
        register(container, running)
        assert wanted not in container.run("sha256sum /root/keyring.deb")


def test_server_answers_503_while_it_is_told_to(registered: Container, good: server.Server) -> None:
    server.set_faults(good.faults, [(f"/compute/cuda/repos/{NAME}", 503)])
    try:
        assert "503" in registered.attach(UPDATE).stdout
    finally:
        server.set_faults(good.faults, [])
    registered.run(UPDATE)


def test_nvcc_from_the_repository_compiles_for_sm_90(container: Container, good: server.Server) -> None:
    """NVIDIA's compiler, headers and runtime work as installed by apt: compile, link both ways, run."""
    register(container, good)
    packages = "cuda-nvcc-13-0=13.0.88-1 cuda-cudart-dev-13-0=13.0.96-1 "
    packages += "libcublas-dev-13-0 libcusparse-dev-13-0 libcusolver-dev-13-0"
    container.run(
        "cat /root/cuda.list > /etc/apt/sources.list.d/cuda-debian12-x86_64.list && apt-get update -qq && "
        "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "
        f"-o Dpkg::Options::=--force-unsafe-io {packages}",
        timeout=500,
    )
    home = "/usr/local/cuda-13.0"
    assert "release 13.0, V13.0.88" in container.run(f"{home}/bin/nvcc --version")
    assert container.run("readlink -f /usr/local/cuda /usr/local/cuda-13").split() == [home, home]
    container.run("dpkg --verify cuda-nvcc-13-0 cuda-cudart-dev-13-0 cuda-cccl-13-0 libnvvm-13-0")
    container.run("cat > /root/twice.cu", stdin=PROGRAM)
    build = f"cd /root && {home}/bin/nvcc -std=c++17 -gencode arch=compute_90,code=sm_90"
    assert container.run(f"{build} -o static twice.cu && ./static").split() == ["0", "13000"]
    container.run(f"{build} -Xcompiler -fPIC -c -o twice.o twice.cu")
    container.run(f"cd /root && g++ -shared twice.o -L{home}/lib64 -lcudart -L{home}/lib64/stubs -lcuda -o twice.so")
    needed = container.run("readelf -d /root/twice.so")
    assert "[libcudart.so.13]" in needed and "libcudart.so.13" in container.run("ldconfig -p")


def test_drivers_can_be_pinned_away(registered: Container) -> None:
    """The stand-in's label answers to the pin that the product writes."""
    names = "cuda-drivers nvidia-open nvidia-* libnvidia-* libcuda1"
    pin = f"Package: {names}\nPin: release l=NVIDIA CUDA\nPin-Priority: -1\n"
    registered.run("cat > /etc/apt/preferences.d/00-test", stdin=pin)
    try:
        done = registered.attach(f"apt-get install -s {APT} cuda-runtime-13-0 2>&1")
        assert done.returncode == 100
        assert "nvidia-open" in done.stdout
    finally:
        registered.run("rm /etc/apt/preferences.d/00-test")
