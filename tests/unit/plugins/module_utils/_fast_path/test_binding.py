# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each design of transformers, played with FAKE packages in a child process: what is bound, and the sentence about it.

The integration tests ask the same of the real wheels; these play what no real wheel does, and take a moment each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import child
from tests import fast_path_fakes as fakes

CONV = "def causal_conv1d_fn(x, weight, bias=None, seq_idx=None, activation=None): ...\n"
CONV += "def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None): ...\n"
RULE = "def {}(q, k, v, g, beta, initial_state=None, output_final_state=False, "
RULE += "use_qk_l2norm_in_kernel=False, cu_seqlens=None): ...\n"
DELTA = RULE.format("chunk_gated_delta_rule") + RULE.format("fused_recurrent_gated_delta_rule")
NAMES = ["causal_conv1d_fn", "causal_conv1d_update", "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"]
H200 = [("NVIDIA H200", 9, 0)]

DECORATED = """
import functools, importlib

def use_kernel_func_from_hub_with_fallback(name, package):
    def decorate(function):
        implementation = function
        try:
            module = importlib.import_module(SOURCES[package])
            implementation = getattr(module, name)
        except Exception:
            pass
        @functools.wraps(function)
        def inner(*arguments, **named):
            return implementation(*arguments, **named)
        return inner
    return decorate

SOURCES = {"causal_conv1d": "causal_conv1d", "fla": "fla.ops.gated_delta_rule"}

@use_kernel_func_from_hub_with_fallback("causal_conv1d_fn", "causal_conv1d")
def causal_conv1d(x): ...
@use_kernel_func_from_hub_with_fallback("causal_conv1d_update", "causal_conv1d")
def causal_conv1d_step(x): ...
@use_kernel_func_from_hub_with_fallback("chunk_gated_delta_rule", "fla")
def chunk(x): ...
@use_kernel_func_from_hub_with_fallback("fused_recurrent_gated_delta_rule", "fla")
def recurrent(x): ...
"""
MODULE_FLAG = """
import torch
if torch.cuda.is_available():
    from causal_conv1d import causal_conv1d_fn, causal_conv1d_update
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
else:
    causal_conv1d_fn = causal_conv1d_update = chunk_gated_delta_rule = fused_recurrent_gated_delta_rule = None
is_fast_path_available = all((causal_conv1d_fn, causal_conv1d_update, chunk_gated_delta_rule))
class Qwen3_5GatedDeltaNet:
    def __init__(self, config, layer_idx): pass
"""
MIXER_FLAG = """
import torch
causal_conv1d_fn = causal_conv1d_update = chunk_gated_delta_rule = fused_recurrent_gated_delta_rule = None
class Qwen3_5GatedDeltaNet:
    def __init__(self, config, layer_idx):
        global is_fast_path_available, causal_conv1d_fn, causal_conv1d_update
        global chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
        if torch.cuda.is_available() and not lazy_load_kernel("causal-conv1d"):
            from causal_conv1d import causal_conv1d_fn, causal_conv1d_update
        if torch.cuda.is_available():
            from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
        is_fast_path_available = True
def lazy_load_kernel(name):
    try:
        import kernels
    except ImportError:
        return False
    return True
"""
FORWARD_FLAG = (
    MODULE_FLAG.replace("is_fast_path_available =", "unused =")
    + """
    def forward(self, x):
        is_fast_path_available = all((causal_conv1d_fn, chunk_gated_delta_rule))
"""
)
FUTURE = "FAST = resolve('gated_delta_rule') if False else None\nclass Qwen3_5GatedDeltaNet: pass\n"
DESIGNS = {"decorator": DECORATED, "module flag": MODULE_FLAG, "mixer flag": MIXER_FLAG, "forward flag": FORWARD_FLAG}
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def run(modeling: str, gpus: Any = H200, version: str = "5.17.0", **request: Any) -> dict[str, Any]:
        fakes.torch(tmp_path, gpus, request.pop("cuda", "13.0"))
        fakes.transformers(tmp_path, modeling, version)
        environment = {"PYTHONPATH": str(tmp_path), **request.pop("environment", {})}
        found = child.run(sys.executable, {"action": "binding", **request}, 50, environment=environment)
        assert "output" not in found, found
        return found

    return run


def functions(found: dict[str, Any], field: str) -> list[Any]:
    return [function[field] for function in sorted(found["functions"], key=lambda f: NAMES.index(f["name"]))]


@pytest.mark.parametrize("design", DESIGNS)
def test_all_bound(ask: Ask, tmp_path: Path, design: str) -> None:
    fakes.fla(fakes.conv(tmp_path, CONV), DELTA)
    found = ask(DESIGNS[design])
    assert (found["state"], found["design"], found["error"]) == ("ok", design, None)
    assert functions(found, "bound") == [True] * 4
    assert functions(found, "implementation")[2] == "fla.ops.gated_delta_rule.chunk_gated_delta_rule"
    assert found["sentence"] == "All 4 functions that the 6 of 8 layers with a gated delta net call are bound."
    assert found["gpu"]["devices"][0]["capability"] == "9.0"


@pytest.mark.parametrize("gpus", [H200, []])
def test_a_future_design_is_unknown_whatever_is_installed(ask: Ask, tmp_path: Path, gpus: Any) -> None:
    fakes.fla(fakes.conv(tmp_path, CONV), DELTA)
    found = ask(FUTURE, gpus, "6.2.0")
    assert (found["state"], found["design"], found["functions"]) == ("unknown", "unknown", [])
    assert "transformers 6.2.0 chooses the functions of qwen3_5 in a way that is not known here" in found["sentence"]


def test_nothing_installed_is_absent(ask: Ask) -> None:
    found = ask(DECORATED)
    assert (found["state"], functions(found, "bound")) == ("absent", [False] * 4)
    assert functions(found, "state") == ["absent"] * 4
    assert "4 of 4 functions run the slow PyTorch reference" in found["sentence"]


def test_half_a_package_is_broken_and_the_other_functions_are_not(ask: Ask, tmp_path: Path) -> None:
    fakes.fla(fakes.conv(tmp_path, CONV.splitlines()[0] + "\n"), DELTA)
    found = ask(DECORATED)
    assert (found["state"], functions(found, "bound")) == ("broken", [True, False, True, True])
    assert "half a package: causal_conv1d has no causal_conv1d_update" in found["sentence"]


def test_a_broken_library_is_shown_by_its_true_error_in_the_decorator_design(ask: Ask, tmp_path: Path) -> None:
    fakes.fla(fakes.broken_library(tmp_path), DELTA)
    found = ask(DECORATED)
    assert (found["state"], functions(found, "bound")) == ("broken", [False, False, True, True])
    assert "undefined symbol" in found["sentence"] and "not installed" not in found["sentence"]


def test_a_broken_library_takes_a_flag_designs_module_down(ask: Ask, tmp_path: Path) -> None:
    fakes.fla(fakes.broken_library(tmp_path), DELTA)
    found = ask(MODULE_FLAG)
    assert (found["state"], functions(found, "bound")) == ("broken", [False] * 4)
    assert "modeling_qwen3_5 cannot be imported: ImportError: " in found["error"]
    assert "undefined symbol" in found["error"]
    assert functions(found, "importable") == [False, False, True, True]


@pytest.mark.parametrize("design", ["module flag", "mixer flag"])
def test_without_a_gpu_a_flag_design_is_undecided(ask: Ask, tmp_path: Path, design: str) -> None:
    fakes.fla(fakes.conv(tmp_path, CONV), DELTA)
    found = ask(DESIGNS[design], [])
    assert (found["state"], functions(found, "bound")) == ("unknown", [None] * 4)
    assert "binds them only where it sees a GPU (torch sees no GPU)" in found["sentence"]


def test_without_a_gpu_what_cannot_be_imported_is_decided_all_the_same(ask: Ask, tmp_path: Path) -> None:
    fakes.fla(tmp_path, DELTA)
    found = ask(MODULE_FLAG, [])
    assert (found["state"], functions(found, "bound")) == ("absent", [False, False, None, None])


def test_hub_kernels_instead_of_the_local_package(ask: Ask, tmp_path: Path) -> None:
    fakes.fla(fakes.conv(tmp_path, CONV), DELTA)
    fakes.write(tmp_path, {"kernels/__init__.py": "", **fakes.metadata("kernels", "0.12.0")})
    found = ask(MIXER_FLAG, version="5.5.4")
    assert (found["state"], functions(found, "bound")) == ("unknown", [None, None, True, True])
    assert "takes them from the hub while the package kernels (0.12.0) is installed" in found["sentence"]
    assert found["sentence"].endswith("; uninstall kernels.")


def test_bound_to_a_kernel_of_the_hub(ask: Ask, tmp_path: Path) -> None:
    """The local package is not even installed: what the hub's cache holds is bound, and is said to come from there."""
    fakes.fla(tmp_path, DELTA)
    place = "kernels/models--kernels-community--causal-conv1d"
    files = {"kernels/__init__.py": "", f"{place}/causal_hub.py": CONV, **fakes.metadata("kernels", "0.12.0")}
    fakes.write(tmp_path, files)
    cached = f"        import sys\n        sys.path.append({str(tmp_path / place)!r})\n"
    cached += "        from causal_hub import causal_conv1d_fn, causal_conv1d_update\n"
    found = ask(MIXER_FLAG.replace("        is_fast", cached + "        is_fast"), version="5.5.4")
    assert (found["state"], functions(found, "bound")) == ("ok", [True] * 4), found["sentence"]
    assert functions(found, "hub") == [True, True, False, False]


def test_arguments_that_would_be_dropped_are_broken(ask: Ask, tmp_path: Path) -> None:
    fakes.fla(fakes.conv(tmp_path, CONV.replace("seq_idx=None, ", "")), DELTA)
    found = ask(DECORATED)
    assert found["state"] == "broken"
    assert found["sentence"] == (
        "causal_conv1d_fn is bound, but does not take seq_idx: what callers pass there is dropped silently."
    )


@pytest.mark.parametrize(
    ("gpus", "more", "reason"),
    [
        ([], {"cuda": None}, "torch is built without CUDA"),
        ([], {"environment": {"CUDA_VISIBLE_DEVICES": ""}}, "CUDA_VISIBLE_DEVICES is empty"),
        ([], {}, "torch sees no GPU"),
    ],
)
def test_why_no_gpu_is_seen(ask: Ask, gpus: Any, more: dict[str, Any], reason: str) -> None:
    assert ask(DECORATED, gpus, **more)["gpu"]["reason"] == reason


def test_torch_that_cannot_be_imported_is_said_with_its_error(ask: Ask, tmp_path: Path) -> None:
    fakes.write(tmp_path, {"sitecustomize.py": "import sys\nsys.modules['torch'] = None\n"})
    found = ask(DECORATED)
    assert found["state"] == "broken"
    assert found["error"].startswith(f"torch cannot be imported by {sys.executable}: ")


def test_a_mixer_class_that_is_gone_is_unknown(ask: Ask, tmp_path: Path) -> None:
    fakes.fla(fakes.conv(tmp_path, CONV), DELTA)
    found = ask(MODULE_FLAG.replace("Qwen3_5GatedDeltaNet", "Qwen3_5NewNet"))
    assert found["state"] == "unknown"
    assert "has no class Qwen3_5GatedDeltaNet: its design is not known here" in found["sentence"]


def test_a_family_that_this_transformers_lacks_is_unknown(ask: Ask) -> None:
    found = ask(DECORATED, family="kimi_linear")
    assert found["state"] == "unknown"
    assert "has no model family 'kimi_linear'; install a version that has it" in found["sentence"]


def test_a_model_without_fast_layers_is_not_applicable(ask: Ask) -> None:
    found = ask(DECORATED, model={"model_type": "qwen3_5", "layer_types": ["full_attention"]})
    assert (found["state"], found["functions"]) == ("not_applicable", [])


def test_a_name_that_no_release_has_is_said_to_be_transformers_fault(ask: Ask, tmp_path: Path) -> None:
    fakes.fla(fakes.conv(tmp_path, CONV), DELTA)
    text = DECORATED.replace('"fused_recurrent_gated_delta_rule"', '"recurrent_gated_delta_rule"')
    found = ask(text, version="5.15.1")
    assert found["state"] == "broken"
    assert (
        "(recurrent_gated_delta_rule): transformers 5.15.1 asks fla for recurrent_gated_delta_rule, which no release "
        "of it has, so decoding is slow whatever is installed, and training is not; install transformers 5.17.0."
    ) in found["sentence"]


def test_a_config_that_this_transformers_refuses_is_unknown(ask: Ask, tmp_path: Path) -> None:
    fakes.write(tmp_path, {"sitecustomize.py": REFUSING})
    found = ask(DECORATED)
    assert found["state"] == "unknown"
    assert found["sentence"] == "transformers 5.17.0 refuses the model's config: ValueError: 8 is not 54."


def test_a_layer_whose_constructor_raises_is_broken_and_not_called_an_import(ask: Ask, tmp_path: Path) -> None:
    fakes.fla(fakes.conv(tmp_path, CONV), DELTA)
    raising = "    def __init__(self, config, layer_idx): raise OSError('libcuda.so.1')\n"
    found = ask(MODULE_FLAG.replace("    def __init__(self, config, layer_idx): pass\n", raising))
    assert found["state"] == "broken"
    assert found["sentence"] == (
        "A layer of transformers.models.qwen3_5.modeling_qwen3_5 cannot be built: OSError: libcuda.so.1."
    )


REFUSING = """
import importlib.abc, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "transformers.models.auto.configuration_auto":
            import types
            module = types.ModuleType(name)
            def config(**values):
                raise ValueError("8 is not 54")
            module.CONFIG_MAPPING = {"qwen3_5_text": config}
            sys.modules[name] = module
            return importlib.machinery.ModuleSpec(name, Loader(module))
class Loader(importlib.abc.Loader):
    def __init__(self, module): self.module = module
    def create_module(self, spec): return self.module
    def exec_module(self, module): pass
sys.meta_path.insert(0, Refuse())
"""
