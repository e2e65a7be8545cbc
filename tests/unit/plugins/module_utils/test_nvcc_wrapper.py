# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _nvcc_wrapper
from ansible_collections.proxmox_gpu.training.plugins.module_utils._nvcc_wrapper import rewrite, source_of

LINE = (
    "-MD -MF x.o.d -I/include -c /build/csrc/causal_conv1d_bwd.cu -o x.o -O3 --use_fast_math --ptxas-options=-v"
    " -lineinfo"
    " -gencode arch=compute_75,code=sm_75 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_120,code=sm_120"
    " --threads 4 -std=c++20"
)
CAUSAL_CONV1D = LINE.split()


def test_one_target_in_place_of_the_hard_coded_ones() -> None:
    found = rewrite(CAUSAL_CONV1D, ["sm_90"], 1)
    assert " ".join(found) == (
        "-MD -MF x.o.d -I/include -c /build/csrc/causal_conv1d_bwd.cu -o x.o -O3 --use_fast_math -std=c++20"
        " -gencode arch=compute_90,code=sm_90"
    )


@pytest.mark.parametrize(
    "switch",
    ["-gencode=arch=compute_80,code=sm_80", "--generate-code arch=compute_80,code=sm_80", "-arch=sm_80", "-arch sm_80"]
    + ["--gpu-architecture=sm_80", "-t 4", "--threads=4", "-Xptxas -v", "-lineinfo"],
)
def test_every_spelling_of_a_switch_is_replaced(switch: str) -> None:
    assert rewrite(["-c", *switch.split(), "a.cu"], ["sm_90"], 1) == [
        "-c",
        "a.cu",
        "-gencode",
        "arch=compute_90,code=sm_90",
    ]


def test_ptx_and_several_targets_and_threads() -> None:
    assert rewrite(["-c", "a.cu"], ["sm_90a", "compute_120"], 2) == [
        *["-c", "a.cu", "-gencode", "arch=compute_90a,code=sm_90a", "-gencode", "arch=compute_120,code=compute_120"],
        *["--threads", "2"],
    ]


@pytest.mark.parametrize("arguments", [["--version"], ["-V"], ["--list-gpu-code"], []])
def test_a_call_that_compiles_nothing_stays(arguments: list[str]) -> None:
    assert rewrite(arguments, ["sm_90"], 4) == arguments


def test_other_switches_stay_in_order() -> None:
    kept = ["-Xptxas", "-O3", "-DX", "--expt-relaxed-constexpr"]
    assert rewrite(["-c", *kept, "a.cu"], [], 1) == ["-c", *kept, "a.cu"]


def test_source() -> None:
    assert source_of(CAUSAL_CONV1D) == "causal_conv1d_bwd.cu"
    assert source_of(["--version"]) == ""


@pytest.fixture
def stand_in(tmp_path: Path) -> dict[str, str]:
    """An nvcc that prints its own name and arguments, and does what STAND_IN says."""
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text('#!/bin/sh\necho "$0 $*"\neval "$STAND_IN"\n')
    nvcc.chmod(0o755)
    return {
        "PROXMOX_GPU_NVCC": str(nvcc),
        "PROXMOX_GPU_TARGETS": "sm_90",
        "PROXMOX_GPU_PROGRESS": str(tmp_path / "progress"),
        "PATH": os.environ["PATH"],
    }


def run(environment: dict[str, str], *arguments: str, do: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(_nvcc_wrapper.__file__), *arguments]
    return subprocess.run(
        command, env={**environment, "STAND_IN": do}, capture_output=True, text=True, timeout=30, check=False
    )


def test_the_real_one_is_called_by_its_full_path(stand_in: dict[str, str]) -> None:
    done = run(stand_in, "-c", "a.cu")
    assert done.stdout.strip() == f"{stand_in['PROXMOX_GPU_NVCC']} -c a.cu -gencode arch=compute_90,code=sm_90"
    assert done.returncode == 0


def test_begin_and_end_of_a_source_are_reported(stand_in: dict[str, str]) -> None:
    run(stand_in, "-c", "a.cu", do="exit 3")
    events = [json.loads(line) for line in Path(stand_in["PROXMOX_GPU_PROGRESS"]).read_text().splitlines()]
    assert [(event["event"], event["source"], event.get("status")) for event in events] == [
        ("begin", "a.cu", None),
        ("end", "a.cu", 3),
    ]
    assert events[1]["memory"] > 0


def test_the_exit_status_is_nvccs(stand_in: dict[str, str]) -> None:
    assert run(stand_in, "-c", "a.cu", do="exit 3").returncode == 3


def test_a_killed_compiler_is_said(stand_in: dict[str, str]) -> None:
    done = run(stand_in, "-c", "a.cu", do="kill -9 $$")
    assert (done.returncode, "died due to signal 9" in done.stderr) == (137, True)


def test_version_passes_through(stand_in: dict[str, str]) -> None:
    assert run(stand_in, "--version").stdout.strip().endswith("nvcc --version")
