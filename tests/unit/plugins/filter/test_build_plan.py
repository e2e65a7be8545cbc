# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each wheel is built once, by a host that wants it and can."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ansible_collections.proxmox_gpu.training.plugins.filter.build_plan import build_plan
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import make_key


def answer(name: str = "tiny", torch: str = "2.14.1", **changes: Any) -> dict[str, Any]:
    key = make_key(name, "1.0", "ab" * 32, torch, "13.0", "cp311", True, "x86_64", "glibc-2.36", ["9.0"])
    return {"key": key.as_dict(), "available": False, "obstacle": None, **changes}


def asked(**hosts: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {host: {"results": results} for host, results in hosts.items()}


def test_hosts_of_one_key_have_one_builder_the_first() -> None:
    plan = build_plan(asked(ct1=[answer()], ct2=[answer()], ct3=[answer(torch="2.13.0")]))
    assert sorted(plan.values()) == ["ct1", "ct3"]


def test_the_first_that_can_build_is_taken() -> None:
    plan = build_plan(asked(ct1=[answer(obstacle="no nvcc")], ct2=[answer()], ct3=[answer()]))
    assert list(plan.values()) == ["ct2"]


def test_where_nobody_can_nobody_is_asked_to() -> None:
    assert build_plan(asked(ct1=[answer(obstacle="no nvcc")], ct2=[answer(obstacle="no ninja")])) == {}


def test_what_is_there_is_not_built() -> None:
    nothing = [answer(available=True), {"changed": False}, {"failed": True, "msg": "x"}]
    assert build_plan(asked(ct1=nothing)) == {}
    assert build_plan({"ct1": {}}) == {}


def test_several_builders_share_the_work() -> None:
    names = [f"p{number}" for number in range(6)]
    everyone = {host: [answer(name) for name in names] for host in ("ct1", "ct2", "ct3")}
    plan = build_plan(asked(**everyone), ["ct2", "ct3"])
    assert Counter(plan.values()) == {"ct2": 3, "ct3": 3}


def test_a_wheel_that_no_builder_wants_is_built_by_the_first_that_does() -> None:
    plan = build_plan(asked(ct1=[answer()], ct2=[answer(torch="2.13.0")]), ["ct2"])
    assert sorted(plan.values()) == ["ct1", "ct2"]
