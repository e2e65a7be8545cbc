# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_errors import Build
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import Finished
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_build import (
    Progress,
    how_far,
    objects_of,
    target_variables,
    why,
    write_wrapper,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import describe

NINJA = """\
rule compile
  command = c++
build /b/build/temp/csrc/a.o: compile /b/csrc/a.cpp
build /b/build/temp/csrc/k.o: cuda_compile /b/csrc/k.cu
build /b/x.so: link /b/build/temp/csrc/a.o
"""
BUILD = Build("tiny 1.0", jobs=2)


def test_what_ninja_will_make(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(NINJA)
    assert objects_of(str(tmp_path / "build.ninja")) == ["/b/build/temp/csrc/a.o", "/b/build/temp/csrc/k.o"]
    assert objects_of(str(tmp_path / "absent")) == []


def test_how_far_a_build_is(tmp_path: Path) -> None:
    temp = tmp_path / "build" / "temp"
    temp.mkdir(parents=True)
    (temp / "build.ninja").write_text(NINJA.replace("/b/build", str(tmp_path / "build")))
    (temp / "csrc").mkdir()
    (temp / "csrc" / "a.o").write_text("")
    events = tmp_path / "events"
    lines = [
        {"event": "begin", "source": "a.cu"},
        {"event": "end", "source": "a.cu"},
        {"event": "begin", "source": "k.cu"},
    ]
    events.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half')
    assert how_far(str(tmp_path), str(events)) == {"compiling": ["k.cu"], "done": 1, "total": 2}


def test_before_anything_is_known(tmp_path: Path) -> None:
    assert how_far(str(tmp_path), str(tmp_path / "absent")) == {"compiling": [], "done": 0, "total": 0}


def test_targets_in_the_spelling_of_each_setup() -> None:
    assert target_variables(describe("causal-conv1d"), ["sm_90", "compute_120"]) == {
        "TORCH_CUDA_ARCH_LIST": "9.0;12.0+PTX"
    }
    assert target_variables(describe("flash-attn"), ["sm_90", "sm_120"])["FLASH_ATTN_CUDA_ARCHS"] == "90;120"
    assert target_variables(describe("flash-linear-attention"), []) == {}


def test_the_stand_in_for_nvcc_is_a_program(tmp_path: Path) -> None:
    path = Path(write_wrapper(str(tmp_path)))
    assert path.stat().st_mode & 0o111
    assert path.read_text().startswith("#!/")
    compile(path.read_text(), str(path), "exec")


@pytest.mark.parametrize(
    ("finished", "log", "cause"),
    [
        (Finished(0, 5, False), "", None),
        (Finished(1, 5, True), "", "timeout"),
        (Finished(-9, 5, False, starved=True), "", "memory"),
        (Finished(-15, 5, False), "building", "ended"),
        (Finished(143, 5, False), "building", "ended"),
        (Finished(1, 5, False), "building", "unknown"),
        (Finished(1, 5, False, starved=True), "ninja: build stopped: subcommand failed.", "memory"),
        (
            Finished(1, 5, False),
            "x.cu:1:1: fatal error: cusparse.h: No such file or directory",
            "header_missing",
        ),
    ],
)
def test_why_a_build_is_no_good(tmp_path: Path, finished: Finished, log: str, cause: str | None) -> None:
    (tmp_path / "log").write_text(log)
    found = why(finished, BUILD, str(tmp_path / "log"), 60)
    assert (found.id if found else None) == cause


def test_progress_is_there_while_it_runs_and_gone_after(tmp_path: Path) -> None:
    path = tmp_path / "run" / "tiny.json"
    progress = Progress(str(path), "tiny 1.0")
    progress("compiling", done=1, total=2)
    assert json.loads(path.read_text()) == {
        **progress.last,
        "what": "tiny 1.0",
        "phase": "compiling",
        "done": 1,
        "total": 2,
    }
    progress.done()
    progress.done()
    assert not path.exists()
