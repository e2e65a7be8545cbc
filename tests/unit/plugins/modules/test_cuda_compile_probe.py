# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_errors import Build
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import Finished
from ansible_collections.proxmox_gpu.training.plugins.module_utils._compile_probe import sources
from ansible_collections.proxmox_gpu.training.plugins.modules import cuda_compile_probe as probe

ELF = Path(__file__).parents[1] / "module_utils" / "fixtures" / "elf"
BUILD = Build("the compile probe", torch="2.14.1+cu130", torch_cuda="13.0")
NVCC = {"path": "/usr/local/cuda-13.0/bin/nvcc", "home": "/usr/local/cuda-13.0", "version": "13.0.88", "missing": []}


def test_targets_in_torchs_spelling() -> None:
    assert probe.arch_list(["sm_80", "sm_90a", "compute_120"]) == "8.0;9.0a;12.0+PTX"


def test_the_toolkit_of_torchs_major() -> None:
    facts: dict[str, dict[str, Any]] = {
        "torch": {"version": "2.14.1", "cuda": "13.0"},
        "toolkit": {"nvccs": [{**NVCC, "version": "12.8.93"}, NVCC]},
    }
    assert probe.compiler_home(facts, "/opt/training") == "/usr/local/cuda-13.0"


@pytest.mark.parametrize(
    ("torch", "nvccs", "sentence"),
    [
        ({}, [NVCC], "there is no torch in /opt/training"),
        ({"version": "2.13.0+cpu", "cuda": None}, [NVCC], "built for the CPU only"),
        ({"version": "2.14.1", "cuda": "13.0"}, [], "no working nvcc for CUDA 13.0"),
        ({"version": "2.14.1", "cuda": "13.0"}, [{**NVCC, "version": "12.8.93"}], "no working nvcc for CUDA 13.0"),
    ],
)
def test_where_nothing_can_be_compiled(torch: dict[str, object], nvccs: list[dict[str, object]], sentence: str) -> None:
    with pytest.raises(probe.Refused, match=sentence):
        probe.compiler_home({"torch": torch, "toolkit": {"nvccs": nvccs}}, "/opt/training")


@pytest.mark.parametrize(
    ("finished", "targets", "cause"),
    [
        (Finished(0, 9.0, False), ("sm_90",), None),
        (Finished(0, 9.0, False), ("sm_120",), "target_missing"),
        (Finished(-15, 900.0, True), ("sm_90",), "timeout"),
    ],
)
def test_why_a_probe_is_no_good(
    tmp_path: Path, finished: Finished, targets: tuple[str, ...], cause: str | None
) -> None:
    shutil.copy(ELF / "sm_90.so", tmp_path / "probe.so")
    found = probe.why(finished, BUILD, str(tmp_path / "probe.so"), targets, 900)
    assert (found.id if found else None) == cause


def test_math_headers_are_included_only_on_demand() -> None:
    assert "cusparse.h" not in sources(False)["probe_kernel.cu"]
    assert sources(True)["probe_kernel.cu"].startswith("#include <cublas_v2.h>")
