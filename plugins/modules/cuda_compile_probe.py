#!/usr/bin/python
# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_compile_probe
short_description: Prove that a CUDA extension compiles against the training environment's torch
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Compiles a 20-line CUDA extension through C(torch.utils.cpp_extension) with the toolkit that the roles build with,
    links it, imports it in the training interpreter and reads the GPU targets out of it. No GPU is needed.
  - The outcome is recorded in C(/var/lib/proxmox_gpu/compile_probe.json) under a key of torch, CUDA, nvcc, gcc, C
    library and Python. While the key stays and the last outcome was good, nothing is compiled again.
  - A probe that fails ends the task with one sentence that names the cause. The compiler's words are in RV(log).
options:
  environment:
    description: The training environment, a virtual environment with torch.
    type: path
    default: /opt/training
  gpu_targets:
    description: GPU targets to compile for, such as V(9.0) or V(sm_90). Without one V(8.0), which every toolkit knows.
    type: list
    elements: str
    default: []
  math_headers:
    description: Whether the headers of cuBLAS, cuSPARSE and cuSOLVER have to be found as well.
    type: bool
    default: false
  tmpdir:
    description: Folder for temporary files. It should lie on a disk, not in memory.
    type: path
    default: /var/tmp
  timeout:
    description: Seconds after which the compilation is ended.
    type: int
    default: 900
  force:
    description: Compile even if the record says that it worked.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Says whether it would compile, and compiles nothing.
  diff_mode:
    support: none
    description: A record of a proof has no useful difference.
  idempotent:
    support: full
    description: Compiles only when something that matters changed since the last good probe.
  platform:
    support: full
    platforms: linux
    description: Linux containers.
seealso:
  - module: proxmox_gpu.training.cuda_toolkit_plan_info
"""

EXAMPLES = r"""
- name: Prove that extensions compile for an H200
  proxmox_gpu.training.cuda_compile_probe:
    environment: /opt/training
    gpu_targets: ["9.0"]
"""

RETURN = r"""
record:
  description: What was recorded, now or by an earlier run.
  returned: when something was compiled, or an earlier record counts
  type: dict
  sample:
    schema: 1
    ok: true
    error: null
    cause: null
    key: {torch: 2.14.1+cu130, cuda: "13.0", nvcc: 13.0.88, gcc: 12.2.0, glibc: "2.36", python: 3.11.2}
    seconds: 9.1
    targets: [sm_90]
    log: /var/log/proxmox_gpu/compile_probe.log
log:
  description: The file with the compiler's output.
  returned: always
  type: str
  sample: /var/log/proxmox_gpu/compile_probe.log
"""

import os
import shutil
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _elf
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_errors import Build, Cause, classify
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import (
    LOGS,
    Finished,
    build_environment,
    read_log,
    run_logged,
    write_json,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain import nvcc as choice
from ansible_collections.proxmox_gpu.training.plugins.module_utils._compile_probe import sources
from ansible_collections.proxmox_gpu.training.plugins.module_utils._gpu_targets import normalise_targets, split_target
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import compiler, toolkit, torch
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host

LOG = f"{LOGS}/compile_probe.log"
DEFAULT_TARGET = "8.0"
SCHEMA = 1


class Refused(Exception):
    """Nothing can be compiled; the message is a sentence."""


def observe(environment: str) -> dict[str, dict[str, t.Any]]:
    """torch, toolkit and compiler of the machine, as chain_info sees them, so that the keys are the same."""
    host = Host()
    wishes = {"environment_path": environment}
    known: dict[str, t.Any] = {"torch": torch.observe(host, wishes), "toolkit": toolkit.observe(host, wishes)}
    return {**known, "compiler": compiler.observe(host, wishes, known)}


def compiler_home(facts: dict[str, dict[str, t.Any]], environment: str) -> str:
    """The toolkit to compile with. Raises Refused where there is no torch for CUDA, or no compiler for it."""
    if not facts["torch"].get("version"):
        raise Refused(f"there is no torch in {environment}; run the role torch_environment first")
    if not facts["torch"].get("cuda"):
        raise Refused(
            f"torch {facts['torch']['version']} in {environment} is built for the CPU only, so no CUDA extension can be"
            " built for it; install a CUDA build (torch_environment_cpu_only: false)"
        )
    nvcc = choice.chosen(facts["toolkit"].get("nvccs") or [], facts["torch"]["cuda"])
    if not nvcc:
        raise Refused(f"there is no working nvcc for CUDA {facts['torch']['cuda']}; run the role cuda_toolkit")
    return choice.home_of(nvcc)


def compile_probe(facts: dict[str, dict[str, t.Any]], home: str, params: dict[str, t.Any]) -> dict[str, t.Any]:
    """Compile, link, import, look inside; the record of it."""
    targets = normalise_targets(params["gpu_targets"] or [DEFAULT_TARGET])
    python = facts["torch"]["python"]
    folder = tempfile.mkdtemp(prefix="proxmox_gpu-probe-", dir=params["tmpdir"])
    build = Build(
        "the compile probe",
        tmpdir=params["tmpdir"],
        cuda_home=home,
        python=python,
        torch=facts["torch"]["version"],
        torch_cuda=facts["torch"]["cuda"],
        series=facts["compiler"]["key"]["nvcc"].rpartition(".")[0].replace(".", "-"),
    )
    try:
        for name, text in sources(params["math_headers"]).items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
                stream.write(text)
        variables = {"MAX_JOBS": "1", "TORCH_CUDA_ARCH_LIST": arch_list(targets), "TORCH_EXTENSIONS_DIR": folder}
        if os.path.exists(LOG):
            os.replace(LOG, f"{LOG}.1")
        finished = run_logged(
            [
                python,
                "-I",
                "probe.py",
                folder,
                *(f"{folder}/{name}" for name in ("probe_kernel.cu", "probe_binding.cpp")),
            ],
            build_environment(python, home, folder, variables),
            folder,
            LOG,
            params["timeout"],
        )
        cause = why(finished, build, f"{folder}/proxmox_gpu_probe.so", targets, params["timeout"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "schema": SCHEMA,
        "ok": cause is None,
        "error": cause.sentence if cause else None,
        "cause": cause.id if cause else None,
        "key": facts["compiler"]["key"],
        "seconds": round(finished.seconds, 1),
        "targets": list(targets),
        "math_headers": params["math_headers"],
        "log": LOG,
    }


def arch_list(targets: t.Iterable[str]) -> str:
    """nvcc's names in the spelling of TORCH_CUDA_ARCH_LIST: ("sm_90", "compute_90") -> "9.0;9.0+PTX"."""
    parts = []
    for target in targets:
        kind, major, minor, suffix = split_target(target)
        parts.append(f"{major}.{minor}{suffix}{'+PTX' if kind == 'compute' else ''}")
    return ";".join(parts)


def why(finished: Finished, build: Build, module: str, targets: tuple[str, ...], timeout: int) -> Cause | None:
    """Why the probe is not good, or None if it is."""
    if finished.timed_out:
        return Cause("timeout", f"{build.what}: it was not done after {timeout} seconds and was ended", "")
    if finished.status != 0:
        return classify(read_log(LOG), build, finished.starved)
    found = _elf.gpu_targets(module)
    missing = [target for target in targets if target not in found]
    if missing:
        holds = ", ".join(found) or "no GPU code"
        sentence = f"{build.what}: it was compiled for {', '.join(missing)}, but the module holds {holds}"
        return Cause("target_missing", sentence, "")
    return None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "environment": {"type": "path", "default": "/opt/training"},
            "gpu_targets": {"type": "list", "elements": "str", "default": []},
            "math_headers": {"type": "bool", "default": False},
            "tmpdir": {"type": "path", "default": "/var/tmp"},
            "timeout": {"type": "int", "default": 900},
            "force": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        facts = observe(params["environment"])
        record = facts["compiler"]["record"] or {}
        proven = record.get("ok") and record.get("key") == facts["compiler"]["key"]
        if proven and (record.get("math_headers") or not params["math_headers"]) and not params["force"]:
            module.exit_json(changed=False, record=record, log=LOG)
        home = compiler_home(facts, params["environment"])
        if module.check_mode:
            module.exit_json(changed=True, log=LOG)
        record = compile_probe(facts, home, params)
        write_json(compiler.RECORD, record)
    except (Refused, ValueError) as error:
        module.fail_json(msg=str(error), log=LOG)
    except OSError as error:
        module.fail_json(msg=f"the compile probe cannot be run: {error.strerror}: {error.filename}", log=LOG)
    if not record["ok"]:
        module.fail_json(msg=f"{record['error']} (log: {LOG})", record=record, log=LOG)
    module.exit_json(changed=True, record=record, log=LOG)


if __name__ == "__main__":
    main()
