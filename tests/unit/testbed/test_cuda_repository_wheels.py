# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the CUDA repository stand-in turns NVIDIA's wheels into packages."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import zipfile
from pathlib import Path

import pytest

from testbed.cuda_repository import BuildError, repack, stub_library, wheels

HEADER = """
typedef int CUresult;
#define cuMemAlloc cuMemAlloc_v2
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
/* cudaMalloc( is of another library */
"""


def wheel(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o744 if "/bin/" in name and not name.endswith(".profile") else 0o644) << 16
            archive.writestr(info, content)
    return path


def made(stem: str, version: str, members: dict[str, bytes], tmp_path: Path) -> dict[str, tuple[bytes, str, int]]:
    archive = wheel(tmp_path / "a.zip", members)
    entries = repack.entries(stem, f"{stem}-13-0", "13-0", version, archive)
    return {entry.path: (entry.data, entry.target, entry.mode) for entry in entries}


def test_compiler_goes_to_bin_and_its_profile_points_at_targets(tmp_path: Path) -> None:
    profile = b'INCLUDES += "-I$(TOP)/include"\nLIBRARIES =+ "-L$(TOP)/lib/stubs" "-L$(TOP)/lib"\n'
    files = made(
        "cuda-nvcc",
        "13.0.88",
        {
            "nvidia/cu13/bin/nvcc": b"elf",
            "nvidia/cu13/bin/nvcc.profile": profile,
            "nvidia/cu13/include/fatbinary_section.h": b"h",
            "nvidia_cuda_nvcc-13.0.88.dist-info/licenses/License.txt": b"licence",
            "nvidia_cuda_nvcc-13.0.88.dist-info/RECORD": b"",
        },
        tmp_path,
    )
    root = "usr/local/cuda-13.0"
    assert files.pop(f"{root}/bin/nvcc") == (b"elf", "", 0o755)
    text, _, mode = files.pop(f"{root}/bin/nvcc.profile")
    assert mode == 0o644
    library = "-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)"
    assert text.decode() == (
        f'INCLUDES += "-I$(TOP)/$(_TARGET_DIR_)/include"\nLIBRARIES =+ "{library}/stubs" "{library}"\n'
    )
    assert files == {
        f"{root}/targets/x86_64-linux/include/fatbinary_section.h": (b"h", "", 0o644),
        f"{root}/include": (b"", "targets/x86_64-linux/include", 0o644),
        "usr/share/doc/cuda-nvcc-13-0/copyright": (b"licence", "", 0o644),
    }


def test_a_profile_for_targets_stays_as_it_is(tmp_path: Path) -> None:
    profile = b'SYSTEM_INCLUDES += "-isystem" "$(TOP)/$(_TARGET_DIR_)/include/cccl"\n'
    files = made("cuda-nvcc", "13.0.88", {"nvidia/cu13/bin/nvcc.profile": profile}, tmp_path)
    assert files["usr/local/cuda-13.0/bin/nvcc.profile"][0] == profile


def test_runtime_is_split_in_two_packages(tmp_path: Path) -> None:
    members = {
        "nvidia/cu13/lib/libcudart.so.13": b"so",
        "nvidia/cu13/lib/libcudart_static.a": b"a",
        "nvidia/cu13/include/cuda_runtime.h": b"h",
    }
    lib = "usr/local/cuda-13.0/targets/x86_64-linux/lib"
    runtime = made("cuda-cudart", "13.0.96", members, tmp_path)
    assert runtime[f"{lib}/libcudart.so.13.0.96"][0] == b"so"
    assert runtime[f"{lib}/libcudart.so.13"][1] == "libcudart.so.13.0.96"
    assert "usr/local/cuda-13.0/include" not in runtime
    development = made("cuda-cudart-dev", "13.0.96", members, tmp_path)
    assert development[f"{lib}/libcudart.so"][1] == "libcudart.so.13"
    assert f"{lib}/libcudart_static.a" in development and f"{lib}/libcudart.so.13.0.96" not in development
    assert development["usr/local/cuda-13.0/lib64"][1] == "targets/x86_64-linux/lib"


def test_device_compiler_lies_below_nvvm(tmp_path: Path) -> None:
    members = {
        "nvidia/cu13/nvvm/bin/cicc": b"elf",
        "nvidia/cu13/lib/libnvvm.so.4": b"so",
        "nvidia/cu13/include/nvvm.h": b"h",
    }
    files = made("libnvvm", "13.0.88", members, tmp_path)
    nvvm = "usr/local/cuda-13.0/nvvm"
    assert files[f"{nvvm}/bin/cicc"] == (b"elf", "", 0o755)
    assert files[f"{nvvm}/lib64/libnvvm.so"][1] == "libnvvm.so.4"
    assert f"{nvvm}/include/nvvm.h" in files and "usr/local/cuda-13.0/lib64" not in files


def test_both_spellings_of_the_cccl_wheel_and_no_build_metadata(tmp_path: Path) -> None:
    members = {
        "nvidia/cu13/cuda_cccl/lib/cmake/cub/cub-config.cmake": b"new",
        "nvidia/cu13/lib/cmake/thrust/thrust-config.cmake": b"old",
        "nvidia/cu13/.metadata/provenance.txt": b"",
        "nvidia/cu13/cuda_cccl/.metadata/provenance.txt": b"",
    }
    files = made("cuda-cccl", "13.2.86", members, tmp_path)
    cmake = "usr/local/cuda-13.0/targets/x86_64-linux/lib/cmake"
    assert set(files) == {
        f"{cmake}/cub/cub-config.cmake",
        f"{cmake}/thrust/thrust-config.cmake",
        "usr/local/cuda-13.0/lib64",
    }


# --- the stub of the driver library ----------------------------------------------------------------------------------


def test_function_names_include_the_versioned_ones() -> None:
    assert stub_library.function_names(HEADER) == ["cuInit", "cuMemAlloc", "cuMemAlloc_v2"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the stub is an x86-64 library")
def test_stub_loads_and_every_function_says_that_it_is_a_stub(tmp_path: Path) -> None:
    path = tmp_path / "libcuda.so"
    path.write_bytes(stub_library.driver_stub(HEADER))
    library = ctypes.CDLL(str(path))
    assert [library.cuInit(0), library.cuMemAlloc_v2(0, 0)] == [34, 34]


def test_stub_exports_nothing_when_there_is_nothing_to_export() -> None:
    assert stub_library.shared_object("libempty.so.1", []).startswith(b"\x7fELF")


# --- the list of wheels and pip --------------------------------------------------------------------------------------


def test_list_reads_series_from_comments() -> None:
    text = (
        f"# words\n# 13-0\nnvidia-a==1.2 --hash=sha256:{'0' * 64}\n\n# 13-2\nnvidia-a==1.3 --hash=sha256:{'1' * 64}\n"
    )
    assert [(entry.name, entry.version, entry.series) for entry in wheels.listed(text)] == [
        ("nvidia-a", "1.2", "13-0"),
        ("nvidia-a", "1.3", "13-2"),
    ]


def test_every_line_of_the_list_is_understood() -> None:
    lines = [line for line in wheels._LIST.read_text().splitlines() if line and not line.startswith("#")]
    assert len(wheels.table()) == len(lines) == 22


def test_library_wheels_are_kept_as_headers_only(tmp_path: Path) -> None:
    members = {"nvidia/cu13/include/cublas.h": b"h", "nvidia/cu13/lib/libcublas.so.13": b"x" * 1000}
    small = wheels._slim(wheel(tmp_path / "a.whl", members))
    assert zipfile.ZipFile(small).namelist() == ["nvidia/cu13/include/cublas.h"]


def test_pips_failure_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(
            command, 1, "", "WARNING: x\nERROR: No matching distribution found for a\nbye\n"
        )

    monkeypatch.setattr(wheels.subprocess, "run", failing)
    with pytest.raises(
        BuildError, match=r"^pip could not download a 1 for the CUDA repository stand-in: ERROR: No match"
    ):
        wheels.fetch(wheels.Wheel("a", "1", "0" * 64, "13-0"), tmp_path, lambda _: None)
    assert not list(tmp_path.glob("wheels/*"))
