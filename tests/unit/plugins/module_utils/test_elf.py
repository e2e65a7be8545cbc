# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._elf import ElfError, gpu_targets

FIXTURES = Path(__file__).parent / "fixtures" / "elf"
REAL = (FIXTURES / "sm_80.sm_90a.sm_100f.compute_120.so").read_bytes()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sm_90.so", ("sm_90",)),
        ("sm_80.sm_90a.sm_100f.compute_120.so", ("sm_80", "sm_90a", "sm_100f", "compute_120")),
        ("compressed.sm_75.compute_90a.so", ("sm_75", "compute_90a")),
        ("relocatable.sm_80.so", ("sm_80",)),
        ("host_only.so", ()),
    ],
)
def test_targets_of_files_that_nvcc_made(name: str, expected: tuple[str, ...]) -> None:
    assert gpu_targets(str(FIXTURES / name)) == expected


def test_not_an_elf_file(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_text("#!/bin/sh\n")
    with pytest.raises(ElfError, match=r"x\.so is not an ELF file"):
        gpu_targets(str(path))


def test_an_elf_file_of_32_bits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(REAL[:4] + b"\x01" + REAL[5:])
    with pytest.raises(ElfError, match="64-bit"):
        gpu_targets(str(path))


def test_half_a_file_is_named_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(REAL[: len(REAL) // 2])
    with pytest.raises(ElfError, match="damaged or incomplete"):
        gpu_targets(str(path))


def test_a_fat_binary_that_reaches_beyond_its_section(tmp_path: Path) -> None:
    at = REAL.index(b"\x50\xed\x55\xba")
    path = tmp_path / "x.so"
    path.write_bytes(REAL[: at + 8] + struct.pack("<Q", 1 << 40) + REAL[at + 16 :])
    with pytest.raises(ElfError, match="beyond its section"):
        gpu_targets(str(path))


def test_an_architecture_that_cannot_be(tmp_path: Path) -> None:
    at = REAL.index(b"\x50\xed\x55\xba") + 16 + 28
    path = tmp_path / "x.so"
    path.write_bytes(REAL[:at] + struct.pack("<I", 70000) + REAL[at + 4 :])
    with pytest.raises(ElfError, match="GPU architecture 70000"):
        gpu_targets(str(path))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(REAL) - 1), st.binary(min_size=1, max_size=8))
def test_no_damage_ends_in_anything_but_an_answer_or_a_sentence(tmp_path: Path, at: int, noise: bytes) -> None:
    path = tmp_path / "x.so"
    path.write_bytes((REAL[:at] + noise + REAL[at + len(noise) :])[: len(REAL)])
    try:
        gpu_targets(str(path))
    except ElfError as error:
        assert str(path) in str(error)
