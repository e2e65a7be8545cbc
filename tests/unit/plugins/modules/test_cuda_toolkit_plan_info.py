# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host, Output
from ansible_collections.proxmox_gpu.training.plugins.module_utils._toolkit_plan import PlanError
from ansible_collections.proxmox_gpu.training.plugins.modules import cuda_toolkit_plan_info as info

STATUS = """\
Package: g++
Status: install ok installed
Version: 4:12.2.0-3

Package: ninja-build
Status: install ok installed
Version: 1.11.1-2

Package: cuda-nvcc-12-8
Status: hold ok installed
Version: 12.8.93-1
"""
NVCC = "cuda-nvcc-13-0 | 13.0.88-1 | http://m  Packages\ncuda-cudart-dev-13-0 | 13.0.96-1 | http://m  Packages\n"
PLAN = "Inst cuda-crt-13-0 (13.0.88-1 NVIDIA CUDA:m [amd64])\nInst cuda-nvcc-13-0 (13.0.88-1 NVIDIA CUDA:m [amd64])\n"
ANSWERS = {
    ("apt-cache", "pkgnames"): Output(0, "cuda-nvcc-13-0\ncuda-cudart-dev-13-0\n", ""),
    ("apt-cache", "madison"): Output(0, NVCC, ""),
    ("apt-cache", "depends"): Output(0, "cuda-nvcc-13-0\n  Depends: cuda-crt-13-0\ncuda-crt-13-0\nlibc6\n", ""),
    ("apt-get", "--simulate"): Output(0, PLAN, ""),
}
WISH: dict[str, Any] = {
    "torch_cuda": "13.0",
    "policy": "same_major",
    "math_libraries": "auto",
    "extensions": [{"name": "causal-conv1d", "version": "1.7.0"}],
    "extra_packages": [],
    "versions": {},
    "build_packages": ["g++", "ninja-build"],
    "gcc": "12.2.0",
    "glibc": "2.36",
}


class FakeHost(Host):
    """dpkg's status from a file, and apt's answers from a table."""

    def __init__(self, root: Path, answers: dict[tuple[str, str], Output]) -> None:
        super().__init__(str(root))
        self.answers, self.asked = answers, list[tuple[str, ...]]()

    def run(self, *command: str, timeout: float = 10.0) -> Output:
        program = command[0].rpartition("/")[2]
        self.asked.append((program, *command[1:]))
        return self.answers[(program, command[1])]


def planned(tmp_path: Path, status: str = STATUS, answers: Any = None, **wish: Any) -> tuple[dict[str, Any], FakeHost]:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True, exist_ok=True)
    (tmp_path / "var/lib/dpkg/status").write_text(status)
    host = FakeHost(tmp_path, {**ANSWERS, **(answers or {})})
    result: dict[str, Any] = {}
    info.plan({**WISH, **wish}, host, info.Apt(host), result)
    return result, host


def test_a_plan(tmp_path: Path) -> None:
    result, host = planned(tmp_path)
    assert result["series"] == "13-0"
    assert result["requests"] == ["cuda-nvcc-13-0=13.0.88-1", "cuda-cudart-dev-13-0=13.0.96-1"]
    assert result["members"] == {"cuda-crt-13-0": "13.0.88-1", "cuda-nvcc-13-0": "13.0.88-1"}
    assert result["to_hold"] == ["cuda-crt-13-0", "cuda-nvcc-13-0"]
    assert result["other_toolkits"] == [{"series": "12-8", "path": "/usr/local/cuda-12.8", "packages": 1}]
    simulated = [asked for asked in host.asked if asked[0] == "apt-get"]
    assert all("--simulate" in asked for asked in simulated)


def test_what_is_there_is_not_asked_for_again(tmp_path: Path) -> None:
    there = "".join(
        f"Package: {name}\nStatus: hold ok installed\nVersion: {version}\n\n"
        for name, version in (
            ("cuda-nvcc-13-0", "13.0.88-1"),
            ("cuda-cudart-dev-13-0", "13.0.96-1"),
            ("cuda-crt-13-0", "13.0.88-1"),
        )
    )
    result, host = planned(tmp_path, STATUS + "\n" + there)
    assert (result["requests"], result["install"], result["to_hold"]) == ([], [], [])
    assert not [asked for asked in host.asked if asked[0] == "apt-get"]


def test_what_somebody_installed_of_the_series_belongs_to_the_set_and_another_series_does_not(tmp_path: Path) -> None:
    stranger = "\nPackage: cuda-libraries-13-0\nStatus: install ok installed\nVersion: 13.0.2-1\n"
    result, _host = planned(tmp_path, STATUS.replace("hold ok", "install ok") + stranger)
    assert result["members"]["cuda-libraries-13-0"] == "13.0.2-1"
    assert "cuda-libraries-13-0" in result["to_hold"]
    assert not [name for name in result["to_hold"] if name.endswith("-12-8")]


def test_a_driver_in_the_plan_is_refused(tmp_path: Path) -> None:
    driver = {("apt-get", "--simulate"): Output(0, PLAN + "Inst nvidia-open (580 NVIDIA CUDA:m [amd64])\n", "")}
    with pytest.raises(PlanError, match="nvidia-open"):
        planned(tmp_path, answers=driver)


def test_apts_refusal_becomes_a_sentence(tmp_path: Path) -> None:
    refused = {("apt-get", "--simulate"): Output(100, "", "E: Unable to locate package cuda-nvcc-13-0\n")}
    with pytest.raises(PlanError, match="cuda-nvcc-13-0"):
        planned(tmp_path, answers=refused)


def test_math_libraries_by_description(tmp_path: Path) -> None:
    asks = [{"name": "x", "compiled": ["x"], "math_headers": True}]
    with pytest.raises(PlanError, match="libcublas-dev-13-0"):
        planned(tmp_path, extensions=asks)
    assert planned(tmp_path, extensions=asks, math_libraries="false")[0]["series"] == "13-0"


@pytest.mark.parametrize(
    ("glibc", "gcc", "series", "part"),
    [
        ("2.36", "12.2.0", "13-0", None),
        ("2.41", "14.2.0", "12-8", "glibc 2.41 (CUDA 13.0 or newer does)"),
        ("2.36", "16.1.0", "13-0", "gcc up to 15"),
        (None, None, "12-8", None),
    ],
)
def test_tables_of_glibc_and_gcc(glibc: str | None, gcc: str | None, series: str, part: str | None) -> None:
    reason = info.cannot_compile(glibc, gcc)(series)
    assert (reason is None) is (part is None)
    assert part is None or part in str(reason)
