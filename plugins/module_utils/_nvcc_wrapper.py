# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Stands between a build and nvcc (torch runs what PYTORCH_NVCC names): compiles for the wanted GPU targets alone.

Extensions hard-code their targets and ignore TORCH_CUDA_ARCH_LIST (causal-conv1d: nine, half an hour in place of six
minutes). What changes no machine code is dropped as well: line information and ptxas's statistics cost a sixth of the
time and half of the wheel. Each source's begin, end and peak memory go to a progress file, which is how a person sees
that a build of minutes is alive.

This file is its own program too: it is copied beside the build and run there, so it imports nothing of the collection.
Settings come by environment: PROXMOX_GPU_NVCC (the real one), _TARGETS ("sm_90 compute_90"), _THREADS, _PROGRESS (a
file).
"""

# It is a program of its own, with no module around it.
# pylint: disable=ansible-bad-function

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time

TARGET_SWITCHES = ("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code")
THREAD_SWITCHES = ("-t", "--threads", "-threads")
COMPILES = (
    "-c",
    "--compile",
    "-dc",
    "--device-c",
    "-dw",
    "--device-w",
    "-dlink",
    "--device-link",
    "-ptx",
    "-cubin",
    "-fatbin",
)
DROPPED = ("-lineinfo", "--generate-line-info", "--ptxas-options=-v", "-Xptxas=-v", "--resource-usage", "-res-usage")


def rewrite(arguments: list[str], targets: list[str], threads: int) -> list[str]:
    """nvcc's arguments with the wanted targets in place of the given ones.

    A call that compiles nothing (--version) stays as it is. Targets are set, not filtered: a wanted target that the
    extension does not list (sm_89) is compiled for as well.
    """
    if not any(argument in COMPILES for argument in arguments):
        return arguments
    kept, rest = [], list(arguments)
    while rest:
        argument = rest.pop(0)
        switch = argument.split("=", 1)[0]
        if switch in TARGET_SWITCHES + THREAD_SWITCHES:
            if "=" not in argument and rest:
                rest.pop(0)
        elif argument in ("-Xptxas", "--ptxas-options") and rest and rest[0] in ("-v", "--verbose"):
            rest.pop(0)
        elif argument not in DROPPED:
            kept.append(argument)
    for target in targets:
        virtual = "compute_" + target.split("_", 1)[1]
        kept += ["-gencode", f"arch={virtual},code={target}"]
    return kept + (["--threads", str(threads)] if threads > 1 else [])


def source_of(arguments: list[str]) -> str:
    """The name of the file that a call compiles; empty if it compiles none."""
    names = [argument for argument in arguments if argument.endswith((".cu", ".cpp", ".cc", ".cxx", ".c"))]
    return os.path.basename(names[-1]) if names else ""


def report(path: str, **event: object) -> None:
    """Append one line of JSON; a single write, so that lines of parallel processes never mix."""
    if path:
        line = json.dumps({"time": time.time(), **event}) + "\n"
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(line)


def main() -> int:
    nvcc, progress = os.environ["PROXMOX_GPU_NVCC"], os.environ.get("PROXMOX_GPU_PROGRESS", "")
    targets = os.environ["PROXMOX_GPU_TARGETS"].split()
    arguments = rewrite(sys.argv[1:], targets, int(os.environ.get("PROXMOX_GPU_THREADS", "1")))
    source = source_of(arguments)
    if not source:
        os.execv(nvcc, [nvcc, *arguments])
    report(progress, event="begin", source=source, pid=os.getpid())
    started = time.monotonic()
    # By its full path as argv[0]: nvcc looks for its profile, and with it for cub and thrust, beside that name.
    status = subprocess.call([nvcc, *arguments], stdin=subprocess.DEVNULL)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    seconds = round(time.monotonic() - started, 1)
    report(progress, event="end", source=source, status=status, seconds=seconds, memory=memory)
    if status < 0:
        print(f"nvcc error   : died due to signal {-status} ({signal.Signals(-status).name})", file=sys.stderr)
        return 128 - status
    return status


if __name__ == "__main__":
    sys.exit(main())
