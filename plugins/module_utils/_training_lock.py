# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The lock of a training host: the exact set of versions, keys and files that was found good, from chain_info's facts.

Pure. Nothing in it moves by itself: the same host gives the same text, so that drift is a comparison of two texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

SCHEMA = 1
_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
Facts = Mapping[str, Any]


class NotLockable(Exception):
    """The facts do not describe a training host; the message is one sentence for the reader."""


def content(facts: Facts, checksums: Mapping[str, str], before: Any = None) -> dict[str, Any]:
    """The lock for these facts.

    :param facts: ``facts`` of chain_info with all links.
    :param checksums: {path: SHA-256} of the extensions' compiled modules.
    :param before: the lock that is there now. Its proof stays while a newer one was made under the same conditions:
        the figures of a proof vary a little from run to run, and the first ones are what later ones are measured by.
    :raises NotLockable: when the torch or the binding of the host was not observed.
    """
    torch = _section(facts, "torch")
    if not torch.get("version"):
        raise NotLockable("There is no torch in the facts, so there is nothing to lock; pass all facts of chain_info.")
    return {
        "schema": SCHEMA,
        "system": _system(_section(facts, "base")),
        "gpu": _gpu(_section(facts, "gpu")),
        "torch": {n: torch.get(n) for n in ("path", "python", "python_version", "version", "cuda", "cxx11_abi")},
        "distributions": dict(sorted((torch.get("distributions") or {}).items())),
        "repository": _repository(_section(facts, "repository")),
        "toolkit": _toolkit(_section(facts, "toolkit")),
        "compiler": {n: _section(facts, "compiler").get(n) for n in ("gcc", "gxx", "ninja")},
        "extensions": {
            name: _extension(found, checksums) for name, found in sorted(_section(facts, "extensions").items())
        },
        "binding": _binding(_section(facts, "binding")),
        "proof": _proof(_section(facts, "proof").get("record"), before),
    }


def text(lock: Mapping[str, Any]) -> str:
    """The file's text: the same lock gives the same bytes."""
    return json.dumps(lock, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def read(found: str | None) -> dict[str, Any] | None:
    """The lock in a file's text; None when there is none, or it is none that this release reads."""
    try:
        lock = json.loads(found or "")
    except ValueError:
        return None
    return lock if isinstance(lock, dict) and lock.get("schema") == SCHEMA else None


def compiled_modules(facts: Facts) -> list[str]:
    """Paths of the files whose checksums belong into the lock."""
    extensions = _section(facts, "extensions").values()
    found = [module for extension in extensions for module in _modules(extension)]
    return [str(module["file"]) for module in found if module.get("file") and module.get("exists", True)]


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """``torch.version: 2.11.0 -> 2.14.1``, one line a leaf that differs; [] when there was no lock before."""
    if before is None:
        return []
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return [
        f"{'.'.join(path)}: {_shown(old, path)} -> {_shown(new, path)}"
        for path in sorted({**old, **new})
        if old.get(path) != new.get(path) or (path in old) != (path in new)
    ]


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, str(name)))
    else:
        yield path, value


def _shown(leaves: Mapping[tuple[str, ...], Any], path: tuple[str, ...]) -> str:
    if path not in leaves:
        return "nothing"
    value = leaves[path]
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _section(facts: Facts, link: str) -> Mapping[str, Any]:
    found = facts.get(link)
    return found if isinstance(found, Mapping) and not found.get("error") else {}


def _system(base: Facts) -> dict[str, Any]:
    system = base.get("os") or {}
    names = ("machine", "deb_arch", "glibc", "python")
    return {"id": system.get("id"), "version_id": system.get("version_id"), **{n: base.get(n) for n in names}}


def _gpu(gpu: Facts) -> dict[str, Any]:
    found = [{n: one.get(n) for n in ("name", "capability")} for one in gpu.get("gpus") or []]
    nodes = [str(node["path"]) for node in gpu.get("nodes") or [] if node.get("kind") == "char"]
    libraries = {str(one["version"]) for one in gpu.get("libraries") or [] if one.get("version")}
    return {
        "driver": gpu.get("module_version"),
        "gpus": found,
        "nodes": sorted(nodes),
        "libraries": sorted(libraries),
    }


def _repository(repository: Facts) -> dict[str, Any]:
    url, keyring = repository.get("url"), repository.get("keyring") or {}
    return {
        "url": _LOGIN.sub("***", url) if isinstance(url, str) else None,
        "fingerprints": sorted(keyring.get("fingerprints") or []),
        "expires": dict(sorted((keyring.get("expires") or {}).items())),
        "entries": [repository_entry(item) for item in repository.get("entries") or []],
    }


def repository_entry(item: Mapping[str, Any]) -> dict[str, Any]:
    """What of an entry in apt's sources decides where packages come from, and who has to have signed them."""
    words = {name: item.get(name) for name in ("file", "suites", "enabled", "options")}
    signed = str(item.get("signed_by") or "")
    signed = "a key in the file" if "BEGIN PGP" in signed else signed
    return {**words, "uri": _LOGIN.sub("***", str(item.get("uri") or "")), "signed_by": signed or None}


def _toolkit(toolkit: Facts) -> dict[str, Any]:
    nvccs = [{n: nvcc.get(n) for n in ("path", "version", "package")} for nvcc in toolkit.get("nvccs") or []]
    default = toolkit.get("default_nvcc") or {}
    return {
        "packages": dict(sorted((toolkit.get("packages") or {}).items())),
        "nvccs": nvccs,
        "default_nvcc": {n: default.get(n) for n in ("path", "realpath")},
        "cuda_link": toolkit.get("cuda_link"),
        "pins": dict(sorted((toolkit.get("pins") or {}).items())),
    }


def _modules(extension: Any) -> list[Mapping[str, Any]]:
    return [m for m in (extension.get("modules") or [] if isinstance(extension, Mapping) else []) if m.get("name")]


def _extension(found: Any, checksums: Mapping[str, str]) -> dict[str, Any]:
    found = found if isinstance(found, Mapping) else {}
    record = found.get("record") or {}
    return {
        "version": found.get("version"),
        "key": record.get("key"),
        "modules": {
            str(module["name"]): {
                "sha256": checksums.get(str(module.get("file"))),
                "gpu_targets": list(module.get("gpu_targets") or []),
            }
            for module in _modules(found)
        },
    }


def _binding(binding: Facts) -> dict[str, Any]:
    names = ("model", "family", "design", "fast_layers", "total")
    functions = [f for f in binding.get("functions") or [] if isinstance(f, Mapping) and f.get("name")]
    return {
        **{name: binding.get(name) for name in names},
        "functions": {str(f["name"]): f.get("implementation") for f in functions},
    }


def _proof(record: Any, before: Any) -> dict[str, Any] | None:
    """A good proof's figures and time; the ones that are locked already while they were made under the same key."""
    if not isinstance(record, Mapping) or not record.get("ok"):
        return None
    locked = before.get("proof") if isinstance(before, Mapping) else None
    if isinstance(locked, Mapping) and locked.get("key") == record.get("key"):
        return dict(locked)
    return {name: record.get(name) for name in ("gpu", "ratio", "figures", "key", "when")}
