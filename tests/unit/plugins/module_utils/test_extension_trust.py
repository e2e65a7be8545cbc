# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose authorities are trusted when an extension's sources are fetched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_job import Job
from ansible_collections.proxmox_gpu.training.plugins.modules.cuda_extension import ARGUMENTS, wish_of


def job(**params: Any) -> Job:
    """A job on no machine in particular."""
    defaults = {name: spec.get("default") for name, spec in ARGUMENTS.items()}
    made = Job.__new__(Job)
    made.wish = wish_of(
        {
            **defaults,
            "name": "x",
            "description": {"compiled": ["x"]},
            "version": "1.0",
            "gpu_targets": ["9.0"],
            **params,
        }
    )
    made.torch = {"python": "/opt/training/bin/python"}
    made._facts = lambda jobs, memory: SimpleNamespace(cuda_home="/usr/local/cuda-13.0")  # type: ignore[method-assign,assignment,return-value]
    return made


@pytest.mark.parametrize(("bundle", "expected"), [("/srv/ca.pem", "/srv/ca.pem"), (None, "/from/outside.pem")])
def test_the_wished_bundle_comes_before_the_one_from_outside(
    monkeypatch: pytest.MonkeyPatch, bundle: str | None, expected: str
) -> None:
    monkeypatch.setenv("PIP_CERT", "/from/outside.pem")
    assert job(ca_bundle=bundle)._environment("/tmp", network=True)["PIP_CERT"] == expected


def test_a_build_itself_is_given_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CERT", "/from/outside.pem")
    assert "PIP_CERT" not in job(ca_bundle="/srv/ca.pem")._environment("/tmp")
