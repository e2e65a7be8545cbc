#!/usr/bin/env python3
# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove one GPU machine in the states that decide whether the verdict is right, and write them down.

    states.py --packages DIR --out DIR [--states conv_fla041,...] [--budget SECONDS] [--quick] [--triton-cache FILE]

DIR holds wheels: fla_core 0.6.0 and 0.4.1, and causal_conv1d for this Python and torch (states that need it are left
out without it). Each state is a folder of unpacked wheels put on PYTHONPATH of the machine's own python3. A state may
be named twice: the second time its kernels are compiled already, since all states share one Triton cache.

Written as soon as a state is done: states.json, and progress.txt with what each proof said on stderr; at the end, also
when the budget ends or SIGTERM comes, triton_cache.tar.gz.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# State -> (packages, words that its verdict must hold, state of the verdict).
STATES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "conv_fla041": (("causal_conv1d", "fla_core-0.4.1"), ("All 4 functions are bound", "are right"), "ok"),
    "fla041": (("fla_core-0.4.1",), ("2 of 4", "causal_conv1d_fn", "no module 'causal_conv1d'"), "absent"),
    "fla060": (("fla_core-0.6.0",), ("2 of 4", "backward refuses", "triton to 3.7.1"), "broken"),
    "conv_fla060": (("causal_conv1d", "fla_core-0.6.0"), ("All 4", "backward refuses", "triton to 3.7.1"), "broken"),
    "half_conv": (("half", "fla_core-0.4.1"), ("3 of 4", "causal_conv1d_update", "half a package"), "broken"),
    "broken_conv": (("broken", "fla_core-0.4.1"), ("2 of 4", "undefined symbol"), "broken"),
    "none": ((), ("none of 4 functions is bound",), "absent"),
}
# What is worth most first: the whole fast path cold, then warm, then the others with its kernels.
ORDER = "conv_fla041,conv_fla041,fla041,fla060,conv_fla060,half_conv,broken_conv,none"
# A proof ends by itself this many seconds before it would be killed: its watchdog needs 20 of them.
SPARE_S = 30.0
# Under this a proof cannot say anything.
LEAST_S = 45.0
# Seconds at the end for writing the cache.
ENDING_S = 12.0
# A cached kernel is found by its .json and run from its .cubin; the other forms make the archive five times larger.
NEEDED = (".json", ".cubin", ".so", ".autotune.json")
MOST_BYTES = 15 * 2**20


def unpack(wheels: Path, name: str, into: Path) -> bool:
    """Unpack a wheel, or make the damaged copy of causal-conv1d that ``name`` asks for; False when it is not there."""
    wanted = {"half": "causal_conv1d", "broken": "causal_conv1d"}.get(name, name)
    found = sorted(wheels.glob(f"{wanted}-*.whl")) or sorted(wheels.glob(f"{wanted}*.whl"))
    if not found:
        return False
    with zipfile.ZipFile(found[-1]) as archive:
        archive.extractall(into)
    # As pip does when it installs.
    compileall.compile_dir(into, quiet=2, workers=0)
    if name == "half":
        init = into / "causal_conv1d/__init__.py"
        init.write_text(init.read_text().replace(", causal_conv1d_update", ""))
        assert "causal_conv1d_update" not in init.read_text()
    if name == "broken":
        (library,) = into.glob("causal_conv1d_cuda*.so")
        source = into / "broken.c"
        source.write_text("extern int _ZN3c104cuda29c10_cuda_of_another_torchEv(void);\n")
        with source.open("a") as stream:
            stream.write(
                "int PyInit_causal_conv1d_cuda(void) { return _ZN3c104cuda29c10_cuda_of_another_torchEv(); }\n"
            )
        subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-z,now", "-o", library, source], check=True)
    return True


def archive(path: Path) -> None:
    """The one-file program, made from this checkout."""
    sys.path.insert(0, str(ROOT / "plugins/module_utils"))
    path.write_bytes(importlib.import_module("_fast_path.archive").build(header=True))


def prove(program: Path, packages: Path, options: argparse.Namespace, cache: Path, limit: float) -> dict[str, Any]:
    """One proof in a process of its own, ended after ``limit`` seconds; what it says goes to progress.txt."""
    command = [sys.executable, str(program), "--model", str(options.model), "--json", "--triton-cache", str(cache)]
    command += ["--limit", str(round(limit - SPARE_S))] + (["--quick"] if options.quick else [])
    environment = {**os.environ, "PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    start = time.monotonic()
    said = options.out / "progress.txt"
    with said.open("a") as stream:
        stream.write(f"==== {packages.name}, {limit:.0f} s\n")
        stream.flush()
        place = stream.tell()
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stream, text=True)
        try:
            printed, _none = child.communicate(timeout=limit)
            report = json.loads(printed)
        except subprocess.TimeoutExpired:
            report = {"state": "unknown", "sentence": f"no answer within {limit:.0f} s: {tail(said, place)}"}
        except ValueError:
            report = {"state": "unknown", "sentence": f"no answer, exit {child.returncode}: {tail(said, place)}"}
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    report["wall_s"] = round(time.monotonic() - start, 1)
    return dict(report)


def tail(path: Path, place: int) -> str:
    return path.read_text(errors="replace")[place:][-1500:]


def keep_cache(cache: Path, out: Path) -> str:
    """Write the Triton cache, without what can be left out, to ``out``; says what was done."""
    path = out / "triton_cache.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=6) as archive:
        for file in sorted(cache.rglob("*")):
            if file.is_file() and file.name.endswith(NEEDED):
                archive.add(file, file.relative_to(cache))
    size = path.stat().st_size
    if size > MOST_BYTES:
        path.unlink()
        return f"the Triton cache is too large to keep: {size} bytes"
    return f"Triton cache: {size} bytes"


def line(name: str, report: dict[str, Any], expected: tuple[str, ...], state: str) -> str:
    missing = [word for word in expected if word.lower() not in report["sentence"].lower()]
    right = "as expected" if not missing and report["state"] == state else f"EXPECTED {state} {missing}"
    text = [f"{name:12} {report['state']:8} {report['wall_s']:6.1f} s  {right}", f"    {report['sentence']}"]
    for gpu in report.get("gpus", []):
        for row in (gpu.get("fast") or {}).get("rows", []):
            text.append(
                f"    GPU {gpu['index']} {row['path']:9} {row['tokens']:6}: forward {row['forward_ms']} ms, training "
                f"{row['training_ms']} ms, peak {(row['peak_bytes'] or 0) / 1e9:.2f} GB, warm-up {row['warm_up_s']} s"
            )
        if gpu.get("right"):
            text.append(f"    right in {gpu.get('right_s')} s, fast in {gpu.get('fast_s')} s")
        checks = (gpu.get("right") or {}).get("checks", [])
        for check in checks:
            if check["passed"] is False:
                sizes = (check["forward_error"], check["worst_gradient"], check["gradient_error"])
                text.append(f"    WRONG {check['dtype']} {check['title']}: {check['error'] or sizes}"[:300])
        if checks:
            text.append(f"    {sum(c['passed'] is True for c in checks)} of {len(checks)} checks right")
        for model in (gpu.get("fast") or {}).get("model") or []:
            text.append(f"    whole model: {model}")
    return "\n".join(text)


def main() -> int:
    begun = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--program", type=Path, help="fast_path_proof.py, instead of one made from this checkout")
    parser.add_argument("--model", type=Path, default=HERE / "qwen3_5_27b.json")
    parser.add_argument("--states", default=ORDER)
    parser.add_argument("--triton-cache", type=Path, help="a .tar.gz to start from, when it is there")
    # Triton writes absolute paths into its cache: one that is kept helps only in the folder that it was made in.
    parser.add_argument("--cache-folder", type=Path, default=Path("/tmp/proxmox_gpu_triton"), help="(%(default)s)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--limit", type=float, default=330, help="seconds a state at most (%(default)s)")
    parser.add_argument("--budget", type=float, default=3600, help="seconds for all states (%(default)s)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    # SIGTERM ends the run as an exception, so that the cache is still written and the child ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    reports: dict[str, Any] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        cache = options.cache_folder
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir()
        if options.triton_cache and options.triton_cache.exists():
            shutil.unpack_archive(options.triton_cache, cache)
        program = options.program or work / "fast_path_proof.py"
        if not options.program:
            archive(program)
        try:
            for position, name in enumerate(n for n in options.states.split(",") if n):
                packages, words, state = STATES[name]
                key = name if name not in reports else name + "_again"
                limit = min(options.limit, options.budget - ENDING_S - (time.monotonic() - begun))
                folder = work / f"{position}_{name}"
                folder.mkdir()
                if limit < LEAST_S:
                    print(f"{key:12} left out: {limit:.0f} s are left", flush=True)
                    continue
                try:
                    there = all(unpack(options.packages, package, folder) for package in packages)
                except (OSError, ValueError, AssertionError, subprocess.CalledProcessError) as error:
                    print(f"{key:12} EXPECTED packages that can be unpacked: {error!r}", flush=True)
                    wrong += 1
                    continue
                if not there:
                    print(f"{key:12} left out: a wheel is not there", flush=True)
                    continue
                reports[key] = prove(program, folder, options, cache, limit)
                # Written before it is put into words, so that no figure is lost to a slip there.
                (options.out / "states.json").write_text(json.dumps(reports, indent=1, default=str))
                try:
                    text = line(key, reports[key], words, state)
                except (KeyError, TypeError, ValueError) as error:
                    text = f"{key:12} EXPECTED a whole report: {error!r}"
                wrong += "EXPECTED" in text
                print(text, flush=True)
        finally:
            print(keep_cache(cache, options.out), flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main())
