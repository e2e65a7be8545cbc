#!/usr/bin/env python3
# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove one GPU machine in the states that decide whether the verdict is right, and write them down.

    states.py --packages DIR --out DIR [--states none,fla060,...] [--quick] [--triton-cache DIR] [--repeat]

DIR holds wheels: fla_core 0.6.0 and 0.4.1, and causal_conv1d for this Python and torch (states that need it are left
out without it). Each state is a folder of unpacked wheels put on PYTHONPATH of the machine's own python3.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# State -> (packages, words that its verdict must hold, state of the verdict).
STATES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "none": ((), ("none of 4 functions is bound",), "absent"),
    "fla060": (("fla_core-0.6.0",), ("2 of 4", "backward refuses", "triton to 3.7.1"), "broken"),
    "fla041": (("fla_core-0.4.1",), ("2 of 4", "causal_conv1d_fn", "no module 'causal_conv1d'"), "absent"),
    "conv_fla041": (("causal_conv1d", "fla_core-0.4.1"), ("All 4 functions are bound", "are right"), "ok"),
    "conv_fla060": (("causal_conv1d", "fla_core-0.6.0"), ("All 4", "backward refuses", "triton to 3.7.1"), "broken"),
    "half_conv": (("half", "fla_core-0.4.1"), ("3 of 4", "causal_conv1d_update", "half a package"), "broken"),
    "broken_conv": (("broken", "fla_core-0.4.1"), ("2 of 4", "undefined symbol"), "broken"),
}


def unpack(wheels: Path, name: str, into: Path) -> bool:
    """Unpack a wheel, or make the damaged copy of causal-conv1d that ``name`` asks for; False when it is not there."""
    wanted = {"half": "causal_conv1d", "broken": "causal_conv1d"}.get(name, name)
    found = sorted(wheels.glob(f"{wanted}-*.whl")) or sorted(wheels.glob(f"{wanted}*.whl"))
    if not found:
        return False
    with zipfile.ZipFile(found[-1]) as archive:
        archive.extractall(into)
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


def prove(program: Path, packages: Path, options: argparse.Namespace, cache: Path) -> dict[str, Any]:
    command = [sys.executable, str(program), "--model", str(options.model), "--json", "--triton-cache", str(cache)]
    command += ["--quick"] if options.quick else []
    environment = {**os.environ, "PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1"}
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.limit)
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired as expired:
        said = (expired.stderr or b"").decode(errors="replace")[-1500:]
        report = {"state": "unknown", "sentence": f"no answer within {options.limit} s: {said}"}
    except ValueError:
        report = {"state": "unknown", "sentence": f"no answer, exit {done.returncode}: {done.stderr[-1500:]}"}
    report["wall_s"] = round(time.monotonic() - start, 1)
    return dict(report)


def line(name: str, report: dict[str, Any], expected: tuple[str, ...], state: str) -> str:
    missing = [word for word in expected if word.lower() not in report["sentence"].lower()]
    right = "as expected" if not missing and report["state"] == state else f"EXPECTED {state} {missing}"
    text = [f"{name:12} {report['state']:8} {report['wall_s']:6.1f} s  {right}", f"    {report['sentence']}"]
    for gpu in report.get("gpus", []):
        for row in (gpu.get("fast") or {}).get("rows", []):
            text.append(
                f"    GPU {gpu['index']} {row['path']:9} {row['tokens']:6}: forward {row['forward_ms']} ms, training "
                f"{row['training_ms']} ms, peak {row['peak_bytes'] / 1e9:.2f} GB, warm-up {row['warm_up_s']} s"
            )
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=HERE / "qwen3_5_27b.json")
    parser.add_argument("--states", default=",".join(STATES))
    parser.add_argument("--triton-cache", type=Path, help="a .tar.gz to start from, when it is there")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeat", help="this state once more at the end: the warm time")
    parser.add_argument("--limit", type=float, default=280, help="seconds a state")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    reports: dict[str, Any] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        cache = work / "triton"
        cache.mkdir()
        if options.triton_cache and options.triton_cache.exists():
            shutil.unpack_archive(options.triton_cache, cache)
        archive(work / "fast_path_proof.py")
        names = [n for n in options.states.split(",") if n] + ([options.repeat] if options.repeat else [])
        for position, name in enumerate(names):
            packages, words, state = STATES[name]
            folder = work / f"{position}_{name}"
            folder.mkdir()
            if not all(unpack(options.packages, package, folder) for package in packages):
                print(f"{name:12} left out: a wheel is not there", flush=True)
                continue
            report = prove(work / "fast_path_proof.py", folder, options, cache)
            key = name if name not in reports else name + "_again"
            reports[key] = report
            text = line(key, report, words, state)
            wrong += "EXPECTED" in text
            print(text, flush=True)
            (options.out / "states.json").write_text(json.dumps(reports, indent=1, default=str))
        shutil.make_archive(str(options.out / "triton_cache"), "gztar", cache)
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main())
