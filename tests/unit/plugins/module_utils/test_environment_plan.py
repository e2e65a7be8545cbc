# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Only what was named moves, and torch only when told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.versions import satisfies
from ansible_collections.proxmox_gpu.training.plugins.module_utils._environment_plan import (
    Plan,
    Torch,
    Wish,
    moved,
    plan,
    requirement,
)

CUDA = Torch("2.14.1+cu130", "13.0", None, {"triton": "~=3.8.0", "nvidia-cublas": "==13.1.1.3"})
CPU = Torch("2.14.1+cpu", None)
NONE = Torch()
FULL = {"torch": "2.14.1", "triton": "3.8.0", "nvidia-cublas": "13.1.1.3", "transformers": "5.17.0", "numpy": "2.2.6"}
WISH = Wish("2.14.1", {"transformers": "5.17.0", "numpy": "2.2.6"})


def test_an_empty_environment_gets_everything_at_once() -> None:
    found = plan({}, NONE, WISH)
    assert found.requirements == ("torch==2.14.1,!=2.14.1+cpu", "numpy==2.2.6", "transformers==5.17.0")
    assert found.constraints == ()
    assert found.installs_torch


def test_a_finished_environment_is_left_alone() -> None:
    assert plan(FULL, CUDA, WISH) == Plan()
    assert plan(FULL, CUDA, Wish(">=2.13,<2.15", {"Transformers": ">=5", "numpy": ""})) == Plan()


def test_what_others_need_and_what_torch_pins_is_put_back() -> None:
    have = {**FULL, "triton": "3.4.0"}
    found = plan(have, CUDA, WISH, {"fla-core": "==0.5.2"})
    assert found.requirements == ("fla-core==0.5.2", "triton~=3.8.0")
    assert "triton==3.4.0" not in found.constraints
    assert not found.installs_torch


def test_versions_that_nobody_asked_for_move_nothing() -> None:
    wish = Wish("2.14.1", {"transformers": "5.24.0", "einops": "0.8.1"}, keep_installed=True)
    found = plan(FULL, CUDA, wish)
    assert found.requirements == ("einops==0.8.1",)
    assert "transformers==5.17.0" in found.constraints


def test_adding_one_pins_all_the_others() -> None:
    found = plan(FULL, CUDA, Wish("2.14.1", {**WISH.packages, "Flash_Linear.Attention": "0.5.2"}))
    assert found.requirements == ("flash-linear-attention==0.5.2",)
    assert found.constraints == tuple(f"{name}=={version}" for name, version in sorted(FULL.items()))
    assert not found.installs_torch


def test_a_changed_wish_moves_that_package_and_those_named_with_any_version() -> None:
    found = plan({**FULL, "tokenizers": "0.22"}, CUDA, Wish("2.14.1", {"transformers": "5.24.0", "tokenizers": ""}))
    assert found.requirements == ("transformers==5.24.0",)
    pinned = {one.partition("==")[0] for one in found.constraints}
    assert pinned == set(FULL) - {"transformers"}


@pytest.mark.parametrize(
    ("torch", "wish", "words"),
    [
        (CPU, WISH, ["torch 2.14.1+cpu in {path} is not a CUDA build", "torch_environment_replace_torch", "_cpu_only"]),
        (CUDA, Wish("2.15.0"), ["torch 2.14.1+cu130 is installed in {path}, and 2.15.0 is wanted", "torch to 2.14.1"]),
        (CUDA, Wish("2.13.0", replace_torch=False), ["2.13.0 is wanted"]),
    ],
)
def test_torch_is_not_moved_untold(torch: Torch, wish: Wish, words: list[str]) -> None:
    refused = plan(FULL, torch, wish).refused or ""
    for word in words:
        assert word in refused


def test_torch_is_moved_when_told_and_its_companions_with_it() -> None:
    found = plan(FULL, CUDA, Wish("2.15.0", WISH.packages, replace_torch=True))
    assert found.requirements == ("torch==2.15.0,!=2.15.0+cpu",)
    assert found.uninstall == ("torch",)
    assert found.constraints == ("numpy==2.2.6", "transformers==5.17.0")


def test_a_cpu_build_is_replaced_when_told_although_its_version_fits() -> None:
    found = plan({"torch": "2.14.1+cpu"}, CPU, Wish("2.14.1", replace_torch=True))
    assert (found.requirements, found.uninstall) == (("torch==2.14.1,!=2.14.1+cpu",), ("torch",))


def test_a_host_without_gpu_keeps_its_cpu_build() -> None:
    assert plan({"torch": "2.14.1+cpu"}, CPU, Wish("2.14.1", cpu_only=True)) == Plan()
    assert plan({}, NONE, Wish("2.14.1", cpu_only=True)) == Plan(("torch==2.14.1",))


def test_a_half_installed_torch_is_finished_without_being_told() -> None:
    found = plan({"triton": "3.8.0"}, Torch("2.14.1", "13.0", "its record is missing", {"triton": "~=3.8.0"}), WISH)
    assert found.requirements[0] == "torch==2.14.1,!=2.14.1+cpu"
    assert found.uninstall == ()


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ("0.8.0", "x==0.8.0"),
        ("==0.8.*", "x==0.8.*"),
        (">=0.8,<1", "x>=0.8,<1"),
        ("~=0.8", "x~=0.8"),
        ("", "x"),
        ("*", "x"),
    ],
)
def test_requirements_as_pip_reads_them(wish: str, text: str) -> None:
    assert requirement("x", wish) == text


def test_what_moved_is_named() -> None:
    done = Plan(("x==1",), ("einops==0.8.0", "numpy==2.2.6", "torch==2.14.1"))
    before = {"einops": "0.8.0", "numpy": "2.2.6", "torch": "2.14.1", "transformers": "5.17.0"}
    after = {"numpy": "2.4.0", "torch": "2.14.1", "transformers": "5.24.0", "x": "1"}
    assert moved(before, after, done) == ["einops 0.8.0 -> gone", "numpy 2.2.6 -> 2.4.0"]


_names = st.sampled_from(["torch", "triton", "numpy", "transformers", "einops", "fla-core"])
_versions = st.sampled_from(["1.0", "2.0", "2.1.post1", "3.0rc1"])
_wishes = st.sampled_from(["1.0", "2.0", ">=2", "", "<3,>=1"])


@given(
    st.dictionaries(_names, _versions),
    st.builds(
        Torch, st.none() | _versions, st.none() | st.just("13.0"), st.none() | st.just("half"), st.just({"triton": ""})
    ),
    st.builds(
        Wish,
        _wishes,
        st.dictionaries(_names.filter(lambda name: name != "torch"), _wishes),
        st.booleans(),
        st.booleans(),
    ),
)
def test_any_plan_keeps_what_meets_its_wish(installed: dict[str, str], torch: Torch, wish: Wish) -> None:
    found = plan(installed, torch, wish)
    if found.refused:
        assert not wish.replace_torch
        assert (found.requirements, found.uninstall) == ((), ())
        return
    pinned = {one.partition("==")[0]: one.partition("==")[2] for one in found.constraints if "!=" not in one}
    assert all(installed[name] == version for name, version in pinned.items())
    asked = {
        one.replace("=", " ").replace(">", " ").replace("<", " ").split()[0].rstrip(",!") for one in found.requirements
    }
    for name, version in installed.items():
        named = wish.packages.get(name)
        if found.requirements and name not in ("torch", "triton") and named != "":
            assert (name in pinned) == (named is None or satisfies(version, named))
    for name, named in wish.packages.items():
        if name not in installed or not satisfies(installed[name], named):
            assert name in asked
