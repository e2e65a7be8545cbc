# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""What has to be known about an extension to build it, as data. Another extension is another description, not more
code.

A wish names an extension (``{name: causal-conv1d, version: 1.7.0}``); any field of `Description` may stand beside the
name and wins over the catalogue, so an extension that is not in it is described in the inventory.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.versions import at_least, public
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import normalise_name

GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Description:
    """One extension.

    variables: environment of the build. The ones that force a build from source are needed even where a prebuilt wheel
    exists, because a setup that looks for one dies without a network.
    skip_variables: environment under which the setup compiles nothing, so that metadata can be read without a compiler.
    targets_variable: the environment variable through which the setup takes GPU targets, for those that take any.
    modules: what must import; compiled: those of them that are shared objects with machine code for GPUs.
    functions: ``module:attribute`` that must exist after import.
    memory_per_process: bytes that one compiler process needs at its peak for one GPU target.
    disk: bytes that a build needs for its temporary files.
    edits: (file, old, new) in the sources, each with the versions of torch that need it.
    splits: sources whose explicit instantiations are compiled in several units; the machine code stays the same.
    no_sources: versions whose source archive holds no sources. sha256: of source archives, by version.
    """

    name: str
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    skip_variables: dict[str, str] = dataclasses.field(default_factory=dict)
    targets_variable: str = ""
    modules: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    math_headers: bool = False
    pure_python: bool = False
    memory_per_process: int = 3 * GIB
    disk: int = 2 * GIB
    edits: tuple[Edit, ...] = ()
    splits: tuple[Split, ...] = ()
    no_sources: tuple[str, ...] = ()
    sha256: dict[str, str] = dataclasses.field(default_factory=dict)

    def key_flags(self, torch: str) -> tuple[str, ...]:
        """What of the description changes the machine code of a build against this torch: part of the wheel's key.

        The catalogue's own variables only force a build; those that somebody sets may do anything.
        """
        own = CATALOGUE[self.name].variables if self.name in CATALOGUE else {}
        edits = [f"edit:{edit.file}:{edit.old}>{edit.new}" for edit in self.edits if edit.applies(torch)]
        changed = [name for name in sorted(self.variables) if own.get(name) != self.variables[name]]
        return (*edits, *(f"env:{name}={self.variables[name]}" for name in changed))


@dataclasses.dataclass(frozen=True)
class Edit:
    """Replace ``old`` by ``new`` in ``file`` where torch is at least ``torch_from``."""

    file: str
    old: str
    new: str
    torch_from: str = "0"

    def applies(self, torch: str) -> bool:
        return at_least(public(torch), self.torch_from)


@dataclasses.dataclass(frozen=True)
class Split:
    """Compile ``file`` as ``parts`` units with a share of its explicit template instantiations each.

    A source that is nothing but templates and a list of instantiations keeps one processor busy for as long as all of
    them take. ``setup`` is the file that names it among the sources.
    """

    file: str
    parts: int
    setup: str = "setup.py"


# torch's headers ask for C++20 from 2.13 on (its RELEASE.md; compiled against 2.14.1).
_CXX20 = Edit("setup.py", "-std=c++17", "-std=c++20", "2.13")

CATALOGUE: dict[str, Description] = {
    description.name: description
    for description in (
        Description(
            "causal-conv1d",
            variables={"CAUSAL_CONV1D_FORCE_BUILD": "TRUE"},
            skip_variables={"CAUSAL_CONV1D_SKIP_CUDA_BUILD": "TRUE"},
            modules=("causal_conv1d",),
            compiled=("causal_conv1d_cuda",),
            functions=("causal_conv1d:causal_conv1d_fn", "causal_conv1d:causal_conv1d_update"),
            memory_per_process=GIB,  # 0.54 at most for a part of the split unit; whole, it took 3
            # 1080 kernels (9 pairs of types, 3 widths, 40 switches) in one file, on one processor for minutes.
            splits=(Split("csrc/causal_conv1d_bwd.cu", 9),),
            no_sources=("1.5.0.post8",),
            sha256={"1.7.0": "3202758494eaa7b597ce1c282dfa188889506bfcb92cad3c407d26736bfcd32b"},
        ),
        Description(
            "mamba-ssm",
            # From the versions of July 2026 on, the compiled scan is opt-in.
            variables={"MAMBA_FORCE_BUILD": "TRUE", "MAMBA_KEEP_CUDA_BUILD": "TRUE"},
            skip_variables={"MAMBA_SKIP_CUDA_BUILD": "TRUE"},
            modules=("mamba_ssm",),
            compiled=("selective_scan_cuda",),
            functions=("mamba_ssm.ops.selective_scan_interface:selective_scan_fn",),
            memory_per_process=GIB,  # 0.72 at most
            edits=(_CXX20,),
        ),
        Description(
            "flash-attn",
            variables={"FLASH_ATTENTION_FORCE_BUILD": "TRUE", "NVCC_THREADS": "1"},
            skip_variables={"FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"},
            targets_variable="FLASH_ATTN_CUDA_ARCHS",
            modules=("flash_attn",),
            compiled=("flash_attn_2_cuda",),
            functions=("flash_attn:flash_attn_func", "flash_attn:flash_attn_varlen_func"),
            memory_per_process=9 * GIB,  # its own setup counts that; 6.6 for flash_bwd_hdim256_bf16_sm80.cu
            edits=(_CXX20,),
        ),
        Description(
            "flash-linear-attention",
            pure_python=True,
            modules=("fla",),
            functions=("fla.ops.gated_delta_rule:chunk_gated_delta_rule",),
        ),
    )
}

_FIELDS = {field.name: field for field in dataclasses.fields(Description)}
_WISH_KEYS = {"name", "version", "sha256", "gpu_targets", "source", "wheel"}


def describe(name: str, overrides: t.Mapping[str, t.Any] | None = None) -> Description:
    """The description of an extension: the catalogue's, with the fields of ``overrides`` in place of its own.

    Raises ValueError, with a sentence, for an extension that neither knows, or a field that does not exist.
    """
    plain = normalise_name(name)
    changes = {key: value for key, value in (overrides or {}).items() if key not in _WISH_KEYS}
    unknown = sorted(set(changes) - set(_FIELDS))
    if unknown:
        known = ", ".join(sorted(set(_FIELDS) - {"name"} | _WISH_KEYS))
        raise ValueError(f"cuda_extensions_wanted: {name} has the unknown field {unknown[0]}; known are {known}")
    base = CATALOGUE.get(plain)
    if base is None and not (changes.get("compiled") or changes.get("pure_python")):
        raise ValueError(
            f"cuda_extensions_wanted: {name} is not in the catalogue ({', '.join(sorted(CATALOGUE))}); describe"
            " it there:"
            " at least compiled (the names of its compiled modules)"
        )
    return dataclasses.replace(base or Description(plain), **{key: _typed(name, key, changes[key]) for key in changes})


def _typed(name: str, key: str, value: t.Any) -> t.Any:
    """A value from YAML in the shape that the field has."""
    default = getattr(Description("x"), key)
    if key in ("edits", "splits"):
        kind: t.Any = Edit if key == "edits" else Split
        try:
            return tuple(value_ if isinstance(value_, kind) else kind(**value_) for value_ in value)
        except TypeError as error:
            fields = ", ".join(field.name for field in dataclasses.fields(kind))
            raise ValueError(f"cuda_extensions_wanted: {name}: each of {key} has {fields} ({error})") from error
    if isinstance(default, tuple) and isinstance(value, (list, tuple)):
        return tuple(str(item) for item in value)
    if isinstance(default, dict) and isinstance(value, dict):
        return {str(item): str(text) for item, text in value.items()}
    if isinstance(default, bool) is isinstance(value, bool) and isinstance(value, type(default)):
        return value
    raise ValueError(f"cuda_extensions_wanted: {name}: the field {key} is {value!r}, expected {type(default).__name__}")


def refusal(description: Description, version: str) -> str | None:
    """Why this version cannot be built, known without trying; None when nothing speaks against it."""
    if version in description.no_sources:
        return f"the source archive of {description.name} {version} holds no sources; choose another version"
    if not re.fullmatch(r"[0-9][0-9A-Za-z.!+_-]*", version):
        return f"the version of {description.name} is {version!r}, expected one release such as 1.7.0"
    return None


def math_headers_wanted(wishes: t.Iterable[t.Mapping[str, t.Any]]) -> bool:
    """Whether one of the wanted extensions includes headers of the math libraries."""
    return any(describe(str(wish["name"]), wish).math_headers for wish in wishes)
