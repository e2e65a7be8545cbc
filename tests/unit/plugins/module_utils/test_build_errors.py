# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each file in fixtures/build_logs is what real tools printed when a build was made to fail in that way."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_errors import Build, classify

LOGS = Path(__file__).parent / "fixtures" / "build_logs"
CUDA_BUILD = Build(
    "causal-conv1d 1.7.0",
    jobs=2,
    memory_limit=4 << 30,
    cuda_home="/usr/local/cuda-13.0",
    python="/opt/training/bin/python",
    torch="2.14.1+cu130",
    torch_cuda="13.0",
    series="13-0",
)
CPU_BUILD = Build("causal-conv1d 1.7.0", python="/opt/training/bin/python", torch="2.13.0+cpu", torch_cuda=None)

EXPECTED: dict[str, tuple[Build, str, str]] = {
    "no_nvcc": (CUDA_BUILD, "no_nvcc", "found no CUDA compiler"),
    "cpu_torch": (CPU_BUILD, "no_nvcc", "built for the CPU only"),
    "no_torch": (CUDA_BUILD, "no_torch", "role torch_environment"),
    "cuda_home_gone": (CUDA_BUILD, "no_nvcc", "CUDA_HOME"),
    "major_mismatch": (CUDA_BUILD, "cuda_mismatch", "of CUDA 12.8 and torch was built for CUDA 13.0"),
    "url_lookup": (CUDA_BUILD, "wheel_download", "forces a build from source"),
    "header": (CUDA_BUILD, "header_missing", "cusparse.h is missing; it comes with libcusparse-dev-13-0"),
    "python_h": (CUDA_BUILD, "header_missing", "python3-dev"),
    "cxx17": (CUDA_BUILD, "cxx_standard", "needs C++20"),
    "arch": (CUDA_BUILD, "gpu_target_unknown", "compute_70"),
    "glibc": (CUDA_BUILD, "glibc_clash", "rsqrt"),
    "gcc_new": (CUDA_BUILD, "gcc_too_new", "gcc up to 15"),
    "no_arch": (CUDA_BUILD, "no_gpu_target", "cuda_extensions_gpu_targets"),
    "nofile": (CUDA_BUILD, "no_sources", "absent.cu"),
    "no_sources": (CUDA_BUILD, "no_sources", "causal_conv1d.cpp"),
    "no_gxx": (CUDA_BUILD, "no_gxx", "g++"),
    "no_setuptools": (CUDA_BUILD, "no_build_tool", "setuptools is missing"),
    "no_setuptools_pep517": (CUDA_BUILD, "no_build_tool", "setuptools is missing"),
    "no_version": (CUDA_BUILD, "version_absent", "1.6.2.post1, 1.7.0"),
    "no_space": (CUDA_BUILD, "no_space", "/var/tmp"),
    "memory_nvcc": (CUDA_BUILD, "memory", "2 compiler processes at once, container with a limit of 4.0 GiB"),
    "memory_gxx": (CUDA_BUILD, "memory", "cuda_extensions_jobs: 1"),
    "cicc": (CUDA_BUILD, "memory", "lack of memory"),
    "undefined_symbol": (CUDA_BUILD, "undefined_symbol", "_ZN3c104goneEv"),
    "missing_library": (CPU_BUILD, "library_missing", "libc10_cuda.so, which torch 2.13.0+cpu does not have"),
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_cause_of_a_build_that_really_failed(name: str) -> None:
    build, cause_id, part = EXPECTED[name]
    cause = classify((LOGS / f"{name}.txt").read_text(), build)
    assert cause.id == cause_id
    assert part in cause.sentence
    assert cause.sentence.startswith("causal-conv1d 1.7.0: ")
    assert "\n" not in cause.sentence
    assert cause.line


def test_every_log_is_expected() -> None:
    assert {path.stem for path in LOGS.glob("*.txt")} == set(EXPECTED)


@pytest.mark.parametrize(
    ("line", "cause_id"),
    [
        ("nvcc error   : 'ptxas' died due to signal 9 (Kill signal)", "memory"),
        ("OSError: [Errno 28] No space left on device", "no_space"),
        ("/usr/bin/ld: cannot find -lcudart: No such file or directory", "library_missing"),
        ("RuntimeError: Ninja is required to load C++ extensions", "no_ninja"),
        ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", "library_missing"),
        (
            "RuntimeError: \nThe detected CUDA version (12.8) mismatches the version that was used to compile\n"
            "PyTorch (13.0). Please make sure to use the same CUDA versions.",
            "cuda_mismatch",
        ),
        (
            "/usr/include/bits/mathcalls.h(79): error: exception specification is incompatible with that of previous"
            ' function "cospi" (declared at line 2601 of /usr/local/cuda-12.8/include/crt/math_functions.h)',
            "glibc_clash",
        ),
    ],
)
def test_texts_that_others_reported(line: str, cause_id: str) -> None:
    assert classify(line, CUDA_BUILD).id == cause_id


def test_the_cause_comes_before_what_follows_from_it() -> None:
    log = "<urlopen error x>\nfatal error: foo.h: No such file\ncc: error: No space left on device\nKilled\n"
    assert classify(log, CUDA_BUILD).id == "no_space"


def test_unknown_output_shows_its_most_telling_line() -> None:
    log = "ok\nkernel.cu(3): error: identifier foo is undefined\nninja: build stopped\nerror: subprocess-exited\n"
    cause = classify(log, CUDA_BUILD)
    assert (cause.id, cause.line) == ("unknown", "kernel.cu(3): error: identifier foo is undefined")


def test_no_output_is_said() -> None:
    assert "no output at all" in classify("", CUDA_BUILD).sentence
