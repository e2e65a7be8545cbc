# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Turn an extension's sources into a wheel for the wanted GPU targets, and say meanwhile how far it is."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import os
import re
import sys
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _nvcc_wrapper
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_errors import Build, Cause, classify
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_jobs import Parallel, oom_kills
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import (
    Finished,
    read_log,
    run_logged,
    write_json,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import Description
from ansible_collections.proxmox_gpu.training.plugins.module_utils._gpu_targets import split_target

LOW_PRIORITY = ("nice", "-n", "19", "ionice", "-c", "3")
"""Processor and disk only when nobody else wants them."""


class BuildError(Exception):
    """The build failed. ``cause`` says why."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.sentence)
        self.cause = cause


@dataclasses.dataclass(frozen=True)
class Built:
    """A wheel and how it came to be: seconds, jobs, and each source's seconds and peak memory."""

    wheel: str
    seconds: float
    jobs: int
    sources: dict[str, dict[str, t.Any]]


class Progress:
    """What a build is at, written to a file that the waiting side reads."""

    def __init__(self, path: str, what: str) -> None:
        self.path, self.what = path, what
        self.last: dict[str, t.Any] = {}
        self.estimate: float | None = None
        self.kills = oom_kills()

    def __call__(self, phase: str, **details: t.Any) -> None:
        self.last = {
            "what": self.what,
            "phase": phase,
            "pid": os.getpid(),
            "estimate": self.estimate,
            "kills": self.kills,
        }
        self.last.update(details)
        with contextlib.suppress(OSError):  # nobody's build ends because what it is at cannot be shown
            write_json(self.path, self.last)

    def done(self) -> None:
        if os.path.exists(self.path):
            os.unlink(self.path)


def build_wheel(
    build: Build,
    description: Description,
    targets: t.Sequence[str],
    parallel: Parallel,
    environment: t.Mapping[str, str],
    source: str,
    folder: str,
    log: str,
    timeout: float,
    progress: Progress,
    low_priority: bool = False,
) -> Built:
    """Build the unpacked sources below ``folder``. Raises BuildError with the cause. The log is appended to."""
    events = os.path.join(folder, "progress.jsonl")
    wheels = os.path.join(folder, "wheels")
    variables = {
        **environment,
        **description.variables,
        **target_variables(description, targets),
        "MAX_JOBS": str(parallel.jobs),
        "PYTORCH_NVCC": write_wrapper(folder),
        "PROXMOX_GPU_NVCC": f"{build.cuda_home}/bin/nvcc",
        "PROXMOX_GPU_TARGETS": " ".join(targets),
        "PROXMOX_GPU_THREADS": str(parallel.threads),
        "PROXMOX_GPU_PROGRESS": events,
    }
    command = [build.python, "-m", "pip", "wheel", "--verbose", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    command += ["--no-index", "--disable-pip-version-check", "--wheel-dir", wheels, source]
    command = [*(LOW_PRIORITY if low_priority else ()), *command]

    def tick(seconds: float) -> None:
        progress(
            "compiling", elapsed=round(seconds), jobs=parallel.jobs, **how_far(source, events), targets=list(targets)
        )

    finished = run_logged(command, variables, folder, log, timeout, tick, 2.0)
    cause = why(finished, build, log, timeout)
    if cause:
        raise BuildError(cause)
    found = [name for name in sorted(os.listdir(wheels)) if name.endswith(".whl")]
    if not found:
        raise BuildError(Cause("no_wheel", f"{build.what}: the build ended well and left no wheel", ""))
    sources = {
        event["source"]: {"seconds": event["seconds"], "memory": event["memory"]}
        for event in read_events(events)
        if event["event"] == "end"
    }
    return Built(os.path.join(wheels, found[0]), round(finished.seconds, 1), parallel.jobs, sources)


def why(finished: Finished, build: Build, log: str, timeout: float) -> Cause | None:
    """Why the build is no good; None if it is."""
    if finished.timed_out:
        sentence = f"{build.what}: the build was not done after {timeout:.0f} seconds (cuda_extensions_build_timeout)"
        return Cause("timeout", sentence, "")
    if finished.status == 0:
        return None
    cause = classify(read_log(log), build, finished.starved)
    if cause.id == "unknown" and (finished.status < 0 or finished.status in (130, 143)):
        number = -finished.status if finished.status < 0 else finished.status - 128
        return Cause("ended", f"{build.what}: somebody ended the build (signal {number}); run it again", "")
    return cause


def target_variables(description: Description, targets: t.Sequence[str]) -> dict[str, str]:
    """The wanted targets in the spelling of torch's own switch and of the extension's, for setups that read one."""
    numbers = [split_target(target) for target in targets]
    spelled = [f"{major}.{minor}{suffix}{'+PTX' * (kind == 'compute')}" for kind, major, minor, suffix in numbers]
    variables = {"TORCH_CUDA_ARCH_LIST": ";".join(spelled)} if spelled else {}
    if description.targets_variable and numbers:
        plain = sorted({f"{major}{minor}" for _kind, major, minor, _suffix in numbers}, key=int)
        variables[description.targets_variable] = ";".join(plain)
    return variables


def write_wrapper(folder: str) -> str:
    """Put the program that stands in for nvcc into ``folder``; its path. It runs with the Python that runs us."""
    path = os.path.join(folder, "nvcc")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(f"#!{sys.executable} -I\n{inspect.getsource(_nvcc_wrapper)}")
    os.chmod(path, 0o755)
    return path


def how_far(source: str, events: str) -> dict[str, t.Any]:
    """{compiling: [sources], done, total}: from the events of the nvcc stand-in and the objects that ninja has made.

    total: what the ninja files name, 0 until they are written.
    """
    begun, ended = [], set()
    for event in read_events(events):
        if event["event"] == "begin":
            begun.append(event["source"])
        else:
            ended.add(event["source"])
    objects = [name for path in ninja_files(source) for name in objects_of(path)]
    done = sum(os.path.exists(name) for name in objects)
    return {"compiling": [name for name in begun if name not in ended], "done": done, "total": len(objects)}


def ninja_files(source: str) -> list[str]:
    found = []
    for folder, _folders, names in os.walk(os.path.join(source, "build")):
        found += [os.path.join(folder, name) for name in names if name == "build.ninja"]
    return found


def objects_of(path: str) -> list[str]:
    """The object files that a ninja file makes from sources."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return re.findall(r"^build (\S+\.o): (?:compile|cuda_compile)\b", stream.read(), re.MULTILINE)
    except OSError:
        return []


def read_events(path: str) -> list[dict[str, t.Any]]:
    """The lines that the nvcc stand-in has written; a line that is being written is left for the next time."""
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return []
    events = []
    for line in lines:
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events
