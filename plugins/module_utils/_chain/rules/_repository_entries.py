# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions that the repository rule asks of a sources entry: which address, which distribution, which key. Pure."""

from __future__ import annotations

import re
from typing import Any

from ..look import Look
from ..tables import distributions

_PLACE = re.compile(r"/([a-z]+\d{2,4}[a-z0-9]*)/(x86_64|sbsa|arm64|aarch64|ppc64le|cross-linux-[a-z0-9]+)/*$")


def address(uri: object) -> str:
    """An address without the closing slashes, to compare with: apt treats both forms as the same repository."""
    return str(uri or "").strip().rstrip("/")


def by_address(entries: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """{address: its entries}."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for item in entries:
        groups.setdefault(address(item.get("uri")), []).append(item)
    return groups


def place(uri: object) -> tuple[str, str] | None:
    """("debian12", "x86_64") of a repository's address; None when it does not end like one of NVIDIA's."""
    found = _PLACE.search(address(uri))
    return (found.group(1), found.group(2)) if found else None


def is_local(item: dict[str, Any]) -> bool:
    """Whether the packages lie on the container's own disk, as NVIDIA's local installer arranges it."""
    return str(item.get("uri") or "").startswith(("file:", "copy:"))


def unsigned(item: dict[str, Any]) -> str | None:
    """The option by which an entry switches signatures off, "trusted=yes"; None when it does not."""
    for name, value in (item.get("options") or {}).items():
        plain = str(name).lower()
        if plain in ("trusted", "allow-insecure", "allow-weak") and str(value).lower() in ("yes", "true", "1", "on"):
            return f"{name}={value}"
    return None


def keyring_of(facts: dict[str, Any], item: dict[str, Any]) -> dict[str, Any] | None:
    """{path, exists, fingerprints} of the keyring that an entry names; None when apt's own key directory counts."""
    return (facts.get("keyrings") or {}).get(item.get("signed_by") or "")


def wanted_keys(look: Look, item: dict[str, Any]) -> list[str]:
    """The fingerprints of which one must be held: the variable's, else the table's for that directory; [] unknown."""
    named = look.wish("cuda_repository", "key_fingerprints")
    if named:
        return [str(key).replace(" ", "").upper() for key in ([named] if isinstance(named, str) else named)]
    found = place(item.get("uri"))
    return list(distributions.keys_of(found[0])) if found else []
