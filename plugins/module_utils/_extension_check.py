# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Is a built extension good? Its modules hold the wanted GPU targets, and it imports in the training interpreter.

Both are asked of an unpacked wheel before anything is replaced, and of the installed one after.
"""

from __future__ import annotations

import glob
import os
import subprocess
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _elf
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_errors import Build, Cause, classify
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_jobs import oom_kills
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import Description

PROGRAM = """\
import importlib, sys
place, modules, functions = sys.argv[1], sys.argv[2].split(), sys.argv[3].split()
if place:
    sys.path.insert(0, place)
import torch
for name in modules:
    importlib.import_module(name)
for name in functions:
    module, _, attribute = name.partition(":")
    getattr(importlib.import_module(module), attribute)
"""
"""torch first: it loads the libraries that the compiled part is linked with."""


def modules_in(description: Description, folder: str) -> list[dict[str, t.Any]]:
    """[{name, file, gpu_targets}] of the compiled modules below ``folder``; file None and no targets where one is
    missing.

    Raises _elf.ElfError for a module that cannot be read.
    """
    found = []
    for name in description.compiled:
        stem = os.path.join(glob.escape(folder), name.replace(".", "/"))
        files = sorted(glob.glob(f"{stem}.*.so") + glob.glob(f"{stem}.so"))
        targets = list(_elf.gpu_targets(files[0])) if files else []
        found.append({"name": name, "file": files[0] if files else None, "gpu_targets": targets})
    return found


def wrong_modules(what: str, modules: t.Sequence[dict[str, t.Any]], targets: t.Iterable[str]) -> Cause | None:
    """What is missing from the modules: a file or a wanted target. None if nothing is."""
    for module in modules:
        if not module["file"]:
            return Cause(
                "module_missing",
                f"{what}: the wheel holds no compiled module {module['name']}; its CUDA part was switched off or"
                " renamed",
                "",
            )
    # Modules without any GPU code (bindings of a package with several) are no fault, but one must have the targets.
    holding = {target for module in modules for target in module["gpu_targets"]}
    missing = [target for target in targets if target not in holding]
    if modules and missing:
        has = ", ".join(sorted(holding)) or "no GPU code at all"
        return Cause("target_missing", f"{what}: the built module lacks {', '.join(missing)} (it holds {has})", "")
    return None


def import_problem(
    build: Build, description: Description, environment: t.Mapping[str, str], place: str = "", timeout: float = 1200.0
) -> Cause | None:
    """Why the extension does not import in the training interpreter; None if it does.

    ``place``: folder of an unpacked wheel that is tried before what is installed. ``timeout``: a first import on a busy
    machine takes minutes (Triton and torch compile Python by the thousand files).
    """
    names = [*description.compiled, *description.modules]
    command = [build.python, "-I", "-c", PROGRAM, place, " ".join(names), " ".join(description.functions)]
    kills = oom_kills()
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function  # no module here to run it
            command,
            env=dict(environment),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Cause("timeout", f"{build.what}: importing it did not end within {timeout:.0f} seconds", "")
    if done.returncode == 0:
        return None
    output = done.stdout.decode("utf-8", "replace")
    if oom_kills() > kills:
        return classify(output, build, starved=True)
    if done.returncode < 0:
        return Cause(
            "crash", f"{build.what}: importing it ended the interpreter by signal {-done.returncode}", output[-500:]
        )
    cause = classify(output, build)
    if cause.id == "unknown":
        return Cause("import", f"{build.what}: importing it failed with: {cause.line[:300]}", cause.line)
    return cause
