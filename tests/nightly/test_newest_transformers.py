# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest transformers that the package index has: is its design one that we know, and are its families ours?

Not part of ``make test``, because it fails when somebody else publishes something. A failure says what to look at: a
design that has to be learnt, or a family that calls fast functions and is not in the table.
"""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import child, families
from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.design import read_design
from tests import fast_path_environments as environments
from tests import fast_path_fakes as fakes

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def release() -> str:
    command = [str(environments.base()), "-m", "pip", "index", "versions", "transformers"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.split("(", 1)[1].split(")", 1)[0]


@pytest.fixture(scope="module")
def models(release: str) -> Path:
    return Path(environments.transformers(release)[-1]) / "transformers" / "models"


@pytest.mark.parametrize("family", families.FAMILIES)
def test_known_families_have_a_known_design(models: Path, family: str) -> None:
    source = (models / family / f"modeling_{family}.py").read_text()
    assert read_design(source).name != "unknown"


def test_everything_installed_is_bound(release: str, tmp_path: Path) -> None:
    fakes.fla(fakes.conv(tmp_path))
    path = os.pathsep.join([str(tmp_path), *environments.transformers(release)])
    found = child.run(str(environments.base()), {"action": "binding"}, 300, environment={"PYTHONPATH": path})
    assert (found.get("state"), found.get("transformers")) == ("ok", release), found


def test_no_family_with_fast_functions_is_missing_from_the_table(models: Path) -> None:
    strangers = []
    for file in sorted(models.glob("*/modeling_*.py")):
        names = {node.id for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name)}
        if names & set(families.FUNCTIONS) and file.parent.name not in families.FAMILIES:
            strangers.append(file.parent.name)
    assert strangers == KNOWN_STRANGERS


# Families of 5.24 that nobody has asked for yet: their census is "unknown", with what was seen.
KNOWN_STRANGERS = [
    "bailing_hybrid",
    "glm5_next",
    "inkling",
    "inkling2",
    "inkling2_loop",
    "lara_mini",
    "lfm3",
    "qwen4_exp",
]
