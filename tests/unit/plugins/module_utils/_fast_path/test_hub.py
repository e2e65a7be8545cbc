# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said about the package kernels; transformers is a stand-in."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import hub


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> Any:
    utils: Any = ModuleType("transformers.utils")
    utils.import_utils = SimpleNamespace(KERNELS_MIN_VERSION="0.12.0", is_kernels_available=lambda: True)
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))
    monkeypatch.setitem(sys.modules, "transformers.utils", utils)
    return utils.import_utils


def test_kernels_of_the_hub_on_request_are_not_what_is_proven(transformers: Any) -> None:
    (sentence,) = hub.warnings("0.15.2", "5.17.0", decorated=True)
    assert "loaded with use_kernels=True takes functions from the hub instead of those that are proven" in sentence


def test_a_release_that_does_not_ask_on_request_is_told_nothing(transformers: Any) -> None:
    assert hub.warnings("0.15.2", "5.14.1", decorated=False) == []
    assert hub.warnings(None, "5.17.0", decorated=True) == []


def test_kernels_that_are_off_cannot_be_asked_for(transformers: Any) -> None:
    transformers.is_kernels_available = lambda: False
    (sentence,) = hub.warnings("0.9", "5.17.0", decorated=True)
    assert sentence.endswith("takes (0.12.0 or later): kernels of the hub are off.")
