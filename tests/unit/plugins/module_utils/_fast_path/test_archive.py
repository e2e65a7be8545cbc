# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one-file program: complete, the same bytes each time, and usable by a Python that knows nothing of us."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import archive

PACKAGE = Path(archive.__file__).parent


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, cwd="/", check=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "fast_path_proof.py"
    path.write_bytes(archive.build(header=True))
    return path


def test_every_part_that_runs_in_the_training_interpreter_is_in_it() -> None:
    """All of the package but the two files that only whoever starts a child needs."""
    files = {path.name for path in PACKAGE.glob("*.py")} - {"archive.py", "child.py"}
    assert set(archive.sources()) == files
    names = zipfile.ZipFile(io.BytesIO(archive.build())).namelist()
    assert names == ["__main__.py", *(f"_fast_path/{name}" for name in sorted(files))]


def test_the_sources_are_the_files() -> None:
    for name, text in archive.sources().items():
        assert text == (PACKAGE / name).read_bytes()


def test_same_bytes_each_time() -> None:
    assert archive.build() == archive.build()
    assert archive.build(header=True).startswith(b"#!/usr/bin/env python3\nPK")


def test_runs_alone(program: Path) -> None:
    done = run(program, "--only", "census", "--family", "qwen3_next", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sentence"].startswith("6 of 8 layers are gated delta nets; they need ")


def test_can_be_started_as_a_program(program: Path) -> None:
    program.chmod(0o755)
    done = subprocess.run([str(program), "--help"], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0
    assert "--model DIR" in done.stdout and "request-on-stdin" not in done.stdout
