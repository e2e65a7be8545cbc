# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links 7 to 10, facts, and the whole observation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import cache
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import (
    binding,
    compiler,
    extensions,
    observation,
    proof,
)

ELF = Path(__file__).parents[1] / "fixtures" / "elf" / "sm_90.so"
SITE = "/opt/training/lib/python3.11/site-packages"
TORCH = {
    "path": "/opt/training",
    "python": "/opt/training/bin/python",
    "python_version": "3.11.2",
    "python_tag": "cp311",
    "version": "2.14.1+cu130",
    "cuda": "13.0",
    "cxx11_abi": True,
    "distributions": {"causal-conv1d": "1.7.0", "transformers": "5.17.0"},
}
TOOLKIT = {"nvccs": [{"version": "12.8.93"}, {"version": "13.0.88"}, {"version": None}]}


@pytest.fixture
def environment(machine: Any) -> Any:
    machine.program("/opt/training/bin/python")
    machine.file(
        f"{SITE}/causal_conv1d-1.7.0.dist-info/RECORD", "causal_conv1d_cuda.cpython-311-x86_64-linux-gnu.so,,1\n"
    )
    return machine


def test_compiler_facts(machine: Any) -> None:
    machine.program("/usr/bin/gcc", "12.2.0")
    machine.program("/usr/bin/ninja", "1.11.1")
    facts = compiler.observe(machine.host, {}, {"torch": TORCH, "toolkit": TOOLKIT})
    assert (facts["gcc"], facts["gxx"], facts["ninja"], facts["record"]) == ("12.2.0", None, "1.11.1", None)
    assert facts["python_headers"] == {"path": "/opt/training/include/python3.11/Python.h", "exists": False}
    key = facts["key"]
    assert (key["torch"], key["cuda"], key["nvcc"], key["gcc"]) == ("2.14.1+cu130", "13.0", "13.0.88", "12.2.0")


def test_ninja_of_the_environment_wins(machine: Any) -> None:
    machine.program("/usr/bin/ninja", "1.11.1")
    machine.program("/opt/training/bin/ninja", "1.13.0")
    assert compiler.ninja(machine.host, TORCH) == "1.13.0"


def test_extension_with_its_module_and_its_record(environment: Any) -> None:
    module = environment.file(f"{SITE}/causal_conv1d_cuda.cpython-311-x86_64-linux-gnu.so")
    shutil.copyfile(ELF, module)
    key = {"torch": "2.13.0+cu130", "gpu_targets": ["sm_90"], "flags": []}
    environment.file(f"{SITE}/causal_conv1d-1.7.0.dist-info/proxmox_gpu.json", json.dumps({"schema": 1, "key": key}))
    facts = extensions.observe(environment.host, {"extensions": ["causal_conv1d"]}, {"torch": TORCH})
    found = facts["causal-conv1d"]
    assert found["version"] == "1.7.0"
    assert found["modules"][0]["name"] == "causal_conv1d_cuda"
    assert found["modules"][0]["gpu_targets"] == ["sm_90"]
    assert found["record"]["key"] == key
    assert (found["key"]["torch"], found["key"]["gpu_targets"]) == ("2.14.1+cu130", ["sm_90"])


def test_extension_whose_module_is_gone(environment: Any) -> None:
    facts = extensions.observe(environment.host, {"extensions": ["causal-conv1d"]}, {"torch": TORCH})
    assert [module["exists"] for module in facts["causal-conv1d"]["modules"]] == [False]


def test_extension_that_is_no_elf_file(environment: Any) -> None:
    environment.file(f"{SITE}/causal_conv1d_cuda.cpython-311-x86_64-linux-gnu.so", b"no")
    facts = extensions.observe(environment.host, {"extensions": ["causal-conv1d"]}, {"torch": TORCH})
    assert "not an ELF file" in facts["causal-conv1d"]["modules"][0]["problem"]


def test_extension_that_is_not_installed(environment: Any) -> None:
    assert extensions.observe(environment.host, {"extensions": ["mamba-ssm"]}, {"torch": TORCH}) == {}
    assert extensions.observe(environment.host, {"extensions": ["x"]}, {"torch": {"python": None}}) == {}


def never(*_arguments: Any) -> Any:
    pytest.fail("the training interpreter was started")


def test_binding_is_asked_live_without_a_record(environment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer: dict[str, Any] = {"state": "ok", "transformers": "5.17.0", "functions": [], "error": None}
    monkeypatch.setattr(binding, "ask", lambda _python, _wishes: answer)
    facts = binding.observe(environment.host, {"family": "qwen3_5"}, {"torch": TORCH})
    assert (facts["source"], facts["state"], facts["model"]) == ("live", "ok", "qwen3_5")
    assert "error" not in facts


def test_record_of_a_binding_is_believed_while_its_key_is_today_s(
    environment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wishes = {"family": "qwen3_5"}
    monkeypatch.setattr(binding, "ask", lambda _python, _wishes: {"state": "ok", "transformers": "5.17.0"})
    today = binding.observe(environment.host, wishes, {"torch": TORCH})["key"]
    recorded = cache.record(today, {"state": "broken", "transformers": "5.17.0", "functions": []}, 0)
    environment.file(binding.RECORD, json.dumps(recorded))
    monkeypatch.setattr(binding, "ask", never)
    facts = binding.observe(environment.host, wishes, {"torch": TORCH})
    assert (facts["source"], facts["state"]) == ("record", "broken")


def test_record_of_a_binding_is_not_believed_after_a_package_changed(
    environment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "ask", lambda _python, _wishes: {"state": "ok", "transformers": "5.17.0"})
    before = binding.observe(environment.host, {"family": "qwen3_5"}, {"torch": TORCH})["key"]
    environment.file(f"{SITE}/fla_core-0.6.0.dist-info/RECORD", "x")
    assert binding.observe(environment.host, {"family": "qwen3_5"}, {"torch": TORCH})["key"] != before


@pytest.mark.parametrize(
    ("wishes", "torch", "fact"),
    [
        ({}, TORCH, "not_applicable"),
        ({"family": "qwen3_5"}, {**TORCH, "python": None}, "problem"),
        ({"family": "no-such-family"}, TORCH, "model_problem"),
        ({"model": "/no/such/model"}, TORCH, "model_problem"),
    ],
)
def test_binding_that_cannot_be_asked(
    environment: Any, monkeypatch: pytest.MonkeyPatch, wishes: dict[str, Any], torch: dict[str, Any], fact: str
) -> None:
    monkeypatch.setattr(binding, "ask", never)
    assert binding.observe(environment.host, wishes, {"torch": torch})[fact]


def test_without_transformers_nobody_is_asked(environment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "ask", never)
    facts = binding.observe(environment.host, {"family": "qwen3_5"}, {"torch": {**TORCH, "distributions": {}}})
    assert facts["transformers"] is None


def test_proof_reads_its_record_and_the_lock(machine: Any) -> None:
    machine.file(proof.RECORD, '{"ok": true}')
    machine.file(proof.LOCK, '{"versions": {}}')
    wishes = {"family": "qwen3_5", "proof_lengths": [4096, 16384]}
    facts = proof.observe(machine.host, wishes, {"torch": TORCH, "gpu": {"module_version": "580.95.05", "gpus": []}})
    assert (facts["record"], facts["lock"]) == ({"ok": True}, {"versions": {}})
    key = facts["key"]
    assert key.pop("model").startswith("qwen3_5 (") and len(key.pop("conditions")) == 12
    assert key == {
        "lengths": "4096, 16384",
        "driver": "580.95.05",
        "python": "3.11.2",
        "torch": "2.14.1+cu130",
        "transformers": "5.17.0",
        "causal-conv1d": "1.7.0",
    }


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"family": "mamba"}, "model"),
        ({"model": {"model_type": "mamba2", "num_hidden_layers": 2}}, "model"),
        ({"proof_lengths": [1024]}, "lengths"),
        ({"user": "trainer"}, "conditions"),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "1"}}, "conditions"),
        ({"environment_files": ["/etc/training.env"]}, "conditions"),
        ({"wanted_ratio": 3.0}, "wanted ratio"),
    ],
)
def test_a_proof_is_one_of_its_model_lengths_and_conditions(machine: Any, changed: dict[str, Any], part: str) -> None:
    machine.file("/etc/training.env", "SECRET=1\n")
    known = {"torch": TORCH, "gpu": {"module_version": "580.95.05", "gpus": []}}
    wishes = {"family": "qwen3_5", "proof_lengths": [4096, 16384], "user": "root", "environment": {}}
    before = proof.observe(machine.host, wishes, known)["key"]
    after = proof.observe(machine.host, {**wishes, **changed}, known)["key"]
    assert [name for name in {**before, **after} if before.get(name) != after.get(name)] == [part]
    assert "SECRET" not in str(after)


def test_a_config_that_changed_under_the_same_name_is_another_model(machine: Any, tmp_path: Path) -> None:
    known = {"torch": TORCH, "gpu": {"module_version": "580.95.05", "gpus": []}}
    keys = []
    for layers in (8, 16):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba", "num_hidden_layers": layers}))
        keys.append(proof.observe(machine.host, {"model": str(tmp_path)}, known)["key"]["model"])
    assert keys[0] != keys[1] and all(key.startswith(f"{tmp_path} (") for key in keys)


def test_observation_of_an_empty_machine_has_all_sections(machine: Any) -> None:
    facts, seconds = observation.observe(machine.host, list(observation.SECTIONS), {})
    assert list(facts) == list(observation.SECTIONS)
    assert not [link for link, section in facts.items() if "error" in section]
    assert set(seconds) == set(facts)
    json.dumps(facts)


def test_a_section_that_fails_is_said_and_the_others_still_count(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: Any) -> dict[str, Any]:
        raise UnicodeError("odd")

    monkeypatch.setitem(observation.SECTIONS, "repository", fails)
    facts, _seconds = observation.observe(machine.host, ["base", "repository", "proof"], {})
    assert facts["repository"] == {
        "error": "The link repository could not be observed in the container: UnicodeError: odd."
    }
    assert "error" not in facts["base"]


def test_nothing_is_written(machine: Any) -> None:
    machine.file("/etc/os-release", "ID=debian\n")
    before = sorted(str(path) for path in machine.root.rglob("*"))
    observation.observe(machine.host, list(observation.SECTIONS), {"extensions": ["causal-conv1d"]})
    assert sorted(str(path) for path in machine.root.rglob("*")) == before
