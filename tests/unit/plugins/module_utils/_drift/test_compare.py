# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One thing that moved is one line, on its link, with what was and what is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import verdict
from tests.unit.plugins.module_utils._drift import nights

Facts = dict[str, Any]


def put(*path: str, value: Any) -> nights.Move:
    def move(facts: Facts) -> None:
        place = facts
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value

    return move


def transformers_and_tokenizers(facts: Facts) -> None:
    facts["torch"]["distributions"] |= {"transformers": "5.18.0", "tokenizers": "0.23.0"}


def torch(facts: Facts) -> None:
    """As pip does: torch, and what it is pinned to."""
    facts["torch"]["version"] = "2.15.0+cu130"
    facts["torch"]["distributions"] |= {"torch": "2.15.0", "triton": "3.9.0", "nvidia-cublas": "13.2"}
    facts["torch"]["requirements"] = [{"name": "triton", "spec": "~=3.9.0"}]
    facts["compiler"]["key"] = {**facts["compiler"]["key"], "torch": "2.15.0+cu130"}
    facts["extensions"]["causal-conv1d"]["key"] = {"torch": "2.15.0+cu130"}
    facts["proof"]["key"] = {"torch": "2.15.0+cu130"}


def toolkit_upgraded(facts: Facts) -> None:
    for package in facts["toolkit"]["packages"].values():
        package["version"] = "13.0.99-1"
    facts["toolkit"]["nvccs"][0]["version"] = "13.0.99"
    facts["compiler"]["key"] = {**facts["compiler"]["key"], "nvcc": "13.0.99"}


def other_nvcc(facts: Facts) -> None:
    path = "/usr/bin/nvcc"
    facts["toolkit"]["nvccs"].append(
        {"path": path, "realpath": path, "home": "/usr", "version": "11.8.89", "package": None}
    )
    facts["toolkit"]["default_nvcc"] = {"path": path, "realpath": path, "home": "/usr", "version": "11.8.89"}


def keyring(facts: Facts) -> None:
    facts["repository"]["keyring"]["fingerprints"] = ["AA" * 20]
    facts["repository"]["keyrings"] = {"x": facts["repository"]["keyring"]}


def extension_gone(facts: Facts) -> None:
    facts["extensions"] = {}
    del facts["torch"]["distributions"]["causal-conv1d"]
    for function in facts["binding"]["functions"][:2]:
        function |= {"bound": False, "state": "absent", "implementation": None}


def driver(facts: Facts) -> None:
    """The node was upgraded and booted; the container's libraries are the old ones."""
    facts["gpu"]["module_version"] = "590.44.01"
    facts["proof"]["key"] = {"torch": "2.14.1+cu130", "driver": "590.44.01"}


def node_gone(facts: Facts) -> None:
    facts["gpu"]["nodes"][-1] = {"path": "/dev/nvidia-uvm", "kind": "missing", "required": True}


PIN = {"/etc/apt/preferences.d/x": [{"package": "x", "pin": "y", "priority": 1}]}
L4 = [{"name": "NVIDIA L4", "capability": "9.0"}]
LIBRARY = [{"path": "/l", "version": "590.1"}]
CASES: dict[str, tuple[nights.Move, bool, str, str, str]] = {
    # what moved: (how, on a GPU, the link, was, is)
    "system": (put("base", "os", value={"id": "debian", "version_id": "13"}), False, "base", "debian 12", "debian 13"),
    "glibc": (put("base", "glibc", value="2.41"), False, "base", "2.36", "2.41"),
    "driver": (driver, True, "gpu", "580.95.05", "590.44.01"),
    "libraries": (put("gpu", "libraries", value=LIBRARY), True, "gpu", "580.95.05", "590.1"),
    "device node": (node_gone, True, "gpu", "there", "missing"),
    "GPU": (put("gpu", "gpus", value=L4), True, "gpu", "NVIDIA H200", "NVIDIA L4"),
    "torch": (torch, False, "torch", "2.14.1+cu130", "2.15.0+cu130"),
    "packages": (transformers_and_tokenizers, False, "torch", "5.17.0", "5.18.0"),
    "entry": (put("repository", "entries", value=[]), False, "repository", nights.hosts.URL, "nothing"),
    "key": (keyring, False, "repository", "E231E123A4B469963BF863CC"[-16:], "AAAAAAAAAAAAAAAA"),
    "toolkit": (toolkit_upgraded, False, "toolkit", "13.0.88-1", "13.0.99-1"),
    "other nvcc": (other_nvcc, False, "toolkit", "nothing", "CUDA 11.8.89"),
    "pins": (put("toolkit", "pins", value=PIN), False, "toolkit", "nothing", "1 record"),
    "gcc": (put("compiler", "gcc", value="14.2.0"), False, "compiler", "12.2.0", "14.2.0"),
    "extension": (extension_gone, False, "extensions", "1.7.0", "nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_line(name: str) -> None:
    move, gpu, link, was, now = CASES[name]
    found = nights.judged(move, gpu)
    assert [line["link"] for line in found["lines"]] == [link], found["lines"]
    [line] = found["lines"]
    assert (line["was"], line["is"]) == (was, now)
    assert line["kind"] == found["result"] == "drift"
    assert line["remedy"] and "HOST" not in line["remedy"]
    assert found["links"][link]["state"] == "drift"


@pytest.mark.parametrize("gpu", [False, True])
def test_nothing_moved(gpu: bool) -> None:
    found = nights.judged(gpu=gpu)
    assert found["lines"] == []
    assert found["result"] == "ok"


def test_packages_that_came_along_are_named() -> None:
    [line] = nights.judged(transformers_and_tokenizers)["lines"]
    assert line["what"] == "transformers (with tokenizers)"


def test_two_things_are_two_lines() -> None:
    def move(facts: Facts) -> None:
        other_nvcc(facts)
        transformers_and_tokenizers(facts)

    assert [line["link"] for line in nights.judged(move)["lines"]] == ["torch", "toolkit"]


def test_a_wish_that_changed_is_a_line() -> None:
    [line] = nights.judged(torch_environment_packages={"transformers": "5.16.0"})["lines"]
    assert line["link"] == "torch"
    assert "torch_environment_packages" in line["is"]


def test_an_older_lock_is_compared_by_what_it_holds() -> None:
    def move(facts: Facts) -> None:
        for section, names in {
            "toolkit": ("pins", "cuda_link"),
            "repository": ("entries", "expires"),
            "gpu": ("nodes",),
        }.items():
            for name in names:
                del facts["proof"]["lock"][section][name]

    assert nights.judged(move)["lines"] == []


@pytest.mark.parametrize(
    ("seconds", "lines"),
    [(40 * 86400, []), (10 * 86400, ["expires on 2026-12-10"]), (-86400, ["expired on 2026-11-29"])],
)
def test_a_key_that_ends_soon(seconds: int, lines: list[str]) -> None:
    def move(facts: Facts) -> None:
        expires = {nights.hosts.OLD_KEY: int(nights.NOW) + seconds}
        facts["repository"]["keyring"]["expires"] = expires
        facts["proof"]["lock"]["repository"]["expires"] = expires

    assert [line["is"] for line in nights.judged(move)["lines"]] == lines


@pytest.mark.parametrize(
    ("move", "result", "words"),
    [
        (put("proof", "lock_exists", value=False), "not_provisioned", "no lock at"),
        (put("proof", "lock", value={}), "unknown", "damaged"),
        (put("proof", "lock", value={"schema": 2}), "unknown", "newer release"),
        (put("proof", "lock", value={"schema": "one"}), "unknown", "damaged"),
        (put("base", value={"python_missing": True}), "not_provisioned", "bare"),
        (put("reach", value={"error": "no route"}), "unknown", "no route"),
        (put("proof", value={"error": "the container did not answer"}), "unknown", "did not answer"),
        (put("torch", value={"error": "the disk is gone"}), "unknown", "the disk is gone"),
    ],
)
def test_what_cannot_be_told_is_one_line(move: nights.Move, result: str, words: str) -> None:
    def both(facts: Facts) -> None:
        move(facts)
        if facts["proof"].get("lock_exists") is False:
            facts["proof"]["lock"] = None

    found = nights.judged(both)
    assert found["result"] == result, found["lines"]
    assert [words in line["is"] for line in found["lines"]] == [True], found["lines"]


def test_a_mirror_that_is_down_hides_no_drift() -> None:
    def move(facts: Facts) -> None:
        facts["repository"]["network"] = {"error": "no route", "transient": True}
        facts["toolkit"]["packages"]["cuda-nvcc-13-0"]["held"] = False

    assert [(one["link"], one["kind"]) for one in nights.judged(move)["lines"]] == [
        ("repository", "unknown"),
        ("toolkit", "drift"),
    ]


LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.text(max_size=2), max_size=2)


@given(st.dictionaries(st.sampled_from(["gpu", "torch", "toolkit", "repository", "binding", "system"]), st.dictionaries(
    st.sampled_from(["version", "driver", "nodes", "packages", "entries", "functions", "glibc"]), LEAF)))  # fmt: skip
def test_a_lock_edited_by_hand_never_raises(lock: dict[str, Any]) -> None:
    found = nights.judged(put("proof", "lock", value={"schema": 1, **lock}))
    assert found["result"] in verdict.EXIT
