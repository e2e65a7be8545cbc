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
from collections.abc import Mapping
from typing import Any

from .design import FLAG, Design, read_design, unwrap
from .families import FUNCTIONS, Family, Function, census, find_family
from .packages import describe, distribution_of, file_of, import_function, missing_arguments, version_of

# falcon_mamba has its own name for one function.
_ALIASES = {"mamba_inner_fn": ("mamba_inner_fn", "falcon_mamba_inner_fn")}
# Symbols of a flag design that are bound through a helper of the module instead of a global.
_LAZY_CONV = "_lazy_load_causal_conv1d"
# Names that a release asks of a package which never had them, and the release that asks for the right one.
_NEVER_THERE = {"recurrent_gated_delta_rule": "5.17.0"}
# Folders in the path of a function that the package kernels has loaded.
_HUB = ("/models--", "/kernels--", "/kernels-community/")


class NotSupported(Exception):
    """The installed transformers cannot build this model; the message is one sentence for the reader."""


class MixerError(Exception):
    """A layer's constructor raised; the cause is the exception itself."""


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


def observe(config: Mapping[str, Any]) -> dict[str, Any]:
    """The binding facts: census, versions, GPUs, design, and one entry a function. Never raises for a broken host."""
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
        import torch

        result["gpu"] = gpus(torch)
    except Exception as error:
        failure = f"torch cannot be imported by {sys.executable}: {describe(error)}."
    if failure is None and family_and_text is None:
        return {**result, "sentence": layers_sentence}
    family = family_and_text[0] if family_and_text else None
    if failure is None and family:
        try:
            module, design, mixer = load(family, config)
        except NotSupported as error:
            return {**result, "state": "unknown", "error": str(error), "sentence": str(error)}
        except MixerError as error:
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
    result["functions"] = bound_functions(family, module, design, bool(result["gpu"]["count"]))
    result["warnings"] += kernels_warning(result["kernels"], result["transformers"])
    _judge(result, design)
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
            raise MixerError from error
    return module, design, mixer


def bound_functions(family: Family, module: Any, design: Design, gpu: bool) -> list[dict[str, Any]]:
    """One entry a function that the installed modeling file calls, in the order of the family's table."""
    if design.name == "decorator":
        entries = []
        for item in design.decorated:
            function = FUNCTIONS.get(item.function) or Function(item.function, item.package, item.package, ())
            pair = unwrap(getattr(module, item.attribute, None))
            implementation, reference = pair if pair else (None, None)
            bound = None if pair is None else implementation is not reference
            entries.append(_entry(item.function, bound, _direct(function), implementation, function))
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
    for name in names:
        if lazy is not None and name in ("causal_conv1d_fn", "causal_conv1d_update"):
            implementation = forward if name == "causal_conv1d_fn" else update
        else:
            found = [getattr(module, alias, None) for alias in _ALIASES.get(name, (name,))]
            implementation = next((f for f in found if f is not None), None)
        bound = implementation is not None if gpu or implementation is not None else None
        direct = _direct(FUNCTIONS[name])
        if bound is None and direct["state"] != "ok":
            bound = False
        entries.append(_entry(name, bound, direct, implementation, FUNCTIONS[name]))
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
    }
    if bound and implementation is not None:
        qualname = getattr(implementation, "__qualname__", type(implementation).__qualname__)
        entry["implementation"] = f"{getattr(implementation, '__module__', '?')}.{qualname}"
        entry["file"] = file_of(implementation) or direct["file"]
        entry["hub"] = any(part in str(entry["file"]) for part in _HUB)
        entry["error"] = None
        dropped = missing_arguments(implementation, function)
        if dropped:
            entry["note"] = f"does not take {', '.join(dropped)}: what callers pass there is dropped silently"
    return entry


def _judge(result: dict[str, Any], design: Design) -> None:
    """Fill ``state``, ``sentence`` and ``warnings`` from the entries."""
    version, entries = result["transformers"], result["functions"]
    for entry in entries:
        if entry["bound"] is False and entry["importable"]:
            entry["error"] = _why_not_bound(entry, design, result)
        elif entry["bound"] is None:
            entry["error"] = entry["error"] or f"transformers {version} binds {entry['name']} only where it sees a GPU"
    unbound = [e for e in entries if e["bound"] is False]
    undecided = [e for e in entries if e["bound"] is None]
    dropped = [e for e in entries if e["note"]]
    if unbound:
        states = {e["state"] for e in unbound}
        result["state"] = "absent" if states == {"absent"} else "broken"
        names = ", ".join(e["name"] for e in unbound)
        result["sentence"] = (
            f"{result['layers_sentence'].split(';')[0]}; {len(unbound)} of {len(entries)} functions run the slow "
            f"PyTorch reference ({names}): {unbound[0]['error']}."
        )
        if design.name == "decorator" and _before(version, (5, 20, 2)):
            result["warnings"].append(
                f"transformers {version} ignores the borders of packed sequences in these functions, without an error."
            )
    elif undecided:
        result["state"] = "unknown"
        result["sentence"] = (
            f"{len(undecided)} of {len(entries)} functions are undecided: transformers {version} binds them only where "
            f"it sees a GPU ({result['gpu'].get('reason', 'none here')})."
        )
    elif dropped:
        result["state"] = "broken"
        result["sentence"] = f"{dropped[0]['name']} is bound, but {dropped[0]['note']}."
    else:
        result["state"] = "ok"
        result["sentence"] = (
            f"All {len(entries)} functions that the {result['fast_layers']} of {result['total']} layers with a "
            f"{result['kind']} call are bound."
        )


def hub_decides() -> bool:
    """Whether transformers asks the hub for kernels instead of importing the local package (5.0 to 5.14)."""
    try:
        from transformers.integrations import hub_kernels

        # Up to 5.5 the switch USE_HUB_KERNELS does not reach the loader: that the package is there decides.
        if hasattr(hub_kernels, "_kernels_available"):
            return bool(hub_kernels._kernels_available)
        return bool(hub_kernels.is_kernels_available() and hub_kernels._kernels_enabled)
    except Exception:
        return version_of("kernels") is not None


def kernels_warning(kernels: str | None, version: str | None) -> list[str]:
    """A sentence when the installed package kernels is outside of what this transformers takes."""
    try:
        from transformers.utils import import_utils

        low, high = import_utils.KERNELS_MIN_VERSION, getattr(import_utils, "KERNELS_MAX_VERSION", None)
        if kernels is None or import_utils.is_kernels_available():
            return []
    except Exception:
        return []
    window = f"{low} or later" if high is None else f"{low} or later, and before {high}"
    return [f"kernels {kernels} is not what transformers {version} takes ({window}): kernels of the hub are off."]


def _before(version: str | None, limit: tuple[int, ...]) -> bool:
    numbers = tuple(int(word) for word in (version or "0").split(".")[:3] if word.isdigit())
    return numbers < limit


def _why_not_bound(entry: dict[str, Any], design: Design, result: dict[str, Any]) -> str:
    """The function imports by hand, and yet transformers did not take it: say which of its rules is behind that."""
    version = result["transformers"]
    if entry["note"]:
        return str(entry["note"])
    local = {name.replace("-", "_") for name in design.kernels}
    if local and entry["package"] not in local and entry["package"] != "fla":
        return (
            f"transformers {version} takes {entry['name']} of this family from the hub alone "
            f"({', '.join(sorted(design.kernels))}), never from {entry['distribution']}; install transformers 5.15 or "
            "newer, or the package kernels where the hub can be reached"
        )
    if entry["package"] in local and hub_decides():
        switch = "uninstall kernels" if _before(version, (5, 14)) else "set USE_HUB_KERNELS=0 or uninstall kernels"
        return (
            f"{entry['distribution']} imports, but transformers {version} does not try it while the package kernels "
            f"({result['kernels']}) is installed: it takes the hub's kernel instead, which is not in the cache here "
            f"(and this check does not go online); {switch}"
        )
    if design.name == "decorator":
        if entry["package"] == "fla" and version_of("flash-linear-attention") is None and _before(version, (5, 17)):
            return (
                f"fla-core is installed alone: transformers {version} finds fla.ops only with the whole "
                "flash-linear-attention; install it, at fla-core's version"
            )
        return f"{entry['name']} imports, but transformers {version} did not take it when it was imported"
    if entry["package"] not in {p for p, v in result["packages"].items() if v}:
        return f"{entry['package']} imports but has no package metadata, which transformers {version} demands"
    return f"{entry['name']} imports, but transformers {version} did not bind it"
