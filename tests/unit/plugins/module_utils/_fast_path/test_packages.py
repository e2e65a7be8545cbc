# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a package says when it is imported by name: absent, broken and half are three different things."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import packages
from tests import fast_path_fakes as fakes

PLAIN = "def causal_conv1d_fn(x, weight, bias=None, seq_idx=None, activation=None): ...\n"
BOTH = PLAIN + "def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None): ...\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import from; what was imported from it is forgotten again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("causal_conv1d", "fla")):
            del sys.modules[name]


def test_present(site: Path) -> None:
    fakes.conv(site, BOTH)
    found = packages.import_function("causal_conv1d_fn")
    assert (found["state"], found["error"], found["version"]) == ("ok", None, "1.7.0")
    assert found["file"] == str(site / "causal_conv1d" / "__init__.py")
    assert found["object"].__name__ == "causal_conv1d_fn"


def test_absent(site: Path) -> None:
    found = packages.import_function("causal_conv1d_fn")
    assert (found["state"], found["error"]) == ("absent", "no module 'causal_conv1d' here")


def test_metadata_without_a_module_is_broken_not_absent(site: Path) -> None:
    fakes.write(site, fakes.metadata("causal-conv1d", "1.7.0"))
    found = packages.import_function("causal_conv1d_fn")
    assert found["state"] == "broken"
    assert "its metadata, version 1.7.0, is there" in found["error"]


def test_half_a_package(site: Path) -> None:
    fakes.conv(site, PLAIN)
    assert packages.import_function("causal_conv1d_fn")["state"] == "ok"
    found = packages.import_function("causal_conv1d_update")
    assert found["state"] == "broken"
    assert found["error"].startswith("half a package: causal_conv1d has no causal_conv1d_update (")


def test_an_exception_at_import_is_kept_with_its_first_cause(site: Path) -> None:
    fakes.conv(
        site,
        "try:\n    import no_such_backend\nexcept ImportError as e:\n    raise RuntimeError('cannot start') from e\n",
    )
    found = packages.import_function("causal_conv1d_fn")
    assert found["state"] == "broken"
    assert found["error"] == (
        "RuntimeError: cannot start (because ModuleNotFoundError: No module named 'no_such_backend')"
    )


def test_an_undefined_symbol_is_shown(site: Path) -> None:
    fakes.broken_library(site)
    found = packages.import_function("causal_conv1d_fn")
    assert found["state"] == "broken"
    assert "undefined symbol: _ZN3c104cuda29c10_cuda_of_another_torchEv" in found["error"]


def test_a_suppressed_context_is_not_the_cause() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer") from None
    except ValueError as error:
        assert packages.describe(error) == "ValueError: outer"


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert packages.root_cause(one) in (one, two)


def test_a_long_text_is_cut_and_stays_one_line() -> None:
    text = packages.describe(ValueError("x\n" * 2000), limit=100)
    assert len(text) == 100 and "\n" not in text and text.endswith("...")


def test_dropped_arguments_are_named() -> None:
    function = packages.FUNCTIONS["causal_conv1d_fn"]
    assert packages.missing_arguments(lambda x, weight, activation: None, function) == ["seq_idx"]
    assert packages.missing_arguments(lambda x, **kwargs: None, function) == []
    assert packages.missing_arguments(dict, function) == []
    assert packages.missing_arguments(3, function) == []
