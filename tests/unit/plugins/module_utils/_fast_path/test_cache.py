# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record is believed exactly while nothing that it depends on has changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import cache
from tests import fast_path_fakes as fakes

ROLE = Path(__file__).resolve().parents[5] / "roles" / "fast_path"
PARTS = st.tuples(
    st.sampled_from(["/opt/a/bin/python", "/opt/b/bin/python"]),
    st.dictionaries(st.sampled_from(["model_type", "num_hidden_layers"]), st.integers(0, 3)),
    st.dictionaries(st.sampled_from(["/x/torch", "/x/fla"]), st.lists(st.integers(0, 3), min_size=2, max_size=2)),
    st.dictionaries(st.sampled_from(["user", "environment"]), st.sampled_from(["root", "trainer"])),
)


@given(PARTS, PARTS)
def test_keys_are_equal_exactly_when_every_part_is(one: tuple[Any, ...], two: tuple[Any, ...]) -> None:
    assert (cache.key(*one) == cache.key(*two)) is (one == two)


@given(PARTS)
def test_a_record_survives_json_and_is_believed_under_its_key_alone(parts: tuple[Any, ...]) -> None:
    key = cache.key(*parts)
    record = json.loads(json.dumps(cache.record(key, {"state": "ok"}, 1.5)))
    assert cache.believe(record, key) == {"state": "ok"}
    assert cache.believe(record, key[::-1] + "x") is None


@pytest.mark.parametrize(
    "recorded",
    [
        None,
        [],
        "x",
        {},
        {"schema": 1, "key": "k"},
        {"schema": 2, "key": "k", "binding": {}},
        {"key": "k", "binding": {}},
    ],
)
def test_a_damaged_record_or_one_of_another_release_is_not_believed(recorded: Any) -> None:
    assert cache.believe(recorded, "k") is None


def test_role_writes_the_schema_that_is_read() -> None:
    assert yaml.safe_load((ROLE / "vars" / "main.yml").read_text())["__fast_path_schema"] == cache.SCHEMA


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.read_text() + "\n" if path.exists() else "")
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 5_000_000_000))


CHANGES = {
    "a package upgraded": lambda folder: fakes.write(folder, fakes.metadata("fla-core", "0.6.0")),
    "a package removed": lambda folder: fakes.remove(folder, "causal_conv1d"),
    "a file edited": lambda folder: touch(folder / "fla" / "__init__.py"),
    "a compiled part replaced": lambda folder: touch(folder / "causal_conv1d_cuda.cpython-311-x86_64-linux-gnu.so"),
    "kernels installed": lambda folder: touch(folder / "kernels" / "__init__.py"),
    "a path file added": lambda folder: touch(folder / "my_fla.pth"),
    "triton installed": lambda folder: fakes.write(folder, fakes.metadata("triton", "3.7.1")),
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    fakes.fla(fakes.conv(tmp_path))
    touch(tmp_path / "causal_conv1d_cuda.cpython-311-x86_64-linux-gnu.so")
    return tmp_path


@pytest.mark.parametrize("name", CHANGES)
def test_stamps_change_with_what_decides_a_binding(site: Path, name: str) -> None:
    before = cache.stamps([str(site)])
    assert cache.stamps([str(site)]) == before != {}
    CHANGES[name](site)
    assert cache.stamps([str(site)]) != before


def test_stamps_stay_when_something_else_is_installed(site: Path) -> None:
    before = cache.stamps([str(site), str(site / "gone")])
    touch(site / "numpy" / "__init__.py")
    fakes.write(site, fakes.metadata("pandas", "3.0"))
    assert cache.stamps([str(site), str(site / "gone")]) == before


def test_proof_record_keeps_the_verdict_and_the_least_ratio() -> None:
    gpu = {"name": "NVIDIA H200", "fast": {"ratios": [{"training": 8.0}, {"training": 19.4}, {"training": None}]}}
    good = cache.proof_record(
        {"state": "ok", "sentence": "fine", "gpus": [gpu, gpu]}, [{"ms": 1}], "2026-11-30T00:00:00"
    )
    assert (good["ok"], good["error"], good["gpu"], good["gpus"], good["ratio"]) == (True, None, "NVIDIA H200", 2, 8.0)
    bad = cache.proof_record({"state": "broken", "sentence": "backward refuses", "gpus": [{"fast": None}]}, [], "t")
    assert (bad["ok"], bad["error"], bad["ratio"]) == (False, "backward refuses", None)
    assert cache.proof_record({"error": "it hung"}, [], "t")["error"] == "it hung"
