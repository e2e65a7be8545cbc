# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 7, facts: gcc, g++, ninja, Python.h, today's key, and the record of the compile probe."""

from __future__ import annotations

from typing import Any

from .._chain import nvcc as choice
from . import base, distributions, toolkit, torch
from .host import STATE, Host

RECORD = f"{STATE}/compile_probe.json"


def observe(host: Host, wishes: dict[str, Any], known: dict[str, Any] | None = None) -> dict[str, Any]:
    """known: sections that were observed already, by link; what is missing of torch and toolkit is observed here."""
    sections = known or {}
    environment = sections.get("torch") or torch.observe(host, wishes)
    tools = sections.get("toolkit") or toolkit.observe(host, wishes)
    gcc = version(host, "gcc", "-dumpfullversion", "-dumpversion")
    nvcc = choice.chosen(tools.get("nvccs") or [], environment.get("cuda"))
    return {
        "gcc": gcc,
        "gxx": version(host, "g++", "-dumpfullversion", "-dumpversion"),
        "ninja": ninja(host, environment),
        "python_headers": distributions.python_headers(host, environment["path"], environment.get("python_version")),
        "key": key(environment, nvcc, gcc),
        "record": host.read_json(RECORD),
        "record_file": RECORD,
    }


def key(environment: dict[str, Any], nvcc: dict[str, Any] | None, gcc: str | None) -> dict[str, str | None]:
    """What a compile probe proves something about. A record of it counts while its key equals this one.

    environment: the facts of link torch. nvcc: the compiler of _chain.nvcc.chosen. gcc: its full version.
    """
    return {
        "torch": environment.get("version"),
        "cuda": environment.get("cuda"),
        "nvcc": nvcc["version"] if nvcc else None,
        "gcc": gcc,
        "glibc": base.glibc(),
        "python": environment.get("python_version"),
    }


def version(host: Host, program: str, *arguments: str) -> str | None:
    path = host.which(program)
    done = host.run(path, *arguments) if path else None
    return done.stdout.strip() or None if done and done.status == 0 else None


def ninja(host: Host, environment: dict[str, Any]) -> str | None:
    """The version of the ninja that a build would find: the environment's own, else the system's."""
    own = f"{environment['path']}/bin/ninja"
    path = own if host.executable(own) else host.which("ninja")
    done = host.run(path, "--version") if path else None
    return done.stdout.strip() or None if done and done.status == 0 else None
