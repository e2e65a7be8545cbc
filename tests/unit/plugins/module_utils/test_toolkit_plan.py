# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Samples of apt's output are from apt 2.6.1 on Debian 12 against the CUDA repository of the testbed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _toolkit_plan as plan
from ansible_collections.proxmox_gpu.training.plugins.module_utils._toolkit_plan import PlanError

MADISON = """\
cuda-nvcc-13-0 |  13.0.88-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Packages
cuda-nvcc-13-0 |  13.0.48-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Packages
cuda-cudart-dev-13-0 |  13.0.96-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Packages
cuda-crt-13-0 |  13.0.88-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Packages
cuda-crt-13-0 |  13.0.48-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Packages
libnvvm-13-0 |  13.0.88-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Packages
cuda-nvcc-12-8 |  12.8.93-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Packages
cuda-nvvm-12-8 |  12.8.93-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Packages
cuda-cudart-dev-12-8 |  12.8.90-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Packages
cuda-nvcc-12-8 |  12.8.93-1 | http://mirror/compute/cuda/repos/debian12/x86_64  Sources
"""
OFFERED = plan.parse_versions(MADISON)

SIMULATED = """\
NOTE: This is only a simulation!
Inst dpkg-dev (1.21.23 Debian:12.15/oldstable [all])
Inst libc6:i386 (2.36-9 Debian:12.15/oldstable [i386])
Inst cuda-crt-13-0 [13.0.48-1] (13.0.88-1 NVIDIA CUDA:127.0.0.1 [amd64])
Inst cuda-nvcc-13-0 (13.0.88-1 NVIDIA CUDA:127.0.0.1 [amd64])
Remv nvidia-cuda-toolkit [11.8.89~11.8.0-5~deb12u1]
Conf cuda-nvcc-13-0 (13.0.88-1 NVIDIA CUDA:127.0.0.1 [amd64])
"""

UNMET = """\
Some packages could not be installed. This may mean that you have
requested an impossible situation or if you are using the unstable
The following packages have unmet dependencies:
 cuda-nvcc-13-0 : Depends: cuda-crt-13-0 (>= 13.0.88) but 13.0.48-1 is to be installed
E: Unable to correct problems, you have held broken packages.
"""


def test_versions_are_newest_first_and_only_from_binary_indexes() -> None:
    assert OFFERED["cuda-nvcc-13-0"] == ["13.0.88-1", "13.0.48-1"]
    assert OFFERED["cuda-nvcc-12-8"] == ["12.8.93-1"]


def test_a_series_counts_only_with_all_its_roots() -> None:
    assert plan.complete_series(OFFERED) == ["12-8", "13-0"]
    assert plan.complete_series({**OFFERED, "cuda-nvcc-13-2": ["13.2.86-1"]}) == ["12-8", "13-0"]
    assert plan.complete_series({**OFFERED, "cuda-cudart-dev-13-0": []}) == ["12-8"]


@pytest.mark.parametrize(
    ("cuda", "offered", "series"),
    [
        ("13.0", ["12-8", "13-0", "13-2"], "13-0"),
        ("13.1", ["12-8", "13-0", "13-2"], "13-2"),
        ("13.1", ["13-0", "13-2", "13-10"], "13-2"),
        ("13.5", ["13-0", "13-2"], "13-2"),
        ("12.4", ["12-8", "12-9"], "12-8"),
    ],
)
def test_same_major_takes_the_nearest_above_else_the_nearest_below(cuda: str, offered: list[str], series: str) -> None:
    choice = plan.choose_series(cuda, offered, "same_major")
    assert choice.series == series
    assert bool(choice.note) is (plan.series_of(cuda) != series)


@given(st.integers(11, 13), st.integers(0, 9), st.lists(st.tuples(st.integers(11, 13), st.integers(0, 12))))
def test_the_series_is_offered_and_of_torchs_major(major: int, minor: int, pairs: list[tuple[int, int]]) -> None:
    offered = [f"{a}-{b}" for a, b in pairs]
    fitting = [series for series in offered if series.startswith(f"{major}-")]
    try:
        choice = plan.choose_series(f"{major}.{minor}", offered, "same_major")
    except PlanError as error:
        assert not fitting
        assert error.id == "toolkit.series_absent"
    else:
        assert choice.series in fitting
        assert f"{major}-{minor}" not in offered or choice.series == f"{major}-{minor}"


def test_exact_stops_and_names_what_is_offered() -> None:
    with pytest.raises(
        PlanError, match=r"cuda-nvcc-13-1 \(offered series: 12-8, 13-0\); set cuda_toolkit_policy: same_major"
    ):
        plan.choose_series("13.1", ["12-8", "13-0"], "exact")


def test_no_series_of_the_major() -> None:
    with pytest.raises(PlanError, match="nvcc of another major cannot build for CUDA 12"):
        plan.choose_series("12.8", ["13-0"], "same_major")


def test_no_repository_at_all() -> None:
    with pytest.raises(PlanError, match="none at all.*role cuda_repository"):
        plan.choose_series("13.0", [], "same_major")


def test_a_series_that_cannot_compile_here_is_passed_over_and_said() -> None:
    choice = plan.choose_series(
        "13.0", ["13-0", "13-2"], "same_major", lambda series: "glibc 2.42" if series == "13-0" else None
    )
    assert (choice.series, "glibc 2.42" in choice.note) == ("13-2", True)
    with pytest.raises(PlanError, match="glibc 2.42"):
        plan.choose_series("13.0", ["13-0", "13-2"], "exact", lambda series: "glibc 2.42")


@pytest.mark.parametrize("cuda", ["", "None", "13", "13.0.1", "thirteen"])
def test_what_is_no_cuda_version(cuda: str) -> None:
    with pytest.raises(PlanError, match="expected a version such as 13.0"):
        plan.series_of(cuda)


def test_roots_take_the_series() -> None:
    assert plan.root_packages("13-0", True, ["libcurand-dev", "cuda-nvrtc-dev-13-0", "cuda-nvcc"]) == [
        "cuda-nvcc-13-0",
        "cuda-cudart-dev-13-0",
        "libcublas-dev-13-0",
        "libcusparse-dev-13-0",
        "libcusolver-dev-13-0",
        "libcurand-dev-13-0",
        "cuda-nvrtc-dev-13-0",
    ]


ROOTS_13 = plan.root_packages("13-0", False)


def test_the_newest_of_a_series_with_its_compiler_parts() -> None:
    assert plan.requests("13-0", ROOTS_13, {}, {}, OFFERED) == {
        "cuda-nvcc-13-0": "13.0.88-1",
        "cuda-cudart-dev-13-0": "13.0.96-1",
        "cuda-crt-13-0": "13.0.88-1",
        "libnvvm-13-0": "13.0.88-1",
    }


def test_cuda_12_names_its_parts_differently() -> None:
    assert plan.requests("12-8", plan.root_packages("12-8", False), {}, {}, OFFERED) == {
        "cuda-nvcc-12-8": "12.8.93-1",
        "cuda-cudart-dev-12-8": "12.8.90-1",
        "cuda-nvvm-12-8": "12.8.93-1",
    }


def test_a_working_toolkit_is_not_moved_because_the_repository_moved_on() -> None:
    installed = {"cuda-nvcc-13-0": "13.0.48-1", "cuda-cudart-dev-13-0": "13.0.48-1"}
    asked = plan.requests("13-0", ROOTS_13, {}, installed, OFFERED)
    assert asked["cuda-nvcc-13-0"] == asked["cuda-crt-13-0"] == "13.0.48-1"
    assert asked["cuda-cudart-dev-13-0"] == "13.0.48-1"


def test_a_wanted_version_takes_the_compilers_parts_along() -> None:
    asked = plan.requests("13-0", ROOTS_13, {"cuda-nvcc-13-0": "13.0.48-1"}, {}, OFFERED)
    assert asked["cuda-crt-13-0"] == "13.0.48-1"
    assert asked["cuda-cudart-dev-13-0"] == "13.0.96-1"


def test_a_wanted_version_of_another_series_does_not_bring_that_series() -> None:
    asked = plan.requests("13-0", ROOTS_13, {"cuda-nvcc-12-8": "12.8.93-1"}, {}, OFFERED)
    assert not [name for name in asked if name.endswith("12-8")]


def test_a_version_that_nobody_offers_shows_the_candidates() -> None:
    with pytest.raises(PlanError, match=r"no version 13.0.99-1 .* offer 13.0.88-1, 13.0.48-1"):
        plan.requests("13-0", ROOTS_13, {"cuda-nvcc-13-0": "13.0.99-1"}, {}, OFFERED)


def test_a_package_that_nobody_offers() -> None:
    with pytest.raises(PlanError, match="do not offer the package libnothing-dev-13-0"):
        plan.requests("13-0", [*ROOTS_13, "libnothing-dev-13-0"], {}, {}, OFFERED)


def test_simulation() -> None:
    simulation = plan.parse_simulation(SIMULATED)
    assert simulation.installs == [
        ("dpkg-dev", "1.21.23", None),
        ("libc6", "2.36-9", None),
        ("cuda-crt-13-0", "13.0.88-1", "13.0.48-1"),
        ("cuda-nvcc-13-0", "13.0.88-1", None),
    ]
    with pytest.raises(PlanError, match="would remove nvidia-cuda-toolkit"):
        plan.check_simulation(simulation)


@pytest.mark.parametrize(
    "name",
    [
        "cuda-drivers",
        "cuda-drivers-580",
        "nvidia-driver",
        "nvidia-driver-cuda",
        "nvidia-open",
        "libcuda1",
        "libnvidia-ml1",
    ]
    + ["nvidia-kernel-open-dkms", "nvidia-modprobe", "nvidia-utils-580", "linux-modules-nvidia-580-generic"],
)
def test_drivers_are_refused(name: str) -> None:
    with pytest.raises(PlanError, match=f"GPU driver \\({name}\\)"):
        plan.check_simulation(plan.Simulation([(name, "1", None)], []))


@pytest.mark.parametrize(
    "name",
    ["cuda-driver-dev-13-0", "nvidia-container-toolkit", "libnvidia-container1", "cuda-nvcc-13-0", "libnvidia-ml-dev"]
    + ["nvidia-cuda-toolkit", "libnvvm-13-0"],
)
def test_what_sounds_like_a_driver_and_is_none(name: str) -> None:
    plan.check_simulation(plan.Simulation([(name, "1", None)], []))


def test_the_pair_that_cannot_be_satisfied_is_named() -> None:
    error = plan.explain_failure(UNMET)
    assert error.id == "toolkit.unsatisfiable"
    assert "cuda-nvcc-13-0 Depends: cuda-crt-13-0 (>= 13.0.88) but 13.0.48-1 is to be installed" in str(error)


@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("E: Version '9.9' for 'cuda-nvcc-13-0' was not found\n", "Version '9.9'"),
        ("", "printed nothing"),
        ("W: x\nhm\n", "hm"),
    ],
)
def test_another_refusal_is_shown_in_apts_words(output: str, part: str) -> None:
    assert part in str(plan.explain_failure(output))


def test_members_are_the_series_alone() -> None:
    closure = plan.parse_closure(
        "cuda-nvcc-13-0\n  Depends: cuda-crt-13-0\n  Depends: <virtual>\n   "
        " real\ncuda-crt-13-0\n<virtual>\nlibpcre2-8-0\n"
        "cuda-toolkit-13-0-config-common\ncuda-toolkit-13-config-common\ncuda-toolkit-config-common\nlibnvvm-13-2\n"
    )
    assert plan.toolkit_members(closure, "13-0") == [
        "cuda-crt-13-0",
        "cuda-nvcc-13-0",
        "cuda-toolkit-13-0-config-common",
    ]
