# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Triton's autotuner under a proof: one configuration where only the result counts, all of them where time does.

The tests run against a stand-in with the part of Triton that is used, and, where triton can be imported, against its
own Autotuner with a kernel that is a Python function: neither needs a GPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.progress import Expired, Progress
from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.tuning import (
    compiled_ahead,
    first_valid,
    processors,
)


class Kernel:
    """A kernel that notes the configurations it is run with; those of ``broken`` widths do not fit the GPU."""

    arg_names = ["x", "width"]

    def __init__(self, out_of_resources: type[Exception], broken: tuple[int, ...] = ()) -> None:
        def kernel(x: Any, width: int) -> None:
            """What the autotuner takes the name from."""

        self.fn, self.error, self.broken = kernel, out_of_resources, broken
        self.ran: list[int] = []
        self.warmed: list[int] = []
        self.__name__, self.cache_key = "kernel", "key"

    def run(self, x: Any, *, width: int, warmup: bool, **_options: Any) -> str:
        if warmup:
            self.warmed.append(width)
            return "compiled"
        if width in self.broken:
            raise self.error(1, 0, "shared memory")
        self.ran.append(width)
        return f"{x} {width}"


class StandIn:
    """triton.runtime.autotuner.Autotuner as far as it is used here, as in 3.6."""

    def __init__(self, fn: Any, arg_names: list[str], configs: list[Any], key: list[str], *_rest: Any) -> None:
        self.fn, self.arg_names, self.configs, self.base_fn = fn, arg_names, configs, fn.fn
        self.cache: dict[Any, Any] = {}
        self.nargs: Any = None

    def prune_configs(self, kwargs: Any) -> list[Any]:
        return self.configs

    def _bench(self, *args: Any, config: Any, **meta: Any) -> float:
        try:
            self.fn.run(*args, **{**meta, **config.all_kwargs()})
        except self.fn.error:
            return float("inf")
        return 1.0 / config.kwargs["width"]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args))
        key = args
        if len(self.configs) > 1 and key not in self.cache:
            timings = {c: self._bench(*args, config=c, **kwargs) for c in self.prune_configs(kwargs)}
            self.cache[key] = min(timings, key=lambda c: timings[c])
        config = self.cache.get(key, self.configs[0])
        return self.fn.run(*args, **{**kwargs, **config.all_kwargs()})


class Config:
    def __init__(self, kwargs: dict[str, Any], pre_hook: Any = None) -> None:
        self.kwargs, self.pre_hook = kwargs, pre_hook

    def all_kwargs(self) -> dict[str, Any]:
        return dict(self.kwargs)


class Mode:
    """triton.AsyncCompileMode, without its threads; ``entered`` counts."""

    entered = 0

    def __init__(self, executor: Any, *, ignore_errors: bool = False) -> None:
        assert ignore_errors

    def __enter__(self) -> Mode:
        Mode.entered += 1
        return self

    def __exit__(self, *_caught: object) -> None:
        return None


class OutOfResources(Exception):
    pass


class Triton:
    """What a test needs of the triton that it runs against."""

    def __init__(self, autotuner: Any, config: Any, error: type[Exception], real: bool) -> None:
        self.autotuner, self.config, self.error, self.real = autotuner, config, error, real

    def tuned(self, *widths: int, broken: tuple[int, ...] = (), pre_hook: Any = None) -> tuple[Any, Kernel]:
        kernel = Kernel(self.error, broken)
        configs = [self.config({"width": w}, pre_hook=pre_hook) for w in widths]
        made = self.autotuner(kernel, kernel.arg_names, configs, [], None, None)
        if self.real:
            made._do_bench = lambda call, quantiles: call() or [1.0 / kernel.ran[-1]] * 3
        return made, kernel


@pytest.fixture(params=["stand-in", "triton"])
def triton(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Triton]:
    Mode.entered = 0
    if request.param == "triton":
        if importlib.util.find_spec("triton") is None:
            pytest.skip("triton is not installed here")
        real = importlib.import_module("triton")
        no_room = importlib.import_module("triton.runtime.errors").OutOfResources
        monkeypatch.setattr(real, "AsyncCompileMode", Mode)
        autotuner = real.runtime.autotuner.Autotuner
        kept = autotuner.run, autotuner.prune_configs, autotuner._bench
        yield Triton(autotuner, real.Config, no_room, real=True)
        assert (autotuner.run, autotuner.prune_configs, autotuner._bench) == kept
        return
    kept = StandIn.run, StandIn.prune_configs, StandIn._bench
    modules = {
        "triton": types.ModuleType("triton"),
        "triton.runtime": types.ModuleType("triton.runtime"),
        "triton.runtime.autotuner": types.ModuleType("triton.runtime.autotuner"),
        "triton.runtime.errors": types.ModuleType("triton.runtime.errors"),
    }
    modules["triton"].AsyncCompileMode = Mode  # type: ignore[attr-defined]
    modules["triton.runtime.autotuner"].Autotuner = StandIn  # type: ignore[attr-defined]
    modules["triton.runtime.errors"].OutOfResources = OutOfResources  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    yield Triton(StandIn, Config, OutOfResources, real=False)
    assert (StandIn.run, StandIn.prune_configs, StandIn._bench) == kept


def call(tuner: Any, x: str = "a") -> Any:
    return tuner.run(x, grid=(1,), warmup=False)


def test_one_configuration_is_run_and_none_is_timed(triton: Triton) -> None:
    tuner, kernel = triton.tuned(16, 32, 64)
    with first_valid(Progress()):
        assert call(tuner) == "a 16"
        assert call(tuner, "b") == "b 16"
    assert kernel.ran == [16, 16]


def test_a_configuration_that_does_not_fit_gives_way_to_the_next_which_is_kept(triton: Triton) -> None:
    tuner, kernel = triton.tuned(16, 32, 64, broken=(16,))
    with first_valid(Progress()):
        assert call(tuner) == "a 32"
        kernel.broken = ()
        assert call(tuner) == "a 32"


def test_when_none_fits_the_kernels_own_exception_is_raised(triton: Triton) -> None:
    tuner, _kernel = triton.tuned(16, 32, broken=(16, 32))
    with first_valid(Progress()), pytest.raises(triton.error):
        call(tuner)


def test_another_exception_is_not_swallowed(triton: Triton) -> None:
    tuner, kernel = triton.tuned(16, 32, broken=(16,))
    kernel.error = lambda *_: ZeroDivisionError("a bug")  # type: ignore[assignment,return-value]
    with first_valid(Progress()), pytest.raises(ZeroDivisionError):
        call(tuner)


def test_the_autotuner_learns_nothing_and_tunes_afterwards(triton: Triton) -> None:
    tuner, _kernel = triton.tuned(16, 32, 64)
    with first_valid(Progress()):
        call(tuner)
    assert tuner.cache == {}
    assert call(tuner) == "a 64"


def test_a_configurations_hook_sees_its_arguments(triton: Triton) -> None:
    seen: list[dict[str, Any]] = []
    tuner, _kernel = triton.tuned(16, 32, pre_hook=seen.append)
    with first_valid(Progress()):
        call(tuner)
    assert [(s["x"], s["width"]) for s in seen] == [("a", 16)]


def test_all_configurations_are_compiled_once_before_they_are_timed(triton: Triton) -> None:
    tuner, kernel = triton.tuned(16, 32, 64)
    with compiled_ahead(Progress(), jobs=2):
        assert call(tuner) == "a 64"
        assert call(tuner) == "a 64"
    assert kernel.warmed == [16, 32, 64] and Mode.entered == 1
    assert kernel.ran == [16, 32, 64, 64, 64]


def test_a_configuration_with_a_hook_is_left_to_the_autotuner(triton: Triton) -> None:
    tuner, kernel = triton.tuned(16, 32, pre_hook=lambda _arguments: None)
    with compiled_ahead(Progress(), jobs=2):
        assert call(tuner) == "a 32"
    assert kernel.warmed == []


def test_a_compile_that_fails_ahead_is_left_to_the_autotuner(triton: Triton, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_args: Any, **_more: Any) -> None:
        raise RuntimeError("no threads here")

    monkeypatch.setattr(sys.modules["triton"], "AsyncCompileMode", failing)
    tuner, _kernel = triton.tuned(16, 32)
    with compiled_ahead(Progress(), jobs=2):
        assert call(tuner) == "a 32"


@pytest.mark.parametrize("around", [first_valid, compiled_ahead])
def test_the_time_limit_holds_between_kernels(triton: Triton, around: Any) -> None:
    tuner, kernel = triton.tuned(16, 32)
    with pytest.raises(Expired), around(Progress(-1.0)):
        call(tuner)
    assert kernel.ran == []


@pytest.mark.parametrize("around", [first_valid, compiled_ahead])
def test_without_triton_nothing_changes(around: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setitem(sys.modules, "triton.runtime.autotuner", None)
    with around(Progress()):
        pass


def test_processors_are_those_this_process_may_use() -> None:
    assert processors() >= 1
