# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the command line of ``fast_path_proof.py``, and the other end of ``child.run``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import binding, config, families, report, verdict

_EXIT = {"ok": 0, "not_applicable": 0, "unknown": 3}
_NOT_WRITTEN = 4


def answer(request: Mapping[str, Any], give_up: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
    """Serve one request: ``action`` census, binding or proof. A bad config is an answer too.

    ``give_up`` takes the report of a proof that hangs, from another thread; it must end the process.
    """
    try:
        model = config.load(request.get("model"), request.get("family"))
    except config.ConfigError as error:
        return {"state": "unknown", "sentence": str(error), "error": str(error)}
    action = request.get("action", "proof")
    if action == "census":
        return families.census(model)
    if action == "binding":
        return binding.observe(model)
    return verdict.prove(model, request, sys.stderr, give_up)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="fast_path_proof.py",
        description="Prove that the fast path of a model's layers is bound, right and fast in this interpreter.",
        epilog="Exit status: 0 proven, 1 not, 2 wrong use, 3 unknown (no GPU, or a model that is not known here), "
        "4 the report could not be written.",
    )
    what = p.add_mutually_exclusive_group()
    what.add_argument("--model", metavar="DIR", help="model folder or config.json (no weights are read)")
    what.add_argument("--family", metavar="NAME", help="prove with a small built-in model of this family instead")
    p.add_argument("--only", choices=("census", "binding"), help="stop after counting layers or after the binding")
    p.add_argument(
        "--lengths", metavar="N,N", type=_lengths, default="4096,16384", help="sequence lengths to time (%(default)s)"
    )
    p.add_argument("--triton-cache", metavar="DIR", help="Triton cache folder that the training user shares")
    p.add_argument("--cpu-only", action="store_true", help="this machine has no GPU on purpose")
    p.add_argument("--quick", action="store_true", help="one precision and the shorter length alone")
    p.add_argument("--limit", type=_limit, default=verdict.LIMIT_S, help="seconds for all of it (%(default)s)")
    p.add_argument("--jobs", type=_jobs, help="threads that compile kernels (default: one a processor, 16 at most)")
    p.add_argument(
        "--wanted-ratio", type=_ratio, help="how many times as fast training has to be (default: what suits the family)"
    )
    p.add_argument(
        "--seed", type=_seed, help="of the random weights and inputs, to repeat a proof (default: a fresh one)"
    )
    form = p.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the whole report as JSON")
    form.add_argument("--prometheus", action="store_true", help="print the figures as Prometheus text")
    p.add_argument("--request-on-stdin", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--answer-fd", type=int, help=argparse.SUPPRESS)
    return p


def _lengths(text: str) -> list[int]:
    try:
        return config.lengths(word for word in text.split(",") if word.strip())
    except config.ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _between(kind: Callable[[str], Any], low: float, high: float) -> Callable[[str], Any]:
    """A number from ``low`` to ``high``; so it is neither infinite nor no number."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"it takes a number from {low:g} to {high:g}, not {text!r}")
        return value

    return read


_limit = _between(float, 1, 86400)
_jobs = _between(int, 1, 1024)
_ratio = _between(float, 0, 1000)
_seed = _between(int, 0, 2**32 - 1)


def main(argv: list[str] | None = None) -> int:
    """Run and print; the exit status says the verdict."""
    options = parser().parse_args(argv)
    if options.request_on_stdin:
        stream = os.fdopen(options.answer_fd, "w")

        def send(found: Mapping[str, Any]) -> int:
            json.dump(found, stream, default=str)
            stream.close()
            return 0

        return send(answer(json.load(sys.stdin), _ending(send)))
    if sys.stdout is None:
        parser().error("stdout is closed, so the report could not be written anywhere")
    if options.triton_cache:
        # Who names a folder here means it, whatever the shell's environment says.
        os.environ["TRITON_CACHE_DIR"] = options.triton_cache
    names = ("model", "family", "lengths", "triton_cache", "cpu_only", "quick", "limit", "jobs", "wanted_ratio", "seed")
    request = {"action": options.only or "proof", **{name: getattr(options, name) for name in names}}

    def worded(found: Mapping[str, Any]) -> str:
        if options.json:
            return json.dumps(found, indent=2, sort_keys=True, default=str) + "\n"
        return report.prometheus(found) if options.prometheus else report.text(found) + "\n"

    # Libraries may print what they like: their stdout becomes stderr, the real one is for the report alone.
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2 if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY), 1)

    def show(found: Mapping[str, Any]) -> int:
        with os.fdopen(os.dup(kept), "w") as stream:
            stream.write(worded(found))
        return _EXIT.get(found.get("state", ""), 1)

    try:
        found = answer(request, _ending(show))
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
    status = _EXIT.get(found.get("state", ""), 1)
    return status if _written(worded(found)) else _NOT_WRITTEN


def _written(text: str) -> bool:
    """Write the report. A reader that has gone away wants no more of it, and hears of no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        # What is left in the buffer must not fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return True
        if sys.stderr is not None:
            sys.stderr.write(f"The report cannot be written to stdout: {getattr(error, 'strerror', None) or error}.\n")
        return False
    return True


def _ending(show: Callable[[Mapping[str, Any]], int]) -> Callable[[dict[str, Any]], None]:
    """Hands a report over and ends the process at once: for when another thread hangs and will not be ended."""

    def end(found: dict[str, Any]) -> None:
        status = 1
        try:
            status = show(found)
        finally:
            os._exit(status)

    return end
