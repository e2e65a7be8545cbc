# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After role cuda_toolkit extensions can be compiled for this torch, and nothing can bring a driver in."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

PYTHON = "/opt/training/bin/python"
NVCC = "/usr/local/cuda-13.0/bin/nvcc"


def test_nvcc_is_of_torchs_cuda(host: Host) -> None:
    cuda = host.check_output(f"{PYTHON} -c 'import torch; print(torch.version.cuda)'")
    assert f"release {cuda}," in host.check_output(f"{NVCC} --version")


@pytest.mark.parametrize("package", ["cuda-nvcc-13-0", "cuda-cudart-dev-13-0"])
def test_the_package_is_held(host: Host, package: str) -> None:
    assert package in host.check_output("apt-mark showhold").splitlines()


@pytest.mark.parametrize("package", ["cuda-drivers", "nvidia-driver", "cuda", "cuda-runtime-13-0"])
def test_apt_refuses_a_driver(host: Host, package: str) -> None:
    assert host.run(f"apt-get install --simulate --yes {package}").rc != 0


def test_no_driver_package_is_there(host: Host) -> None:
    installed = host.check_output("dpkg-query --show --showformat '${Package}\\n'").splitlines()
    assert [name for name in installed if name.startswith(("nvidia-driver", "cuda-drivers", "libnvidia-"))] == []


def test_the_probe_was_compiled(host: Host) -> None:
    assert json.loads(host.file("/var/lib/proxmox_gpu/compile_probe.json").content_string)["ok"] is True


def test_the_probe_was_compiled_by_this_nvcc(host: Host) -> None:
    key = json.loads(host.file("/var/lib/proxmox_gpu/compile_probe.json").content_string)["key"]
    assert f"V{key['nvcc']}" in host.check_output(f"{NVCC} --version")


def test_a_kernel_compiles_by_hand(host: Host) -> None:
    source = "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }"
    assert host.run(f"cd /tmp && echo '{source}' > a.cu && {NVCC} -arch=sm_90 -c a.cu -o a.o && rm a.cu a.o").rc == 0
