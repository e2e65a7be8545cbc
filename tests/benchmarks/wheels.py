# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one build for a key is worth: ``make bench-wheels``.

Ten containers of a testbed box (TESTBED_NAME, "bench" by default) with the CUDA toolkit, all of one key, and the tiny
extension of the tests; and one unit of causal-conv1d, compiled as upstream does and as these roles do. What must not
change, the machine code, is compared kernel by kernel. Each time is the wall time of the whole playbook run.

``--part compiler`` or ``--part containers`` measures that part alone and leaves the other figures as they are. The
results go to build/bench/wheels.json: compiles_for_ten, second_host_s, one_target_vs_default, warm_vs_cold, details.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
RESULTS = CHECKOUT / "build" / "bench" / "wheels.json"
FIRST = 700
COUNT = 10
VERSION = "1.7.0"
FOLDER = "/var/tmp/bench"
SOURCES = f"{FOLDER}/causal_conv1d-{VERSION}/csrc"
DEFAULT_TARGETS = ("75", "80", "87", "90", "100", "103", "110", "120", "121")  # its setup's, with CUDA 13
FLAGS = (  # its setup's and torch's own
    "-O3 -std=c++20 -U__CUDA_NO_HALF_OPERATORS__ -U__CUDA_NO_HALF_CONVERSIONS__ -U__CUDA_NO_BFLOAT16_OPERATORS__"
    " -U__CUDA_NO_BFLOAT16_CONVERSIONS__ -U__CUDA_NO_BFLOAT162_OPERATORS__ -U__CUDA_NO_BFLOAT162_CONVERSIONS__"
    " --expt-relaxed-constexpr --expt-extended-lambda --use_fast_math --compiler-options=-fPIC"
)


def seconds_of(call: Callable[[], Any]) -> float:
    began = time.monotonic()
    call()
    return round(time.monotonic() - began, 1)


# ---- the compiler: one target against nine, and the same machine code


def kernels(cubin: bytes) -> dict[str, bytes]:
    """Name of each kernel of a cubin -> its machine code (SASS), from the ELF sections ``.text.<name>``."""
    offset, size, count, names_index = (
        struct.unpack_from("<Q", cubin, 40)[0],
        *struct.unpack_from("<HHH", cubin, 58),
    )
    sections = [struct.unpack_from("<IIQQQQ", cubin, offset + index * size) for index in range(count)]
    names_at = sections[names_index][4]

    def name(at: int) -> str:
        return cubin[names_at + at : cubin.index(b"\0", names_at + at)].decode()

    return {
        name(section[0])[len(".text.") :]: cubin[section[4] : section[4] + section[5]]
        for section in sections
        if name(section[0]).startswith(".text.")
    }


def compiler(container: Any) -> dict[str, Any]:
    """Figures from one container; nothing of it is a build of the whole extension."""
    python, nvcc = "/opt/training/bin/python", "/usr/local/cuda-13.0/bin/nvcc"
    container.run(
        f"mkdir -p {FOLDER} && cd {FOLDER} && export CAUSAL_CONV1D_SKIP_CUDA_BUILD=TRUE CAUSAL_CONV1D_FORCE_BUILD=TRUE"
        f" && {python} -m pip download -q --no-deps --no-build-isolation --no-binary :all: causal-conv1d=={VERSION}"
        " && tar xzf *.gz",
        timeout=300,
    )
    found = container.run(
        f"{python} -c 'import torch.utils.cpp_extension as c; print(*c.include_paths())'", timeout=120
    )
    includes = " ".join(f"-I{path}" for path in found.split())
    includes += " -I$(/opt/training/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"include\"))')"

    def compile_(source: str, result: str, *options: str) -> None:
        words = f"{nvcc} {FLAGS} {includes} {' '.join(options)} {SOURCES}/{source} -o {FOLDER}/{result}"
        container.run(f"cd {SOURCES} && {words}", timeout=900)

    def code(source: str, *options: str) -> dict[str, bytes]:
        compile_(source, "x.cubin", "-cubin", "-arch=sm_90", *options)
        hexadecimal = container.run(f"od -An -v -tx1 {FOLDER}/x.cubin", timeout=120)
        return kernels(bytes.fromhex("".join(hexadecimal.split())))

    one = ("-c", "-gencode", "arch=compute_90,code=sm_90")
    nine: tuple[str, ...] = ("-c", "-lineinfo", "--ptxas-options=-v", "--threads", "4")
    nine += tuple(
        word for number in DEFAULT_TARGETS for word in ("-gencode", f"arch=compute_{number},code=sm_{number}")
    )
    unit = "causal_conv1d_update.cu"
    compile_(unit, "warm.o", *one)
    with_one, with_nine = (
        seconds_of(lambda options=options: compile_(unit, "x.o", *options))  # type: ignore[misc]
        for options in (one, nine)
    )
    plain, with_lines = code(unit), code(unit, "-lineinfo", "--ptxas-options=-v")
    same_lines = plain == with_lines and bool(plain)
    # Of the long unit two instantiations, in one unit and in one each: all 18 take six minutes, and are the same thing.
    text = container.run(f"cat {SOURCES}/causal_conv1d_bwd.cu")
    lines = [line for line in text.splitlines() if re.match(r"template void causal_conv1d_bwd_cuda<", line)][:2]
    body = re.sub(r"(?m)^template void .*$", "", text)
    for name, kept in {"both": lines, "first": lines[:1], "second": lines[1:]}.items():
        container.write(f"{SOURCES}/{name}.cu", body + "\n".join(kept) + "\n")
    both, parts = code("both.cu"), {**code("first.cu"), **code("second.cu")}
    return {
        "unit": unit,
        "one_target_s": with_one,
        "default_targets_s": with_nine,
        "one_target_vs_default": round(with_nine / with_one, 2),
        "same_machine_code": {
            "without_line_info": same_lines,
            "in_parts": both == parts and bool(both),
            "kernels_compared": len(plain) + len(both),
        },
    }


# ---- containers of one key


def compiles(containers: list[Any]) -> int:
    """How often they compiled: the line that pip writes into the log of a build. The log of the builder's installing
    has taken the place of its build's, which is kept beside it."""
    counts = [
        one.run("cat /var/log/proxmox_gpu/tiny-gpu-ops.log* | grep -c 'Successfully built' || true")
        for one in containers
    ]
    return sum(map(int, counts))


def fleet(box: Any, containers: list[Any], snapshot: str) -> dict[str, Any]:
    from tests.integration import role_runs, tiny_extension

    def fresh() -> None:
        for one in containers:
            one.fresh("--from", snapshot)
            tiny_extension.put(one)

    def role(some: list[Any], house: str) -> float:
        wishes = {**tiny_extension.variables(), "cuda_extensions_shared_wheelhouse": house}
        began = time.monotonic()
        outcomes = role_runs.run_role(
            "cuda_extensions", some, {one.vmid: wishes for one in some}, arguments=("--forks", str(COUNT)), timeout=1500
        )
        spent = round(time.monotonic() - began, 1)
        failed = [outcome.sentence for outcome in outcomes.values() if outcome.sentence]
        if failed:
            raise SystemExit(f"the role failed: {failed[0]}")
        return spent

    fresh()
    with tempfile.TemporaryDirectory() as house, tempfile.TemporaryDirectory() as other:
        first, second = role(containers[:1], house), role(containers[1:2], house)
        fresh()
        ten, compiled = role(containers, other), compiles(containers)
        one = containers[0].fresh("--from", snapshot)
        tiny_extension.put(one)
        wishes = {**tiny_extension.variables(), "cuda_extensions_shared_wheelhouse": "", "fast_path_family": ""}

        def provision() -> float:
            result = box.run_playbook(CHECKOUT / "playbooks" / "provision.yml", one.host, wishes, timeout=900)
            return round(result.ok().seconds, 1)

        cold, warm = provision(), provision()
    return {
        "extension": "tiny-gpu-ops 1.0",
        "first_host_s": first,
        "second_host_s": second,
        "ten_hosts_s": ten,
        "ten_hosts_vs_one": round(ten / first, 2),
        "compiles_for_ten": compiled,
        "cold_provision_s": cold,
        "warm_provision_s": warm,
        "warm_vs_cold": round(cold / warm, 2),
    }


# ---- the table


def table(results: dict[str, Any]) -> str:
    compiled, hosts = results.get("compiler", {}), results.get("containers", {})
    rows = []
    if compiled:
        same = compiled["same_machine_code"]
        rows += [
            (f"{compiled['unit']} for one target", f"{compiled['one_target_s']} s"),
            ("the same for upstream's nine targets", f"{compiled['default_targets_s']} s"),
            ("one target is faster by", f"{compiled['one_target_vs_default']} x"),
            ("kernels compared", str(same["kernels_compared"])),
            ("equal without line information", "yes" if same["without_line_info"] else "NO"),
            ("equal when compiled in parts", "yes" if same["in_parts"] else "NO"),
        ]
    if hosts:
        rows += [
            ("first container of a key", f"{hosts['first_host_s']} s"),
            ("second container of a key", f"{hosts['second_host_s']} s"),
            (f"{COUNT} containers of a key at once", f"{hosts['ten_hosts_s']} s"),
            (f"{COUNT} containers take as long as one by", f"{hosts['ten_hosts_vs_one']} x"),
            (f"compiles for {COUNT} containers", str(hosts["compiles_for_ten"])),
            ("provision, with the extension to build", f"{hosts['cold_provision_s']} s"),
            ("provision again, nothing to do", f"{hosts['warm_provision_s']} s"),
        ]
    return "\n".join(f"{name:<45}{value:>12}" for name, value in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=["compiler", "containers"], help="measure this part alone")
    wanted = parser.parse_args().part
    os.environ.setdefault("TESTBED_NAME", "bench")
    sys.path.insert(0, str(CHECKOUT))
    from tests import prepared
    from tests.integration.box import Box

    box = Box()
    was_there = box.status()["exists"]
    box.testbed("up")
    before = set(box.status()["containers"])
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if wanted and RESULTS.exists() else {}
    try:
        snapshot = prepared.snapshot("toolkit")
        count = 1 if wanted == "compiler" else COUNT
        containers = [box.container(FIRST + number) for number in range(count)]
        if wanted != "containers":
            results["compiler"] = compiler(containers[0].fresh("--from", snapshot))
        if wanted != "compiler":
            results["containers"] = fleet(box, containers, snapshot)
    finally:
        if made := sorted(set(box.status()["containers"]) - before):
            box.testbed("remove", ",".join(made))
        if not was_there:
            box.testbed("down")
    for part, names in {
        "containers": ("compiles_for_ten", "second_host_s", "warm_vs_cold"),
        "compiler": ("one_target_vs_default",),
    }.items():
        results.update({name: results[part][name] for name in names if part in results})
    results["measured"] = {"cores": os.cpu_count(), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(table(results))
    print(f"\nresults in {RESULTS.relative_to(CHECKOUT)}")


if __name__ == "__main__":
    main()
