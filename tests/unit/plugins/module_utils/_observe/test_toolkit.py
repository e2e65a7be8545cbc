# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 6, facts: compilers of every origin, pins, and what the lists offer."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import pins, toolkit

NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {0}, V{0}.88\n"
HEADERS = ("include/cuda_runtime.h", "include/crt/host_config.h", "include/cccl/cub/cub.cuh", "nvvm/bin/cicc")
BLOCK = (
    "Package: cuda-drivers cuda-drivers-* nvidia-driver* nvidia-open*\nPin: release l=NVIDIA CUDA\nPin-Priority: -1\n"
)


def install(machine: Any, version: str, home: str | None = None) -> str:
    home = home or f"/usr/local/cuda-{version}"
    machine.program(f"{home}/bin/nvcc", NVCC.format(version))
    for header in HEADERS:
        machine.file(f"{home}/{header}")
    return home


def observed(machine: Any, **wishes: Any) -> dict[str, Any]:
    return toolkit.observe(machine.host, wishes)


def test_machine_without_anything(machine: Any) -> None:
    facts = observed(machine)
    assert facts["nvccs"] == facts["drivers"] == facts["series"] == []
    assert facts["packages"] == facts["pins"] == {}
    assert facts["default_nvcc"] is None


def test_toolkit_of_packages(machine: Any) -> None:
    install(machine, "13.0")
    machine.link("/usr/local/cuda", "cuda-13.0")
    machine.status(
        ("cuda-nvcc-13-0", "hold ok installed", "13.0.88-1"),
        ("libcublas-dev-13-0", "install ok installed", "13.1.0.3-1"),
    )
    machine.file("/var/lib/dpkg/info/cuda-nvcc-13-0.list", "/usr/local/cuda-13.0/bin/nvcc\n")
    facts = observed(machine)
    [nvcc] = facts["nvccs"]
    assert (nvcc["path"], nvcc["version"], nvcc["package"], nvcc["missing"]) == (
        "/usr/local/cuda-13.0/bin/nvcc",
        "13.0.88",
        "cuda-nvcc-13-0",
        [],
    )
    assert facts["packages"]["cuda-nvcc-13-0"] == {"version": "13.0.88-1", "held": True}
    assert facts["packages"]["libcublas-dev-13-0"]["held"] is False
    assert facts["default_nvcc"]["reason"] == "where /usr/local/cuda points"


def test_what_the_variables_name_is_looked_for_with_a_series_or_without(machine: Any) -> None:
    machine.status(
        ("libcurand-dev-13-0", "install ok installed", "10.4-1"),
        ("cuda-nvcc-13-0", "install ok installed", "13.0.88-1"),
        ("cmake", "install ok half-configured", "3.25"),
        ("vim", "install ok installed", "9"),
    )
    found = observed(machine, toolkit_packages=["libcurand-dev", "cuda-nvcc-13-0", "cmake"])["wished"]
    assert found == {"libcurand-dev-13-0": "10.4-1", "cuda-nvcc-13-0": "13.0.88-1"}


def test_toolkit_by_hand_has_no_package(machine: Any) -> None:
    install(machine, "13.0")
    assert observed(machine)["nvccs"][0]["package"] is None


def test_missing_parts_are_named(machine: Any) -> None:
    home = install(machine, "13.0")
    (machine.root / home.lstrip("/") / "include/cuda_runtime.h").unlink()
    assert observed(machine)["nvccs"][0]["missing"] == ["cudart"]


def test_nvcc_that_does_not_work(machine: Any) -> None:
    machine.file("/usr/local/cuda-12.8/bin/nvcc", "#!/bin/sh\necho 'cannot find cicc' >&2\nexit 1\n", 0o755)
    [nvcc] = observed(machine)["nvccs"]
    assert (nvcc["version"], nvcc["problem"]) == (None, "cannot find cicc")


def test_conda_and_pip_compilers_of_the_environment(machine: Any) -> None:
    install(machine, "13.0", "/opt/conda/envs/a")
    install(machine, "13.2", "/opt/conda/envs/a/lib/python3.12/site-packages/nvidia/cu13")
    found = observed(machine, environment_path="/opt/conda/envs/a")["nvccs"]
    assert [nvcc["version"] for nvcc in found] == ["13.0.88", "13.2.88"]


def test_first_on_path_wins_over_the_link(machine: Any) -> None:
    install(machine, "13.0")
    machine.link("/usr/local/cuda", "cuda-13.0")
    machine.program("/usr/bin/nvcc", NVCC.format("12.0"))
    default = observed(machine)["default_nvcc"]
    assert (default["path"], default["reason"]) == ("/usr/bin/nvcc", "first on PATH")


def test_cuda_home_wins_over_path(machine: Any) -> None:
    install(machine, "13.0")
    machine.program("/usr/bin/nvcc", NVCC.format("12.0"))
    machine.file("/etc/environment", 'CUDA_HOME="/usr/local/cuda-13.0"\n')
    facts = observed(machine)
    assert facts["default_nvcc"]["reason"] == "CUDA_HOME in /etc/environment"
    assert facts["cuda_homes"][0]["usable"]


def test_the_last_file_that_a_login_reads_wins(machine: Any) -> None:
    install(machine, "13.0")
    install(machine, "12.8")
    machine.file("/etc/environment", "CUDA_HOME=/usr/local/cuda-12.8\n")
    machine.file("/etc/profile.d/cuda.sh", "export CUDA_HOME=/usr/local/cuda-13.0\n")
    assert observed(machine)["default_nvcc"]["reason"] == "CUDA_HOME in /etc/profile.d/cuda.sh"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("export CUDA_HOME=/usr/local/cuda-12.4\n", "/usr/local/cuda-12.4"),
        ("CUDA_HOME=:/usr/local/cuda\n", ":/usr/local/cuda"),
        ("export CUDA_HOME=$CUDA_HOME:/usr/local/cuda\n", "$CUDA_HOME:/usr/local/cuda"),
    ],
)
def test_cuda_home_without_a_compiler(machine: Any, line: str, value: str) -> None:
    machine.file("/etc/profile.d/cuda.sh", f"# CUDA_HOME=/x\n{line}")
    [found] = observed(machine)["cuda_homes"]
    assert (found["value"], found["usable"]) == (value, False)


def test_cuda_home_that_a_shell_must_expand_is_left_alone(machine: Any) -> None:
    machine.file("/etc/profile.d/cuda.sh", "export CUDA_HOME=$PREFIX/cuda\n")
    assert observed(machine)["cuda_homes"] == []


@pytest.mark.parametrize(
    ("name", "driver"),
    [("cuda-drivers", True), ("cuda-drivers-580", True), ("nvidia-driver", True), ("nvidia-driver-580-open", True),
     ("nvidia-dkms-580", True), ("nvidia-kernel-open-dkms", True), ("nvidia-headless-580", True), ("nvidia-open", True),
     ("linux-modules-nvidia-580-generic", True), ("libcuda1", False), ("libnvidia-compute-580", False),
     ("nvidia-driver-libs", False), ("nvidia-container-toolkit", False), ("cuda-driver-dev-13-0", False),
     ("nvidia-cuda-toolkit", False), ("nvidia-utils-580", False)],
)  # fmt: skip
def test_driver_packages(machine: Any, name: str, driver: bool) -> None:
    machine.status((name, "install ok installed", "1"))
    assert observed(machine)["drivers"] == ([name] if driver else [])


def test_series_of_the_lists(machine: Any) -> None:
    text = "Package: cuda-nvcc-{}\nVersion: 1\n\nPackage: cuda-nvcc-doc\n"
    stem = "/var/lib/apt/lists/{}_compute_cuda_repos_debian12_x86%5f64_Packages"
    machine.file(stem.format("a.example"), text.format("13-0"))
    machine.file(stem.format("b.example"), text.format("12-8"))
    machine.file("/var/lib/apt/lists/other.example_debian_Packages", text.format("9-9"))
    assert observed(machine)["series"] == ["12-8", "13-0"]


def test_series_of_a_compressed_list(machine: Any) -> None:
    machine.file("/var/lib/apt/lists/m.lan_nv_debian12_x86%5f64_Packages.lz4", b"\x04\x22")
    machine.file("/usr/lib/apt/apt-helper", "#!/bin/sh\nprintf 'Package: cuda-nvcc-13-2\\n'\n", 0o755)
    assert observed(machine, mirror="http://m.lan/nv")["series"] == ["13-2"]


@pytest.mark.parametrize(
    ("name", "text", "blocked"),
    [
        ("no-drivers", BLOCK, True),
        ("no-drivers.pref", BLOCK, True),
        ("no-drivers.bak", BLOCK, False),
        ("no-drivers", BLOCK.replace("-1", "600"), False),
        ("no-drivers", BLOCK.replace("nvidia-open*", ""), False),
        ("no-drivers", "# nothing\nPackage: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n", False),
        ("no-drivers", "Package: /^(cuda-drivers|nvidia-)/\nPin: release l=NVIDIA CUDA\nPin-Priority: -1\n", True),
        ("no-drivers", BLOCK.replace(" nvidia", "\n nvidia"), True),
    ],
)
def test_drivers_blocked(machine: Any, name: str, text: str, blocked: bool) -> None:
    machine.file(f"/etc/apt/preferences.d/{name}", text)
    assert observed(machine)["drivers_blocked"] is blocked


def test_pins_of_strangers_are_not_shown(machine: Any) -> None:
    machine.file("/etc/apt/preferences.d/backports", "Package: *\nPin: release a=backports\nPin-Priority: 100\n")
    assert pins.files(machine.host) == {}


@pytest.mark.parametrize(("package", "found"), [("cuda-*", True), ("*", True), ("cuda-drivers nvidia-*", False)])
def test_a_record_that_forbids_the_compiler(package: str, found: bool) -> None:
    records = {"/etc/apt/preferences.d/no": [{"package": package, "pin": "origin *.nvidia.com", "priority": -1}]}
    assert bool(pins.forbidding(records, "cuda-nvcc-13-0")) == found
