# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: from what functions are bound to, to a state and one sentence; and why a function is not bound. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .design import Design


def judge(result: dict[str, Any], design: Design) -> None:
    """Fill ``state``, ``sentence`` and ``warnings`` from the entries."""
    version, entries = result["transformers"], result["functions"]
    for entry in entries:
        if entry["bound"] is False and entry["importable"]:
            entry["error"] = _why_not_bound(entry, design, result)
        elif entry["bound"] is None:
            entry["error"] = _why_undecided(entry, result, entry["name"])
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
            f"{len(undecided)} of {len(entries)} functions are undecided: "
            f"{_why_undecided(undecided[0], result, 'them')}."
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


def _before(version: str | None, limit: tuple[int, ...]) -> bool:
    numbers = tuple(int(word) for word in (version or "0").split(".")[:3] if word.isdigit())
    return numbers < limit


def _why_undecided(entry: Mapping[str, Any], result: Mapping[str, Any], what: str) -> str:
    version = result["transformers"]
    if entry["asks_hub"]:
        switch = "uninstall kernels" if _before(version, (5, 14)) else "set USE_HUB_KERNELS=0 or uninstall kernels"
        return (
            f"transformers {version} takes {what} from the hub while the package kernels ({result['kernels']}) is "
            f"installed, never from {entry['distribution']}, and the hub's kernel is not in the cache here (this check "
            f"does not go online); {switch}"
        )
    return f"transformers {version} binds {what} only where it sees a GPU ({result['gpu'].get('reason', 'none here')})"


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
    if design.name == "decorator":
        if entry["package"] == "fla" and result["flash_linear_attention"] is None and _before(version, (5, 17)):
            return (
                f"fla-core is installed alone: transformers {version} finds fla.ops only with the whole "
                "flash-linear-attention; install it, at fla-core's version"
            )
        return f"{entry['name']} imports, but transformers {version} did not take it when it was imported"
    if entry["package"] not in {p for p, v in result["packages"].items() if v}:
        return f"{entry['package']} imports but has no package metadata, which transformers {version} demands"
    return f"{entry['name']} imports, but transformers {version} did not bind it"
