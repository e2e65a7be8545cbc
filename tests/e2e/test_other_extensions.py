# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue's other extensions with code to compile, really built by the role for one GPU target: mamba-ssm whole,
and one source of flash-attn, all of whose sources would take hours. Both hard-code a C++ standard that torch refuses.

One container with torch and the toolkit; each extension is provisioned once for all of its tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import CATALOGUE
from tests import prepared
from tests.e2e import steps
from tests.e2e.steps import PYTHON, inside, testbed

VMID = "203"
REPAIR = "edit:setup.py:-std=c++17>-std=c++20"
MAMBA = {"name": "mamba-ssm", "version": "2.3.2.post1"}
FLASH = {"name": "flash-attn", "version": "2.8.3.post2"}
ONE_SOURCE = "flash_fwd_hdim128_bf16_sm80.cu"
ARCHIVE = f"/root/flash_attn-{FLASH['version']}.tar.gz"
# Its own archive, with one source of 73 left in the list: what else the module would need stays away as well, so its
# entry is an empty one. Flags, headers and what the catalogue repairs are as they come.
CUT = f"""\
set -e
mkdir /root/flash && cd /root/flash
FLASH_ATTENTION_FORCE_BUILD=TRUE FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE {PYTHON} -m pip download -q --no-deps \
--no-build-isolation --no-binary :all: flash-attn=={FLASH["version"]}
tar xzf *.tar.gz && rm *.tar.gz && cd flash_attn-*
cat > entry.cpp <<'END'
#include <torch/extension.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {{}}
END
{PYTHON} - <<'END'
import pathlib, re
setup = pathlib.Path("setup.py")
sources = re.compile(r'sources=\\[\\s*"csrc/flash_attn/flash_api.cpp",[^]]*"csrc/flash_attn/src/{ONE_SOURCE}",[^]]*\\]')
text, found = sources.subn('sources=["entry.cpp", "csrc/flash_attn/src/{ONE_SOURCE}"]', setup.read_text())
assert found == 1, found
setup.write_text(text)
END
tar czf {ARCHIVE} -C .. flash_attn-{FLASH["version"]}
"""
pytestmark = pytest.mark.timeout(45 * steps.MINUTE)


@pytest.fixture(scope="module")
def container() -> Iterator[None]:
    """Everything but extensions is in place."""
    snapshot = prepared.snapshot("toolkit")
    testbed("create", VMID)
    try:
        testbed("fresh", VMID, "--from", snapshot)
        yield
    finally:
        testbed("remove", VMID)


def built(wish: dict[str, Any], report: Callable[[str, object], None]) -> dict[str, Any]:
    """What the role recorded of an extension that it has just built; what it took stands in the report as well."""
    # No model family: the fast path of the default one needs causal-conv1d.
    steps.provision(
        VMID, {"cuda_extensions_wanted": [wish], "cuda_extensions_shared_wheelhouse": "", "fast_path_family": ""}
    )
    record: dict[str, Any] = json.loads(inside(VMID, f"cat /var/lib/proxmox_gpu/extensions/{wish['name']}.json"))
    assert record["origin"] == "built"
    report(f"{wish['name']} seconds", record["built"]["seconds"])
    for name, taken in record["built"]["sources"].items():
        report(f"{name} seconds, bytes", f"{taken['seconds']}, {taken['memory']}")
    return record


@pytest.fixture(scope="module")
def mamba(container: None, record_testsuite_property: Callable[[str, object], None]) -> dict[str, Any]:
    return built(MAMBA, record_testsuite_property)


@pytest.fixture(scope="module")
def flash(container: None, record_testsuite_property: Callable[[str, object], None]) -> dict[str, Any]:
    inside(VMID, CUT)
    return built({**FLASH, "source": ARCHIVE, "modules": [], "functions": []}, record_testsuite_property)


def test_mamba_ssm_is_built_with_the_standard_that_torch_wants(mamba: dict[str, Any]) -> None:
    assert REPAIR in mamba["key"]["flags"]
    assert len(mamba["built"]["sources"]) == 9  # each .cu; the .cpp is not nvcc's


def test_mamba_ssm_imports(mamba: dict[str, Any]) -> None:
    inside(VMID, f"{PYTHON} -c 'import torch, selective_scan_cuda; from mamba_ssm import selective_scan_fn'")


def test_mamba_ssm_holds_the_wanted_target_alone(mamba: dict[str, Any], tmp_path: Path) -> None:
    assert steps.compiled_for(VMID, "selective_scan_cuda", tmp_path) == {"sm_90"}


def test_a_source_of_flash_attn_is_built_with_the_standard_that_torch_wants(flash: dict[str, Any]) -> None:
    assert REPAIR in flash["key"]["flags"]
    assert list(flash["built"]["sources"]) == [ONE_SOURCE]


def test_its_kernels_are_in_the_module_for_the_wanted_target_alone(flash: dict[str, Any], tmp_path: Path) -> None:
    assert steps.compiled_for(VMID, "flash_attn_2_cuda", tmp_path) == {"sm_90"}
    assert b"flash_fwd_kernel" in (tmp_path / "module.so").read_bytes()


def test_its_compiler_stays_below_the_memory_that_the_catalogue_counts(flash: dict[str, Any]) -> None:
    assert flash["built"]["sources"][ONE_SOURCE]["memory"] < CATALOGUE["flash-attn"].memory_per_process
