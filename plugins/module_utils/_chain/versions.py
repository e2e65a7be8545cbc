# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Version numbers as they occur here: torch's "2.14.1+cu130", PyPI's "1.5.3.post1", apt's "13.0.88-1". Pure."""

from __future__ import annotations

import re

_PUBLIC = re.compile(
    r"^\s*v?(?:\d+!)?(\d+(?:\.\d+)*)(?:[.\-_]?(a|b|c|rc|alpha|beta|pre)[.\-_]?(\d*))?"
    r"(?:[.\-_]?(post|dev)[.\-_]?(\d*))?"
)
_OPERATOR = re.compile(r"^\s*(===|==|!=|~=|>=|<=|>|<)?\s*(\S+)\s*$")


def numbers(version: object) -> tuple[int, ...]:
    """The leading numbers: "13.0.88-1" -> (13, 0, 88); () for what does not begin with a number."""
    found = re.match(r"\s*v?(\d+(?:\.\d+)*)", str(version or ""))
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def major(version: object) -> int | None:
    """13 for "13.0"; None for what is no version."""
    parts = numbers(version)
    return parts[0] if parts else None


def minor(version: object) -> str | None:
    r""" "13.0" for "13.0.88-1"; None for what has fewer than two numbers."""
    parts = numbers(version)
    return f"{parts[0]}.{parts[1]}" if len(parts) > 1 else None


def at_least(version: object, floor: object) -> bool:
    """Compare by numbers alone, "2.4" equal to "2.4.0"."""
    return _padded(numbers(version)) >= _padded(numbers(floor))


def public(version: object) -> str:
    r""" "2.14.1" for "2.14.1+cu130"."""
    return str(version or "").partition("+")[0]


def plain(name: object) -> str:
    """A distribution's name as indexes compare it: "Causal_Conv1d" -> "causal-conv1d"."""
    return re.sub(r"[-_.]+", "-", str(name or "")).lower()


def satisfies(version: object, wish: object) -> bool:
    """Whether an installed version meets a wish: "2.14.1" (that one), or clauses as pip writes them, ">=2.13,<2.15".

    A local part ("+cu130") counts only when the wish names one. Empty wishes are met by everything.
    """
    text = str(wish or "").strip()
    if not text or text == "*":
        return True
    return all(_meets(str(version or ""), clause) for clause in text.split(",") if clause.strip())


def _meets(version: str, clause: str) -> bool:
    found = _OPERATOR.match(clause)
    if not found:
        return False
    operator, wanted = found.group(1) or "==", found.group(2)
    if operator == "===":
        return version == wanted
    if operator in ("==", "!="):
        return _equal(version, wanted) == (operator == "==")
    if operator == "~=":
        head = numbers(wanted)[:-1]
        return _key(version) >= _key(wanted) and numbers(version)[: len(head)] == head
    have, want = _key(version), _key(wanted)
    return {">=": have >= want, "<=": have <= want, ">": have > want, "<": have < want}[operator]


def _equal(version: str, wanted: str) -> bool:
    if wanted.endswith(".*"):
        head = numbers(wanted)
        return numbers(version)[: len(head)] == head
    if "+" in wanted:
        return version.lower() == wanted.lower()
    return _key(version) == _key(wanted)


def _key(version: str) -> tuple[tuple[int, ...], int, int, int]:
    """Sort key: dev < pre-release < release < post-release of the same numbers."""
    found = _PUBLIC.match(public(version))
    if not found:
        return ((), 0, 0, 0)
    release = _padded(tuple(int(part) for part in found.group(1).split(".")))
    rank = {"a": 1, "alpha": 1, "b": 2, "beta": 2, "c": 3, "rc": 3, "pre": 3}.get(found.group(2) or "", 4)
    tail = int(found.group(5) or 0) + 1 if found.group(4) else 0
    if found.group(4) == "dev":
        tail = tail - 1_000_000
    return (release, rank, int(found.group(3) or 0), tail)


def _padded(parts: tuple[int, ...]) -> tuple[int, ...]:
    return parts + (0,) * (6 - len(parts))
