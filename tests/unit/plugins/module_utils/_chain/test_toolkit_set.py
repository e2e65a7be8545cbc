# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 6: which packages make the set that is held, and what of it the variables ask for."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.finding import Finding
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.judge import judge
from tests.unit.plugins.module_utils._chain import hosts


def toolkit(facts: hosts.Facts, wishes: dict[str, Any] | None = None) -> list[Finding]:
    return [found for found in judge(wishes or hosts.wishes(), facts) if found.link == "toolkit"]


def with_packages(**packages: bool) -> hosts.Facts:
    """A finished host with more packages: name with _ for -, and whether it is held."""
    facts = hosts.provisioned()
    more = {name.replace("_", "-"): {"version": "1", "held": held} for name, held in packages.items()}
    facts["toolkit"]["packages"].update(more)
    return facts


def test_a_second_series_that_somebody_installed_needs_no_hold() -> None:
    facts = with_packages(cuda_nvcc_12_8=False, libcublas_dev_12_8=False, nvidia_cuda_toolkit=False)
    assert [found.id for found in toolkit(facts)] == ["toolkit.ok"]


def test_all_packages_of_the_chosen_series_need_one() -> None:
    [found] = toolkit(with_packages(cuda_nvcc_12_8=False, libcublas_13_0=False))
    assert (found.id, found.observed) == ("toolkit.not_held", "libcublas-13-0")


def test_a_compiler_of_the_distribution_s_is_no_second_series_where_it_is_the_chosen_one() -> None:
    facts = with_packages(nvidia_cuda_toolkit=False)
    facts["toolkit"]["nvccs"] = [{**hosts.NVCC, "package": "nvidia-cuda-toolkit"}]
    [found] = toolkit(facts)
    assert (found.id, found.observed) == ("toolkit.not_held", "nvidia-cuda-toolkit")


@pytest.mark.parametrize(
    ("wishes", "wished", "expected"),
    [
        ({"cuda_toolkit_versions": {"cuda-nvcc-13-0": "13.0.88-1"}}, {"cuda-nvcc-13-0": "13.0.88-1"}, "toolkit.ok"),
        ({"cuda_toolkit_versions": {"cuda-nvcc-12-8": "12.8.93-1"}}, {}, "toolkit.ok"),
        ({"cuda_toolkit_versions": {"cuda-nvcc-13-0": "13.0.88-1"}}, {}, "toolkit.packages_missing"),
        ({"cuda_toolkit_beside_compiler": ["libcurand-dev"]}, {"libcurand-dev-13-0": "1"}, "toolkit.ok"),
        ({"cuda_toolkit_beside_compiler": ["libcurand-dev"]}, {"libcurand-dev-12-8": "1"}, "toolkit.packages_missing"),
        ({"cuda_toolkit_beside_compiler": ["libcurand-dev-12-8"]}, {"libcurand-dev-12-8": "1"}, "toolkit.ok"),
        ({"cuda_toolkit_build_packages": ["cmake"]}, {"cmake": "3.25"}, "toolkit.ok"),
        ({"cuda_toolkit_build_packages": ["cmake"]}, {}, "toolkit.packages_missing"),
    ],
)
def test_what_is_set_is_compared_with_what_is_there(
    wishes: dict[str, Any], wished: dict[str, str], expected: str
) -> None:
    facts = hosts.provisioned()
    facts["toolkit"]["wished"] = wished
    assert [found.id for found in toolkit(facts, hosts.wishes(**wishes))] == [expected]


def test_build_packages_of_the_roles_own_choosing_are_not_missed() -> None:
    wishes = hosts.wishes(cuda_toolkit_build_packages=["ninja-build"])
    wishes["explicit"] = []
    assert [found.id for found in toolkit(hosts.provisioned(), wishes)] == ["toolkit.ok"]


@pytest.mark.parametrize(("asked", "expected"), [(False, "toolkit.by_hand"), (True, "toolkit.packages_missing")])
def test_a_toolkit_by_hand_has_its_headers_without_packages(asked: bool, expected: str) -> None:
    """A description that needs the math libraries asks for nothing there; a person who names a package does."""
    changes = {"cuda_toolkit_extra_packages": ["libcublas-dev"]} if asked else {}
    wishes = hosts.wishes(cuda_toolkit_beside_compiler=["libcublas-dev"], **changes)
    assert toolkit(hosts.runfile(), wishes)[0].id == expected
