# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what the packages behind the fast functions say when they are imported directly.

transformers swallows the exception of a package that is installed and broken, and then calls it "not installed".
Here it is imported by name and the first cause is kept.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from importlib import metadata
from typing import Any

from .families import FUNCTIONS, Function


def distribution_of(package: str) -> tuple[str | None, str | None]:
    """(distribution, version) that ships an import package, from the metadata; (None, None) when there is none."""
    for name in {"fla": ("fla-core", "flash-linear-attention")}.get(package, (package.replace("_", "-"),)):
        try:
            return name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None, None


def version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def root_cause(error: BaseException) -> BaseException:
    """The first exception of a chain: what went wrong before others reported it."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        inner = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if inner is None:
            break
        error = inner
    return error


def describe(error: BaseException, limit: int = 600) -> str:
    """``ImportError: undefined symbol ...`` in one line; a differing first cause follows."""
    text = _line(error, limit)
    cause = root_cause(error)
    return text if cause is error else f"{text} (because {_line(cause, limit)})"


def _line(error: BaseException, limit: int) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
    return text if len(text) <= limit else text[: limit - 3] + "..."


def import_function(name: str, function: Function | None = None) -> dict[str, Any]:
    """Import one fast function from its own package: ``{state, error, file, version, distribution, object}``.

    ``state`` is ``ok``, ``absent`` (no such package here) or ``broken`` (installed, but it cannot be used).
    """
    function = function or FUNCTIONS[name]
    distribution, version = distribution_of(function.package)
    result: dict[str, Any] = {
        "state": "ok",
        "error": None,
        "file": None,
        "version": version,
        "distribution": distribution or function.distribution,
        "object": None,
    }
    if importlib.util.find_spec(function.package) is None:
        trace = f" (its metadata, version {version}, is there)" if version else ""
        result.update(state="broken" if version else "absent", error=f"no module {function.package!r} here{trace}")
        return result
    for source in function.sources:
        try:
            module = importlib.import_module(source)
        except Exception as error:
            result.update(state="broken", error=describe(error))
            continue
        found = getattr(module, name, None)
        if found is None:
            result.update(
                state="broken",
                error=f"half a package: {source} has no {name} ({getattr(module, '__file__', None) or 'no file'})",
            )
            continue
        result.update(state="ok", error=None, file=file_of(found), object=found)
        return result
    return result


def file_of(thing: Any) -> str | None:
    try:
        return inspect.getsourcefile(thing) or inspect.getfile(thing)
    except (TypeError, OSError):
        return getattr(inspect.getmodule(thing), "__file__", None)


def missing_arguments(thing: Any, function: Function) -> list[str]:
    """Argument names that callers rely on and that this implementation does not take (it would drop them silently)."""
    try:
        parameters = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return []
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return []
    return [name for name in function.arguments if name not in parameters]
