# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: Triton's autotuner, kept from costing minutes where a proof does not need it.

An autotuned kernel compiles and times dozens of configurations for each new set of sizes, number types and flags.
Whether a kernel is right does not hang on the fastest of them: ``first_valid`` runs one. Where time is measured, all
of them are needed: ``compiled_ahead`` compiles them side by side before the autotuner times them one by one.

Both replace methods of ``triton.runtime.autotuner.Autotuner`` (3.0 to 3.9 have the same names) for a while.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from .progress import Progress

_MOST_JOBS = 16


def _autotuner(*methods: str) -> Any:
    """Triton's class, or None when there is no triton here or a method has another name in it."""
    try:
        found = importlib.import_module("triton.runtime.autotuner").Autotuner
    except Exception:
        return None
    return found if all(callable(getattr(found, name, None)) for name in methods) else None


def _unusable() -> tuple[type[BaseException], ...]:
    """What Triton raises for a configuration that this GPU cannot run: the autotuner skips those too."""
    found = []
    for module, name in (
        ("triton.runtime.errors", "OutOfResources"),
        ("triton.runtime.errors", "PTXASError"),
        ("triton.compiler.errors", "CompileTimeAssertionFailure"),
    ):
        try:
            found.append(getattr(importlib.import_module(module), name))
        except (ImportError, AttributeError):
            continue
    return tuple(found)


@contextmanager
def first_valid(progress: Progress) -> Iterator[None]:
    """Within it each kernel runs with its first configuration that this GPU can run, and nothing is timed.

    Neither the autotuner's memory nor its cache on disk learns of it: later calls tune as ever. A kernel that was
    tuned before for the same key keeps what it was tuned to only outside.
    """
    tuner = _autotuner("run", "prune_configs")
    if tuner is None:
        yield
        return
    original = tuner.run
    unusable = _unusable()
    chosen: dict[int, Any] = {}

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        progress.check()
        if len(self.configs) < 2:
            return original(self, *args, **kwargs)
        self.nargs = dict(zip(self.arg_names, args))
        try:
            configs = list(self.prune_configs(kwargs))
            kept = chosen.get(id(self))
            configs.sort(key=lambda config: config is not kept)
            for position, config in enumerate(configs):
                meta = {**kwargs, **config.all_kwargs()}
                try:
                    if config.pre_hook is not None:
                        config.pre_hook({**self.nargs, **meta})
                    result = self.fn.run(*args, **meta)
                except unusable:
                    if position + 1 == len(configs):
                        raise
                    continue
                chosen[id(self)] = self.best_config = config
                return result
        finally:
            self.nargs = None

    tuner.run = run
    try:
        yield
    finally:
        tuner.run = original


@contextmanager
def compiled_ahead(progress: Progress, jobs: int | None = None) -> Iterator[None]:
    """Within it an autotuner that is about to time its configurations has them compiled by ``jobs`` threads first.

    Triton compiles outside Python's lock (MLIR passes, ptxas), so that threads help. A configuration that cannot be
    compiled is left to the autotuner, which knows what to do about it. Without ``triton.AsyncCompileMode`` (3.5 on)
    the configurations are compiled one by one, as ever.
    """
    tuner = _autotuner("run", "prune_configs", "_bench")
    if tuner is None:
        yield
        return
    mode = getattr(importlib.import_module("triton"), "AsyncCompileMode", None)
    jobs = jobs or min(_MOST_JOBS, processors())
    original, prune, bench = tuner.run, tuner.prune_configs, tuner._bench
    pruned: dict[int, list[Any]] = {}

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        progress.check()
        start = time.monotonic()
        pruned.pop(id(self), None)
        result = original(self, *args, **kwargs)
        seconds = time.monotonic() - start
        if id(self) in pruned and seconds > 0.5:
            progress.write(f"{_name(self)}: {len(pruned[id(self)])} configurations in {seconds:.1f} s")
        return result

    def prune_configs(self: Any, kwargs: Any) -> Any:
        found = prune(self, kwargs)
        pruned[id(self)] = list(found)
        waiting.add(id(self))
        return found

    waiting: set[int] = set()

    def _bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        progress.check()
        if id(self) in waiting:
            waiting.discard(id(self))
            progress.step = f"compiling {_name(self)}"
            _compile(mode, executor, self, pruned[id(self)], args, meta)
            progress.step = f"timing {_name(self)}"
        return bench(self, *args, config=config, **meta)

    with ThreadPoolExecutor(jobs, "compile") as executor:
        tuner.run, tuner.prune_configs, tuner._bench = run, prune_configs, _bench
        try:
            yield
        finally:
            tuner.run, tuner.prune_configs, tuner._bench = original, prune, bench


def _compile(
    mode: Callable[..., Any] | None, executor: ThreadPoolExecutor, tuner: Any, configs: list[Any], args: Any, meta: Any
) -> None:
    """Compile these configurations of one kernel side by side. What fails here fails again, and better said, later."""
    if mode is None or len(configs) < 2:
        return
    try:
        with mode(executor, ignore_errors=True):
            for config in configs:
                if config.pre_hook is None:
                    tuner.fn.run(*args, **{**meta, **config.all_kwargs(), "warmup": True})
    except Exception:
        return


def _name(tuner: Any) -> str:
    return str(getattr(getattr(tuner, "base_fn", None), "__name__", "a kernel"))


def processors() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1
