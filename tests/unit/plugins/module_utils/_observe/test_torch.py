# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 4, facts: environments in all the shapes that they come in, read from files alone."""

from __future__ import annotations

import platform
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import distributions, torch

SITE = "/opt/training/lib/python3.11/site-packages"
VERSION = """from typing import Optional
__version__ = '2.14.1+cu130'
debug = False
cuda: Optional[str] = '13.0'
hip: Optional[str] = None
"""
METADATA = """Metadata-Version: 2.1
Name: torch
Requires-Dist: filelock
Requires-Dist: triton~=3.8.0; platform_system == "Linux" and python_version < "3.15"
Requires-Dist: cuda-toolkit[cublas,nvrtc]==13.0.3; platform_system == "Linux"
Requires-Dist: nvidia-cudnn==9.1.0; platform_system == "Linux" and platform_machine == "MACHINE"
Requires-Dist: other==1; platform_system == "Windows"
Requires-Dist: opt-einsum==3.3; extra == "opt-einsum"
Requires-Dist: setuptools==70; python_version >= "3.12"

Requires-Dist: not-this==1
"""


@pytest.fixture
def venv(machine: Any) -> Any:
    machine.program("/usr/bin/python3.11")
    machine.link("/opt/training/bin/python3", str(machine.root / "usr/bin/python3.11"))
    machine.link("/opt/training/bin/python", "python3")
    machine.file(
        "/opt/training/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n"
    )
    machine.file(f"{SITE}/pip-25.2.dist-info/METADATA")
    return machine


@pytest.fixture
def with_torch(venv: Any) -> Any:
    venv.file(f"{SITE}/torch/version.py", VERSION)
    venv.file(f"{SITE}/torch-2.14.1.dist-info/METADATA", METADATA.replace("MACHINE", platform.machine()))
    return venv


def observed(machine: Any, path: str = "/opt/training") -> dict[str, Any]:
    return torch.observe(machine.host, {"environment_path": path})


def test_environment_that_is_not_there(machine: Any) -> None:
    facts = observed(machine)
    assert (facts["python"], facts["version"], facts["elsewhere"]) == (None, None, [])


def test_torch_elsewhere_is_named(machine: Any) -> None:
    machine.file("/opt/conda/envs/train/lib/python3.12/site-packages/torch/version.py", VERSION)
    assert observed(machine)["elsewhere"] == ["/opt/conda/envs/train"]


def test_environment_without_torch(venv: Any) -> None:
    facts = observed(venv)
    assert facts["python"] == "/opt/training/bin/python"
    assert (facts["python_version"], facts["python_tag"]) == ("3.11.2", "cp311")
    assert facts["version"] is None
    assert facts["distributions"] == {"pip": "25.2"}


def test_cuda_build(with_torch: Any) -> None:
    facts = observed(with_torch)
    assert (facts["version"], facts["cuda"], facts["hip"]) == ("2.14.1+cu130", "13.0", None)
    assert facts["site_packages"] == SITE
    assert "problem" not in facts


def test_requirements_are_the_pins_that_apply_here(with_torch: Any) -> None:
    assert observed(with_torch)["requirements"] == [
        {"name": "triton", "spec": "~=3.8.0"},
        {"name": "cuda-toolkit", "spec": "==13.0.3"},
        {"name": "nvidia-cudnn", "spec": "==9.1.0"},
    ]


def test_libraries_that_are_gone_or_cut_short(with_torch: Any) -> None:
    with_torch.file(f"{SITE}/torch/lib/libtorch_cuda.so", "12345")
    record = with_torch.file(
        f"{SITE}/torch-2.14.1.dist-info/RECORD",
        "torch/__init__.py,sha256=a,7\r\ntorch/lib/libtorch_cuda.so,sha256=b,5\r\n",
    )
    assert observed(with_torch)["damaged"] == []
    record.write_bytes(record.read_bytes().replace(b"b,5", b"b,900"))
    [found] = observed(with_torch)["damaged"]
    assert (found["name"], found["problem"]) == ("torch", "holds 5 of its 900 bytes")
    with_torch.file(f"{SITE}/nvidia_cudnn-9.1.0.dist-info/RECORD", "nvidia/cudnn/lib/libcudnn.so.9,sha256=c,9\n")
    assert [one["problem"] for one in observed(with_torch)["damaged"]] == ["is gone", "holds 5 of its 900 bytes"]


def test_what_packages_need_counts_in_an_environment_of_the_role(with_torch: Any) -> None:
    with_torch.file(
        f"{SITE}/fla_0-0.5.2.dist-info/METADATA",
        "Name: fla-0\nRequires-Dist: fla-core==0.5.2\nRequires-Dist: pip>=20\nRequires-Dist: conda; extra == 'x'\n\n",
    )
    assert "lacking" not in observed(with_torch)
    with_torch.file("/opt/training/proxmox_gpu.json", "{}")
    needs = [need for need in observed(with_torch)["lacking"] if need["by"] == "fla-0"]
    assert needs == [{"name": "fla-core", "spec": "==0.5.2", "by": "fla-0"}]


def test_conda_brings_torch_s_libraries_in_its_own_way(with_torch: Any) -> None:
    with_torch.file("/opt/training/conda-meta/python-3.11.9-h1_0.json")
    facts = observed(with_torch)
    assert facts["requirements"] == []


def test_cpu_build(venv: Any) -> None:
    venv.file(f"{SITE}/torch/version.py", "__version__ = '2.14.1+cpu'\ncuda = None\nhip = None\n")
    facts = observed(venv)
    assert (facts["version"], facts["cuda"]) == ("2.14.1+cpu", None)


def test_build_for_amd(venv: Any) -> None:
    venv.file(f"{SITE}/torch/version.py", "__version__ = '2.14.1+rocm7'\ncuda = None\nhip = '7.0'\n")
    assert observed(venv)["hip"] == "7.0"


@pytest.mark.parametrize(("flag", "abi"), [("1", True), ("0", False), (None, None)])
def test_cxx11_abi(with_torch: Any, flag: str | None, abi: bool | None) -> None:
    if flag:
        text = f'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI={flag}")\n'
        with_torch.file(f"{SITE}/torch/share/cmake/Torch/TorchConfig.cmake", text)
    assert observed(with_torch)["cxx11_abi"] is abi


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (f"{SITE}/torch-2.13.0.dist-info/METADATA", "it has the metadata of 2 versions"),
        (f"{SITE}/~orch-2.13.0.dist-info/METADATA", "pip left the remains of another version"),
    ],
)
def test_half_installed(with_torch: Any, path: str, problem: str) -> None:
    with_torch.file(path)
    assert observed(with_torch)["problem"].startswith(problem)


def test_metadata_without_files(venv: Any) -> None:
    venv.file(f"{SITE}/torch-2.14.1.dist-info/METADATA")
    facts = observed(venv)
    assert facts["version"] is None
    assert "torch/version.py is not" in facts["problem"]


def test_files_without_metadata(venv: Any) -> None:
    venv.file(f"{SITE}/torch/version.py", VERSION)
    facts = observed(venv)
    assert facts["version"] == "2.14.1+cu130"
    assert "as when pip was stopped" in facts["problem"]


def test_files_of_another_version_than_the_metadata(with_torch: Any) -> None:
    with_torch.file(f"{SITE}/torch/version.py", VERSION.replace("2.14.1", "2.13.0"))
    assert observed(with_torch)["problem"] == "its files are version 2.13.0+cu130 and its metadata says 2.14.1"


def test_python_whose_link_leads_nowhere(machine: Any) -> None:
    machine.link("/opt/training/bin/python", "/usr/bin/python3.9")
    facts = observed(machine)
    assert facts["python"] is None
    assert facts["broken_python"]["problem"] == "points to /usr/bin/python3.9, which is not there"


def test_environment_made_for_an_older_python(with_torch: Any) -> None:
    with_torch.program("/usr/bin/python3.13")
    link = with_torch.root / "opt/training/bin/python3"
    link.unlink()
    link.symlink_to(with_torch.root / "usr/bin/python3.13")
    assert (
        observed(with_torch)["broken_python"]["problem"]
        == "is Python 3.13 now, and the environment was made for python3.11"
    )


def test_packages_of_the_system_count_where_the_environment_includes_them(with_torch: Any) -> None:
    with_torch.file("/usr/lib/python3/dist-packages/numpy-2.1.egg-info")
    assert "numpy" not in observed(with_torch)["distributions"]
    with_torch.file("/opt/training/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\n")
    assert observed(with_torch)["distributions"]["numpy"] == "2.1"


def test_the_system_s_own_python_is_an_environment_too(machine: Any) -> None:
    machine.program("/usr/bin/python3")
    machine.file("/usr/local/lib/python3.11/dist-packages/torch/version.py", VERSION)
    facts = observed(machine, "/usr")
    assert (facts["version"], facts["python_tag"]) == ("2.14.1+cu130", "cp311")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Causal_Conv1d-1.7.0.dist-info", {"causal-conv1d": "1.7.0"}),
        ("apache_tvm_ffi-0.1.9-py3.11.egg-info", {"apache-tvm-ffi": "0.1.9"}),
        ("torch-2.14.1+cu130.dist-info", {"torch": "2.14.1+cu130"}),
        ("~orch-2.14.1.dist-info", {}),
        ("torch", {}),
        ("__editable__.x.pth", {}),
    ],
)
def test_names_of_metadata_folders(machine: Any, name: str, found: dict[str, str]) -> None:
    machine.file(f"{SITE}/{name}/x")
    assert distributions.installed(machine.host, [SITE]) == found


@pytest.mark.parametrize(
    ("home", "prefix"), [("/usr/bin", "/usr"), ("/opt/python/bin", "/opt/python"), ("/bin", "/usr")]
)
def test_python_headers_are_those_of_the_base_python(machine: Any, home: str, prefix: str) -> None:
    machine.file("/opt/training/pyvenv.cfg", f"home = {home}\n")
    header = f"{prefix}/include/python3.11/Python.h"
    assert distributions.python_headers(machine.host, "/opt/training", "3.11.2") == {"path": header, "exists": False}
    machine.file(header)
    assert distributions.python_headers(machine.host, "/opt/training", "3.11.2") == {"path": header, "exists": True}
