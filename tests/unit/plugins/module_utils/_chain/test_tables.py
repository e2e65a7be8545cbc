# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables: rows that were measured, what follows from their order, and what they say of what they do not know."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.tables import (
    bad_pairs,
    compilers,
    distributions,
    drivers,
    gpus,
    torch_builds,
    transformers_releases,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.tables.lookup import NotInTable
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.versions import at_least, numbers

TABLES = (bad_pairs, compilers, distributions, drivers, gpus, torch_builds, transformers_releases)
driver_versions = st.tuples(st.integers(300, 700), st.integers(0, 200)).map(lambda parts: "{}.{:02}".format(*parts))
glibc_versions = st.integers(17, 50).map(lambda part: f"2.{part}")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__.rpartition(".")[2])
def test_table_names_its_source_and_date(table: object) -> None:
    source = table.SOURCE  # type: ignore[attr-defined]
    assert source.text
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", source.date)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (torch_builds.build("9.9.9"), "torch 9.9.9 is not in my table (of 2026-11-30)"),
        (drivers.floor("99.0"), "the oldest driver for CUDA 99.0 is not in my table (of 2026-11-30)"),
        (drivers.own("13.9"), "the driver that came with CUDA 13.9 is not in my table (of 2026-11-30)"),
        (drivers.runs("580", "99.0"), "the oldest driver for CUDA 99.0 is not in my table (of 2026-11-30)"),
        (gpus.capability("99.0"), "a GPU of compute capability 99.0 is not in my table (of 2026-11-30)"),
        (gpus.compiles("13.0", "99.0"), "a GPU of compute capability 99.0 is not in my table (of 2026-11-30)"),
        (compilers.newest_gcc("14.0"), "the newest gcc for CUDA 14.0 is not in my table (of 2026-11-30)"),
        (compilers.glibc_clashes("14.0", "2.36"), "glibc and CUDA 14.0 is not in my table (of 2026-11-30)"),
        (distributions.distribution("alpine", "3"), "alpine 3 is not in my table (of 2026-11-30)"),
        (distributions.architecture("riscv64"), "a machine of type riscv64 is not in my table (of 2026-11-30)"),
        (transformers_releases.design("6.0.0"), "transformers 6.0.0 is not in my table (of 2026-11-30)"),
        (transformers_releases.kernels_range("4.40"), "transformers 4.40 is not in my table (of 2026-11-30)"),
    ],
)
def test_unknown_row_says_so(answer: object, text: str) -> None:
    assert isinstance(answer, NotInTable)
    assert not answer
    assert str(answer) == text


@pytest.mark.parametrize(
    ("torch", "cuda", "cxx"),
    [("2.10.0", "12.8", 17), ("2.11.0+cu130", "13.0", 17), ("2.14.1", "13.0", 20), ("2.15", "13.2", 20)],
)
def test_torch_build(torch: str, cuda: str, cxx: int) -> None:
    row = torch_builds.build(torch)
    assert isinstance(row, torch_builds.TorchBuild)
    assert (row.cuda, row.cxx) == (cuda, cxx)


def test_newer_torch_never_has_an_older_cuda_or_standard() -> None:
    rows = [torch_builds.BUILDS[name] for name in sorted(torch_builds.BUILDS, key=numbers)]
    for older, newer in itertools.pairwise(rows):
        assert at_least(newer.cuda, older.cuda)
        assert newer.cxx >= older.cxx


@pytest.mark.parametrize(
    ("cuda", "capability", "runs"),
    [
        ("13.0", "9.0", True),
        ("13.0", "7.0", False),
        ("12.6", "7.0", True),
        ("13.0", "8.9", True),
        ("13.0", "12.1", True),
        ("12.8", "12.1", True),
        ("12.6", "10.0", False),
        ("13.0", "10.3", True),
    ],
)
def test_torch_runs_on(cuda: str, capability: str, runs: bool) -> None:
    assert torch_builds.runs_on(cuda, capability) is runs


@pytest.mark.parametrize(
    ("driver", "cuda", "runs"),
    [("580.65.06", "13.2", True), ("579.99", "13.0", False), ("525.60.13", "12.8", True), ("470.1", "12.1", False)],
)
def test_driver_runs(driver: str, cuda: str, runs: bool) -> None:
    assert drivers.runs(driver, cuda) is runs


@given(driver_versions, driver_versions, st.sampled_from(["11.8", "12.1", "12.8", "13.0", "13.2"]))
def test_newer_driver_runs_whatever_an_older_one_runs(one: str, other: str, cuda: str) -> None:
    older, newer = sorted((one, other), key=numbers)
    assert drivers.runs(newer, cuda) or not drivers.runs(older, cuda)


@given(driver_versions, st.sampled_from(["11.8", "12.1", "12.8", "13.0", "13.2"]))
def test_newest_cuda_of_a_driver_is_the_last_that_it_runs(driver: str, cuda: str) -> None:
    newest = drivers.newest_cuda(driver)
    assert bool(drivers.runs(driver, cuda)) == bool(newest and newest >= numbers(cuda)[0])


def test_newer_cuda_came_with_a_newer_driver() -> None:
    rows = [drivers.OWN[name] for name in sorted(drivers.OWN, key=numbers)]
    assert rows == sorted(rows, key=numbers)
    assert all(drivers.runs(driver, cuda) for cuda, driver in drivers.OWN.items())


@pytest.mark.parametrize(
    ("cuda", "gpu", "compiles"),
    [
        ("13.0", "9.0", True),
        ("13.0", "70", False),
        ("12.9", "sm_70", True),
        ("12.6", "sm_120", False),
        ("12.8", "12.0", True),
        ("12.8", "12.1", False),
        ("13.0", "10.1", False),
        ("12.9", "10.1", True),
        ("13.5", "10.7", True),
    ],
)
def test_gpu_compiles(cuda: str, gpu: str, compiles: bool) -> None:
    assert gpus.compiles(cuda, gpu) is compiles


@given(
    st.sampled_from(sorted(gpus.CAPABILITIES)),
    st.lists(st.sampled_from(sorted(compilers.NEWEST_GCC, key=numbers)), min_size=3, max_size=3),
)
def test_a_gpu_is_supported_from_one_cuda_to_another_without_a_gap(gpu: str, cudas: list[str]) -> None:
    low, middle, high = sorted(cudas, key=numbers)
    assert gpus.compiles(middle, gpu) or not (gpus.compiles(low, gpu) and gpus.compiles(high, gpu))


@pytest.mark.parametrize(
    ("code", "gpu", "runs"),
    [
        ("sm_80", "8.9", True),
        ("sm_90", "9.0", True),
        ("sm_90", "10.0", False),
        ("sm_90a", "9.0", True),
        ("sm_89", "8.0", False),
        ("", "9.0", False),
        ("sm_100", "10.3", True),
    ],
)
def test_cubin_runs_within_its_major(code: str, gpu: str, runs: bool) -> None:
    assert gpus.cubin_runs(code, gpu) is runs


@pytest.mark.parametrize(
    ("cuda", "glibc", "clashes"),
    [
        ("12.8.93", "2.36", False),
        ("12.8", "2.41", True),
        ("13.0.88", "2.41", False),
        ("13.0", "2.42", True),
        ("13.2", "2.42", False),
    ],
)
def test_glibc_clashes(cuda: str, glibc: str, clashes: bool) -> None:
    assert compilers.glibc_clashes(cuda, glibc) is clashes


@given(st.sampled_from(sorted(compilers.CLASHING_GLIBC)), glibc_versions, glibc_versions)
def test_newer_glibc_never_cures_a_clash(cuda: str, one: str, other: str) -> None:
    older, newer = sorted((one, other), key=numbers)
    assert compilers.glibc_clashes(cuda, newer) or not compilers.glibc_clashes(cuda, older)


@given(glibc_versions)
def test_first_cuda_for_a_glibc_compiles_with_it(glibc: str) -> None:
    cuda = compilers.first_cuda_for_glibc(glibc)
    assert isinstance(cuda, str)
    assert compilers.glibc_clashes(cuda, glibc) is False


def test_newer_cuda_takes_every_gcc_that_an_older_one_takes() -> None:
    rows = [compilers.NEWEST_GCC[name] for name in sorted(compilers.NEWEST_GCC, key=numbers)]
    assert rows == sorted(rows)


@pytest.mark.parametrize(
    ("system", "machine", "url"),
    [
        (("debian", "12"), "x86_64", "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"),
        (("ubuntu", "24.04"), "aarch64", "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/sbsa/"),
    ],
)
def test_repository_url(system: tuple[str, str], machine: str, url: str) -> None:
    assert distributions.repository_url(None, *system, machine) == url


def test_repository_url_of_a_mirror_and_of_a_named_distribution() -> None:
    found = distributions.repository_url("http://mirror.lan/cuda/", "alpine", "3", "x86_64", "ubuntu2404")
    assert found == "http://mirror.lan/cuda/ubuntu2404/x86_64/"
    assert not distributions.repository_url("http://mirror.lan/cuda/", "alpine", "3", "x86_64")


@pytest.mark.parametrize("row", distributions.DISTRIBUTIONS.values(), ids=lambda row: row.directory)
def test_distribution_row_is_whole(row: distributions.Distribution) -> None:
    assert all(re.fullmatch(r"[0-9A-F]{40}", key) for key in row.keys)
    assert all(re.fullmatch(r"[0-9a-f]{64}", checksum) for checksum in row.keyrings.values())
    assert set(row.keyrings) <= set(distributions.ARCHITECTURES.values())
    assert distributions.keys_of(row.directory) == row.keys


def test_apt_that_verifies_with_sqv_gets_the_key_that_it_accepts() -> None:
    for row in distributions.DISTRIBUTIONS.values():
        assert (row.verifier == "sqv") == (distributions.OLD_KEY not in row.keys)


@pytest.mark.parametrize(
    ("version", "design", "kernels"),
    [
        ("4.57.6", "module_flag", None),
        ("5.14.1", "module_flag", ">=0.15.2,<0.16.0"),
        ("5.15.1", "decorated", ">=0.16.0,<0.17.0"),
        ("5.24.0", "decorated", ">=0.18.2,<0.19.0"),
        ("5.2.0", "module_flag", ">=0.10.2"),
    ],
)
def test_transformers_release(version: str, design: str, kernels: str | None) -> None:
    assert transformers_releases.design(version) == design
    assert transformers_releases.kernels_range(version) == kernels


def test_faults_of_a_release() -> None:
    assert len(transformers_releases.faults("5.15.1")) == 3
    assert len(transformers_releases.faults("5.16.1")) == 2
    assert len(transformers_releases.faults("5.17.0")) == 1
    assert transformers_releases.faults("5.24.0") == []
    assert transformers_releases.faults("7.0") == []


def test_bad_pair_counts_on_its_gpu_alone() -> None:
    installed = {"triton": "3.6.0", "fla-core": "0.6.0"}
    assert [pair.name for pair in bad_pairs.bad_pairs(installed, ["9.0"])] == ["triton-fla-hopper"]
    assert bad_pairs.bad_pairs(installed, ["10.0"]) == []
    assert bad_pairs.bad_pairs(installed, []) == []
    assert bad_pairs.bad_pairs({**installed, "triton": "3.7.1"}, ["9.0"]) == []
