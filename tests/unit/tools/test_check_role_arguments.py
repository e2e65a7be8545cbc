# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check that keeps a role's two descriptions of its variables equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.check_role_arguments import differences


def role(folder: Path, defaults: dict[str, Any], options: dict[str, Any]) -> Path:
    base = folder / "demo"
    for name, content in (
        ("defaults/main.yml", defaults),
        ("meta/argument_specs.yml", {"argument_specs": {"main": {"options": options}}}),
    ):
        (base / name).parent.mkdir(parents=True)
        (base / name).write_text(yaml.safe_dump(content))
    (base / "README.md").write_text("demo")
    return base


@pytest.mark.parametrize(
    ("defaults", "options", "word"),
    [
        ({"demo_a": 1}, {}, "defaults/main.yml alone"),
        ({}, {"demo_a": {"type": "int"}}, "argument_specs.yml alone"),
        ({"demo_a": 1}, {"demo_a": {"default": 2}}, "default 1, but 2"),
        ({"demo_a": 1}, {"demo_a": {}}, "default 1, but None"),
        ({"other": 1}, {"other": {"default": 1}}, "does not begin with demo_"),
    ],
)
def test_a_difference_is_named(tmp_path: Path, defaults: dict[str, Any], options: dict[str, Any], word: str) -> None:
    (sentence,) = differences(role(tmp_path, defaults, options))
    assert word in sentence


@pytest.mark.parametrize(
    ("defaults", "options"),
    [
        ({"demo_a": 1}, {"demo_a": {"default": 1}}),
        ({"demo_a": ""}, {"demo_a": {"type": "str"}}),
        ({"demo_a": "{{ demo_b }}"}, {"demo_a": {"default": "what demo_b says"}}),
        ({}, {"demo_a": {"required": True}}),
    ],
)
def test_agreement_is_silent(tmp_path: Path, defaults: dict[str, Any], options: dict[str, Any]) -> None:
    assert differences(role(tmp_path, defaults, options)) == []


def test_a_role_without_a_readme_is_named(tmp_path: Path) -> None:
    base = role(tmp_path, {}, {})
    (base / "README.md").unlink()
    assert differences(base) == ["has no README.md"]
