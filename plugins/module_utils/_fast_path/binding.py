# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: which implementation each fast function is bound to, in this very interpreter.

Runs inside the training interpreter (torch and transformers are imported here and nowhere else). Builds one mixer on
the meta device: no weights, no GPU memory, no network.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import explain, hub
from .design import FLAG, Design, read_design, unwrap
from .families import FUNCTIONS, Family, Function, census, find_family
from .packages import describe, distribution_of, file_of, import_function, missing_arguments, version_of

# falcon_mamba has its own name for one function.
_ALIASES = {"mamba_inner_fn": ("mamba_inner_fn", "falcon_mamba_inner_fn")}
# Symbols of a flag design that are bound through a helper of the module instead of a global.
_LAZY_CONV = "_lazy_load_causal_conv1d"
# Names that a release asks of a package which never had them, and the release that asks for the right one.
_NEVER_THERE = {"recurrent_gated_delta_rule": "5.17.0"}


class NotSupported(Exception):
    """The installed transformers cannot build this model; the message is one sentence for the reader."""


class MixerError(Exception):
    """A layer's constructor raised; the cause is the exception itself. What was loaded before stays known."""

    def __init__(self, module: Any, design: Design) -> None:
        super().__init__("a layer cannot be built")
        self.module, self.design = module, design


def text_config(config: Mapping[str, Any]) -> Any:
    """The installed transformers' own config object for the part that describes the layers."""
    found = find_family(config)
    if found is None:
        raise NotSupported(census(config)["sentence"])
    family, text = found
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    values = {k: v for k, v in text.items() if k not in ("model_type", "architectures", "auto_map")}
    # The text part first: a composite config would ignore the values.
    for name in (f"{family.model_type}_text", str(text.get("model_type")), family.model_type):
        if name in CONFIG_MAPPING:
            try:
                built = CONFIG_MAPPING[name](**values)
                return _with_dtype(built.get_text_config() if hasattr(built, "get_text_config") else built)
            except Exception as error:
                trouble = describe(error)
            raise NotSupported(f"transformers {transformers.__version__} refuses the model's config: {trouble}.")
    raise NotSupported(
        f"transformers {transformers.__version__} has no model family {family.model_type!r}; "
        "install a version that has it."
    )


def _with_dtype(config: Any) -> Any:
    """4.57 cannot build a layer when the config names no dtype."""
    import torch

    if getattr(config, "dtype", 0) is None:
        config.dtype = torch.get_default_dtype()
    return config


def build_mixer(family: Family, config: Any, module: Any) -> Any:
    """One mixer of the family on whatever device is current. Raises NotSupported when its class is not there."""
    mixer = getattr(module, family.mixer, None)
    if mixer is None:
        raise NotSupported(f"{module.__name__} has no class {family.mixer}: its design is not known here.")
    parameters = inspect.signature(mixer.__init__).parameters
    return mixer(config, layer_idx=fast_index(config)) if "layer_idx" in parameters else mixer(config)


def fast_index(config: Any) -> int:
    """Index of the first layer that holds a mixer."""
    words = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None) or ()
    for index, word in enumerate(words):
        if word not in ("full_attention", "attention", "sliding_attention", "mlp", "moe"):
            return index
    return 0


def observe(config: Mapping[str, Any], say: Callable[[str], None] = lambda _step: None) -> dict[str, Any]:
    """The binding facts: census, versions, GPUs, design, and one entry a function. Never raises for a broken host.

    ``say`` is told what begins: the imports are most of a warm proof, and a person wants to know which of them.
    """
    result: dict[str, Any] = {**census(config), "design": None, "error": None, "warnings": []}
    layers_sentence = result.pop("sentence")
    result["layers_sentence"] = layers_sentence
    state, result["functions"], wanted = result["state"], [], result["functions"]
    result.update(versions())
    if state == "not_applicable":
        return {**result, "sentence": layers_sentence}
    family_and_text = find_family(config)
    # Sentences are made inside the handlers, the packages imported outside: else each later exception would name the
    # first one as its context.
    failure = None
    try:
        say("importing torch")
        import torch

        say("looking for GPUs")
        result["gpu"] = gpus(torch)
    except Exception as error:
        failure = f"torch cannot be imported by {sys.executable}: {describe(error)}."
    if failure is None and family_and_text is None:
        return {**result, "sentence": layers_sentence}
    family = family_and_text[0] if family_and_text else None
    if failure is None and family:
        try:
            say(f"importing {family.modeling}")
            module, design, _mixer = load(family, config)
        except NotSupported as error:
            return {**result, "state": "unknown", "error": str(error), "sentence": str(error)}
        except MixerError as error:
            module, design = error.module, error.design
            # A kernel of the hub that is not in the cache is no fault of the host: this check does not go online.
            if not (design.kernels and hub.decides()):
                failure = f"A layer of {family.modeling} cannot be built: {describe(error.__cause__ or error)}."
        except Exception as error:
            # Up to transformers 5.14 a broken package takes the whole modeling file down.
            failure = f"{family.modeling} cannot be imported: {describe(error)}."
    if failure or family is None:
        result["functions"] = [_entry(name, False, import_function(name)) for name in wanted]
        return {**result, "state": "broken", "error": failure, "sentence": failure}
    result["design"] = design.name
    if design.name == "unknown":
        return {
            **result,
            "state": "unknown",
            "sentence": f"transformers {result['transformers']} chooses the functions of {family.model_type} in a way "
            "that is not known here (no flag, no decorator): whether the fast path is bound cannot be told.",
        }
    say("importing the functions")
    result["functions"] = bound_functions(family, module, design, bool(result["gpu"]["count"]))
    result["warnings"] += hub.warnings(result["kernels"], result["transformers"], design.name == "decorator")
    explain.judge(result, design)
    return result


def versions() -> dict[str, Any]:
    """Versions of everything that takes part, from metadata alone."""
    return {
        "python": sys.executable,
        "python_version": ".".join(map(str, sys.version_info[:3])),
        "torch": version_of("torch"),
        "transformers": version_of("transformers"),
        "triton": version_of("triton"),
        "kernels": version_of("kernels"),
        "flash_linear_attention": version_of("flash-linear-attention"),
        "packages": {p: distribution_of(p)[1] for p in ("causal_conv1d", "fla", "mamba_ssm", "flash_attn")},
    }


def gpus(torch: Any) -> dict[str, Any]:
    """GPUs that this process sees. ``count`` 0 with a reason when it sees none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    facts: dict[str, Any] = {"count": 0, "devices": [], "visible": visible, "cuda": torch.version.cuda}
    if not torch.cuda.is_available():
        facts["reason"] = (
            "torch is built without CUDA"
            if not torch.version.cuda
            else "CUDA_VISIBLE_DEVICES is empty"
            if visible is not None and visible.strip() in ("", "-1")
            else "torch sees no GPU"
        )
        return facts
    for index in range(torch.cuda.device_count()):
        try:
            properties = torch.cuda.get_device_properties(index)
        except Exception as error:
            facts["reason"] = describe(error)
            continue
        facts["devices"].append(
            {
                "index": index,
                "name": properties.name,
                "capability": f"{properties.major}.{properties.minor}",
                "memory_bytes": properties.total_memory,
            }
        )
    facts["count"] = len(facts["devices"])
    return facts


def load(family: Family, config: Mapping[str, Any]) -> tuple[Any, Design, Any]:
    """Import the modeling file, read its design, and build one mixer on the meta device."""
    import torch
    import transformers

    spec_name = family.modeling
    built = text_config(config)
    if importlib.util.find_spec(spec_name) is None:
        raise NotSupported(f"transformers {transformers.__version__} has no {spec_name}.")
    module = importlib.import_module(spec_name)
    design = read_design(inspect.getsource(module))
    mixer = None
    if design.name in ("module flag", "mixer flag", "forward flag"):
        # The first instance sets the globals of the "mixer flag" design; the others lose nothing.
        try:
            with torch.device("meta"):
                mixer = build_mixer(family, built, module)
        except NotSupported:
            raise
        except Exception as error:
            raise MixerError(module, design) from error
    return module, design, mixer


def bound_functions(family: Family, module: Any, design: Design, gpu: bool) -> list[dict[str, Any]]:
    """One entry a function that the installed modeling file calls, in the order of the family's table."""
    if design.name == "decorator":
        entries = []
        for item in design.decorated:
            function = FUNCTIONS.get(item.function) or Function(item.function, item.package, item.package, ())
            pair = unwrap(getattr(module, item.attribute, None))
            implementation, reference = pair if pair else (None, None)
            taken = None if pair is None else implementation is not reference
            entries.append(_entry(item.function, taken, _direct(function), implementation, function))
        return entries
    names = [
        name
        for name in FUNCTIONS
        if any(alias in design.names for alias in _ALIASES.get(name, (name,)))
        and (name in family.functions or family.model_type == "olmo_hybrid")
    ]
    lazy = getattr(module, _LAZY_CONV, None)
    if lazy is not None:
        update, forward = lazy() if gpu else (None, None)
    entries = []
    hubs = {kernel.replace("-", "_") for kernel in design.kernels} if hub.decides() else set()
    for name in names:
        if lazy is not None and name in ("causal_conv1d_fn", "causal_conv1d_update"):
            implementation = forward if name == "causal_conv1d_fn" else update
        else:
            found = [getattr(module, alias, None) for alias in _ALIASES.get(name, (name,))]
            implementation = next((f for f in found if f is not None), None)
        direct, asks_hub = _direct(FUNCTIONS[name]), any(FUNCTIONS[name].package in kernel for kernel in hubs)
        bound: bool | None = implementation is not None
        if not bound and (asks_hub or (not gpu and direct["state"] == "ok")):
            bound = None
        entries.append({**_entry(name, bound, direct, implementation), "asks_hub": asks_hub})
    flag = getattr(module, FLAG, None)
    if gpu and flag is False and entries and all(entry["bound"] for entry in entries):
        entries[0]["note"] = f"{module.__name__}.{FLAG} is False although every function is there"
    return entries


def _direct(function: Function) -> dict[str, Any]:
    if function.sources:
        return import_function(function.name, function)
    # A function that the table does not know: its package can still be imported.
    found = import_function(
        function.name, Function(function.name, function.package, function.package, (function.package,))
    )
    fixed = _NEVER_THERE.get(function.name)
    if fixed and str(found["error"]).startswith("half a package"):
        found["error"] = (
            f"transformers {version_of('transformers')} asks {function.package} for {function.name}, which no release "
            f"of it has, so decoding is slow whatever is installed, and training is not; install transformers {fixed}"
        )
    return found


def _entry(
    name: str, bound: bool | None, direct: dict[str, Any], implementation: Any = None, function: Function | None = None
) -> dict[str, Any]:
    function = function or FUNCTIONS[name]
    entry = {
        "name": name,
        "package": function.package,
        "distribution": direct["distribution"],
        "version": direct["version"],
        "bound": bound,
        "implementation": None,
        "file": direct["file"],
        "importable": direct["state"] == "ok",
        "state": direct["state"],
        "error": direct["error"],
        "note": None,
        "hub": False,
        "asks_hub": False,
    }
    if bound and implementation is not None:
        qualname = getattr(implementation, "__qualname__", type(implementation).__qualname__)
        entry["implementation"] = f"{getattr(implementation, '__module__', '?')}.{qualname}"
        entry["file"] = file_of(implementation) or direct["file"]
        entry["hub"] = hub.is_from_hub(entry["file"])
        entry["error"] = None
        dropped = missing_arguments(implementation, function)
        if dropped:
            entry["note"] = f"does not take {', '.join(dropped)}: what callers pass there is dropped silently"
    return entry
