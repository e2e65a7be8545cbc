# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: how a modeling file of transformers chooses between its fast and its slow functions.

transformers has had four ways so far. Which one a file uses is read from its syntax tree, never from its version:

* ``module flag`` - ``is_fast_path_available`` is computed when the module is imported (4.57 to 5.14);
* ``mixer flag`` - the same name is set by the mixer's ``__init__`` through ``global`` (5.0 to 5.14);
* ``forward flag`` - it is a local variable of ``forward`` (mamba, falcon_mamba up to 5.14);
* ``decorator`` - each function is decorated with its own fallback (5.15 on).

Anything else is ``unknown``: a future design must never pass unseen.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from typing import Any

FLAG = "is_fast_path_available"
DECORATOR = "use_kernel_func_from_hub_with_fallback"


@dataclass(frozen=True)
class Decorated:
    """One decorated function: its name in the module, the name asked of the package, and the package."""

    attribute: str
    function: str
    package: str


@dataclass(frozen=True)
class Design:
    """What the source says: the design, the decorated functions, all names used, and the kernels that it loads lazily.

    ``kernels`` are names of the hub ("causal-conv1d"), which stand for the local package of that name as well.
    """

    name: str
    decorated: tuple[Decorated, ...] = ()
    names: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()


def read_design(source: str) -> Design:
    """Read a modeling file's design from its text. Raises SyntaxError for text that this Python cannot parse."""
    tree = ast.parse(source)
    decorated = tuple(
        found for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for found in _decorations(node)
    )
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    kernels = frozenset(_lazy_kernels(tree))
    if decorated:
        return Design("decorator", decorated, names, kernels)
    if any(isinstance(node, ast.Global) and FLAG in node.names for node in ast.walk(tree)):
        return Design("mixer flag", (), names, kernels)
    if any(_assigns_flag(node) for node in tree.body):
        return Design("module flag", (), names, kernels)
    if any(_assigns_flag(node) for node in ast.walk(tree)):
        return Design("forward flag", (), names, kernels)
    return Design("unknown", (), names, kernels)


def _lazy_kernels(tree: ast.AST) -> list[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    lazy = [call.args[0] for call in calls if _name(call) == "lazy_load_kernel" and call.args]
    names = [str(argument.value) for argument in lazy if isinstance(argument, ast.Constant)]
    return [*names, *("causal-conv1d" for c in calls if _name(c) == "_lazy_load_causal_conv1d")]


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def _assigns_flag(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == FLAG for t in node.targets)


def _decorations(node: ast.FunctionDef) -> list[Decorated]:
    found = []
    for call in node.decorator_list:
        if not isinstance(call, ast.Call) or _name(call) != DECORATOR:
            continue
        words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        named = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
        function = words[0] if words else named.get("func_name")
        package = words[1] if len(words) > 1 else named.get("package")
        if function and package:
            found.append(Decorated(node.name, str(function), str(package)))
    return found


def unwrap(function: Any, depth: int = 0) -> tuple[Any, Any] | None:
    """(implementation, reference) of a function decorated by transformers 5.15 or later; None when it is not one.

    Works through the wrappers of the ``kernels`` package, which turns a function into an ``nn.Module``.
    """
    if depth > 6:
        return None
    if inspect.isfunction(function):
        nonlocals = inspect.getclosurevars(function).nonlocals
        if "implementation" in nonlocals:
            return nonlocals["implementation"], getattr(function, "__wrapped__", None)
        for value in nonlocals.values():
            if inspect.isfunction(value) and value is not function:
                found = unwrap(value, depth + 1)
                if found:
                    return found
        return None
    forward = getattr(type(function), "forward", None)
    return unwrap(forward, depth + 1) if inspect.isfunction(forward) else None
