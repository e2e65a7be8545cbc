# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The key of a built wheel: everything that decides whether a compiled extension fits an environment.

Two environments with equal keys can use each other's wheels; whatever would make a wheel unfit, or its machine code
another one, is a field here. What does not decide that (the versions of nvcc and gcc, the line info flag, the number
of jobs, where it was built) is provenance and stands beside the key in the wheel's manifest, never in it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils._gpu_targets import normalise_targets

SCHEMA = 1
"""Goes up when a field is added or its meaning changes: keys of two schemas are never equal."""

DIGEST_LENGTH = 16

_FORMS: dict[str, tuple[str, str]] = {
    "package": (r"[a-z0-9]+(-[a-z0-9]+)*", "a normalised distribution name (causal-conv1d)"),
    "version": (r"[0-9][0-9A-Za-z.!+_-]*", "a version (1.7.0)"),
    "source_sha256": (r"[0-9a-f]{64}", "a SHA-256 in hexadecimal"),
    "torch": (r"[0-9][0-9A-Za-z.+_-]*", "torch's full version (2.14.1+cu130)"),
    "torch_cuda": (r"[0-9]+\.[0-9]+", "torch's CUDA (13.0)"),
    "python_tag": (r"(cp|pp)[0-9]+t?", "a Python tag (cp311)"),
    "machine": (r"[a-z0-9_]+", "a machine name (x86_64)"),
    "libc": (r"[a-z]+-[0-9]+\.[0-9]+", "a C library with its version (glibc-2.36)"),
}


@dataclasses.dataclass(frozen=True)
class WheelKey:
    """One key. Construct it with `make_key`, which brings each field into its one spelling."""

    package: str
    version: str
    source_sha256: str
    torch: str
    torch_cuda: str
    python_tag: str
    cxx11_abi: bool
    machine: str
    libc: str
    gpu_targets: tuple[str, ...]
    flags: tuple[str, ...]

    def as_dict(self) -> dict[str, t.Any]:
        """The key as JSON knows it; `key_from_dict` is the way back."""
        fields = dataclasses.asdict(self)
        return {"schema": SCHEMA, **fields, "gpu_targets": list(self.gpu_targets), "flags": list(self.flags)}

    def canonical(self) -> str:
        """The one text of this key: equal keys have equal texts, unequal keys unequal ones."""
        return json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the canonical text: names folders and build tags."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:DIGEST_LENGTH]

    def build_tag(self) -> str:
        """The wheel's build tag (PEP 427 wants a digit first): says at sight which key a wheel file was built for."""
        return f"0k{self.digest()}"


def make_key(
    package: str,
    version: str,
    source_sha256: str,
    torch: str,
    torch_cuda: str,
    python_tag: str,
    cxx11_abi: bool,
    machine: str,
    libc: str,
    gpu_targets: t.Iterable[str],
    flags: t.Iterable[str] = (),
) -> WheelKey:
    """A key from facts in any accepted spelling.

    ``flags`` keeps its order, because a compiler reads flags in order; ``gpu_targets`` is a set in any of the
    spellings of `_gpu_targets`, and empty for an extension without device code. Raises ValueError, with a sentence
    that names the field.
    """
    if not isinstance(cxx11_abi, bool):
        raise ValueError(f"cannot make the wheel key: cxx11_abi is {cxx11_abi!r}, expected true or false")
    key = WheelKey(
        package=normalise_name(package),
        version=str(version).strip(),
        source_sha256=str(source_sha256).strip().lower(),
        torch=str(torch).strip(),
        torch_cuda=str(torch_cuda).strip(),
        python_tag=str(python_tag).strip(),
        cxx11_abi=cxx11_abi,
        machine=str(machine).strip().lower(),
        libc=str(libc).strip().lower(),
        gpu_targets=normalise_targets(gpu_targets),
        flags=tuple(str(flag) for flag in flags),
    )
    for field, (form, meaning) in _FORMS.items():
        value = getattr(key, field)
        if not re.fullmatch(form, value):
            raise ValueError(f"cannot make the wheel key of {package}: {field} is {value!r}, expected {meaning}")
    return key


def key_from_dict(data: t.Mapping[str, t.Any]) -> WheelKey:
    """A key from a manifest. Raises ValueError for a manifest of another schema, or one that lacks a field."""
    if data.get("schema") != SCHEMA:
        raise ValueError(f"the wheel key has schema {data.get('schema')!r}, this release reads {SCHEMA}")
    names = [field.name for field in dataclasses.fields(WheelKey)]
    missing = [name for name in names if name not in data]
    if missing:
        raise ValueError(f"the wheel key lacks {', '.join(missing)}")
    return make_key(**{name: data[name] for name in names})


def differences(recorded: WheelKey, today: WheelKey) -> list[tuple[str, t.Any, t.Any]]:
    """(field, recorded, today) of each field that differs, in the order of the fields; empty means
    interchangeable."""
    pairs = []
    for field in dataclasses.fields(WheelKey):
        before, now = getattr(recorded, field.name), getattr(today, field.name)
        if before != now:
            pairs.append((field.name, before, now))
    return pairs


def normalise_name(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503): ``Causal_Conv1d`` -> ``causal-conv1d``."""
    return re.sub(r"[-_.]+", "-", str(name).strip()).lower()
