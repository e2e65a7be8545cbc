# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import describe
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_check import modules_in, wrong_modules
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_state import JobError, State, Wish
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host

ELF = Path(__file__).parent / "fixtures" / "elf"
SITE = "opt/training/lib/python3.11/site-packages"
DIST = f"{SITE}/tiny_gpu_ops-1.0.dist-info"
SHA = "ab" * 32
DESCRIPTION = describe("tiny-gpu-ops", {"compiled": ["tiny_cuda"], "modules": ["tiny_gpu_ops"]})
WISH = Wish(DESCRIPTION, "1.0", ("sm_90",), "/opt/training")


def write(root: Path, path: str, text: str, mode: int = 0o644) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    (root / path).chmod(mode)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A container with a training environment and a CUDA build of torch, as files."""
    write(tmp_path, "opt/training/bin/python", "#!/bin/sh\n", 0o755)
    write(tmp_path, "opt/training/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n")
    write(tmp_path, f"{SITE}/torch/version.py", "__version__ = '2.14.1+cu130'\ncuda: Optional[str] = '13.0'\n")
    write(tmp_path, f"{SITE}/torch/share/cmake/Torch/TorchConfig.cmake", "-D_GLIBCXX_USE_CXX11_ABI=1\n")
    write(tmp_path, f"{SITE}/torch-2.14.1.dist-info/METADATA", "Name: torch\nVersion: 2.14.1\n")
    return tmp_path


def state(root: Path, **changes: Any) -> State:
    return State(dataclasses.replace(WISH, **changes), Host(str(root)))


def install(root: Path, made: State, **changes: Any) -> None:
    """The extension as the role installs it, with a record in which some fields of the key are others."""
    key = {**made.key(SHA).as_dict(), **changes}
    write(root, f"{DIST}/METADATA", "Name: tiny-gpu-ops\nVersion: 1.0\n")
    write(root, f"{DIST}/RECORD", "tiny_cuda.cpython-311-x86_64-linux-gnu.so,,\n")
    write(root, f"{DIST}/proxmox_gpu.json", json.dumps({"schema": 1, "key": key, "built": {}}))
    shutil.copy(ELF / "sm_90.so", root / SITE / "tiny_cuda.cpython-311-x86_64-linux-gnu.so")


def test_nothing_is_to_be_done_for_todays_key(root: Path) -> None:
    install(root, state(root))
    assert state(root).needed() is None
    assert state(root).shown() == state(root).shown(wanted=True)


def test_it_is_not_installed(root: Path) -> None:
    assert state(root).needed() == "it is not installed"
    assert state(root).shown() == "tiny-gpu-ops is not installed"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"torch": "2.13.0+cu130"}, "torch was 2.13.0+cu130, is 2.14.1+cu130"),
        ({"gpu_targets": ["sm_80"]}, "gpu_targets was sm_80, is sm_90"),
        ({"cxx11_abi": False}, "cxx11_abi was False, is True"),
        ({"flags": ["edit"]}, "flags was edit, is none"),
    ],
)
def test_what_was_built_for_another_set_is_named(root: Path, changes: dict[str, Any], words: str) -> None:
    install(root, state(root), **changes)
    assert words in str(state(root).needed())


def test_another_source_of_the_same_version(root: Path) -> None:
    install(root, state(root))
    assert "source_sha256" in str(state(root, sha256="cd" * 32).needed())


def test_one_that_somebody_else_installed(root: Path) -> None:
    install(root, state(root))
    (root / DIST / "proxmox_gpu.json").unlink()
    assert state(root).needed() == "the installed one carries no key of this collection"


def test_another_version(root: Path) -> None:
    install(root, state(root))
    assert state(root, version="2.0").needed() == "version 1.0 is installed"


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_compiled_module_that_is_gone_or_damaged(root: Path, harm: str) -> None:
    install(root, state(root))
    module = root / SITE / "tiny_cuda.cpython-311-x86_64-linux-gnu.so"
    module.unlink()
    if harm == "damaged":
        module.write_bytes((ELF / "sm_90.so").read_bytes()[:5000])
    assert state(root).needed() == "its compiled module tiny_cuda is missing or damaged"


def test_a_cpu_build_of_torch(root: Path) -> None:
    write(root, f"{SITE}/torch/version.py", "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n")
    with pytest.raises(JobError, match="2.13.0.cpu in /opt/training is built for the CPU only"):
        state(root)


def test_no_torch(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="there is no torch in /opt/training; run the role torch_environment"):
        state(tmp_path)


# ---- the modules of a built wheel


def test_the_targets_of_a_built_module(tmp_path: Path) -> None:
    shutil.copy(ELF / "sm_90.so", tmp_path / "tiny_cuda.abi3.so")
    modules = modules_in(DESCRIPTION, str(tmp_path))
    assert [module["gpu_targets"] for module in modules] == [["sm_90"]]
    assert wrong_modules("tiny", modules, ["sm_90"]) is None


def test_a_wanted_target_that_is_not_inside(tmp_path: Path) -> None:
    shutil.copy(ELF / "sm_90.so", tmp_path / "tiny_cuda.so")
    cause = wrong_modules("tiny", modules_in(DESCRIPTION, str(tmp_path)), ["sm_90", "sm_120"])
    assert cause is not None
    assert (cause.id, cause.sentence) == ("target_missing", "tiny: the built module lacks sm_120 (it holds sm_90)")


def test_a_module_that_was_not_built(tmp_path: Path) -> None:
    """[45] An extension whose compiled part was switched off."""
    cause = wrong_modules("tiny", modules_in(DESCRIPTION, str(tmp_path)), ["sm_90"])
    assert cause is not None
    assert "holds no compiled module tiny_cuda" in cause.sentence


# ---- what is known of the sources without fetching them


def test_the_checksum_of_the_sources(root: Path) -> None:
    bare = state(root, wheelhouse=str(root / "house"))
    assert bare.known_sha256() is None
    assert bare.asked_key() == (bare.key("0" * 64), False)
    assert state(root, sha256="cd" * 32).asked_key()[0].source_sha256 == "cd" * 32
    (root / "x.tar.gz").write_bytes(b"x")
    assert state(root, source=str(root / "x.tar.gz")).known_sha256() == hashlib.sha256(b"x").hexdigest()
    write(root, "house/sources/tiny-gpu-ops-1.0.json", json.dumps({"sha256": "ef" * 32}))
    assert bare.known_sha256() == "ef" * 32
    install(root, bare)
    assert bare.known_sha256() == SHA


def test_a_prebuilt_wheel_is_another_key(root: Path) -> None:
    built, bought = state(root), state(root, prebuilt="https://example.org/x.whl")
    assert built.key(SHA) != bought.key(SHA)


def test_where_building_is_all_that_is_asked_nothing_need_be_installed(root: Path) -> None:
    made = state(root, install=False, wheelhouse=str(root / "house"))
    install(root, made)
    assert made.needed() == "its wheel is not in the wheelhouse"
