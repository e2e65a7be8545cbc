# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts and wishes of whole hosts, to start a test from: each call gives a copy of its own.

The facts have the shape that the module returns. `provisioned` is a finished CPU-only machine (no GPU passed through),
as `make demo` leaves one.
"""

from __future__ import annotations

from typing import Any

Facts = dict[str, Any]
NVCC = {
    "path": "/usr/local/cuda-13.0/bin/nvcc",
    "realpath": "/usr/local/cuda-13.0/bin/nvcc",
    "home": "/usr/local/cuda-13.0",
    "version": "13.0.88",
    "package": "cuda-nvcc-13-0",
    "missing": [],
}
URL = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
OLD_KEY = "EB693B3035CD5710E231E123A4B469963BF863CC"
NEW_KEY = "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
PROBE_KEY = {
    "torch": "2.14.1+cu130",
    "cuda": "13.0",
    "nvcc": "13.0.88",
    "gcc": "12.2.0",
    "glibc": "2.36",
    "python": "3.11.2",
}
FUNCTIONS = (
    ("causal_conv1d_fn", "causal_conv1d", "causal-conv1d"),
    ("causal_conv1d_update", "causal_conv1d", "causal-conv1d"),
    ("chunk_gated_delta_rule", "fla", "flash-linear-attention"),
    ("fused_recurrent_gated_delta_rule", "fla", "flash-linear-attention"),
)


def wishes(*explicit: str, **changes: Any) -> dict[str, Any]:
    """The roles' defaults; changes are full variable names, and explicit ones count as set by a person."""
    desired: dict[str, Any] = {
        "bootstrap": {
            "packages": ["python3", "ca-certificates"],
            "minimum_free_bytes": 2 * 1024**3,
            "minimum_memory_bytes": 1024**3,
        },
        "torch_environment": {
            "path": "/opt/training",
            "torch": "2.14.1",
            "cpu_only": False,
            "packages": {"transformers": "5.17.0"},
        },
        "cuda_repository": {"mirror": "https://developer.download.nvidia.com/compute/cuda/repos"},
        "cuda_toolkit": {"policy": "same_major", "hold": True, "block_drivers": True},
        "cuda_extensions": {"wanted": [{"name": "causal-conv1d", "version": "1.7.0"}]},
        "fast_path": {"family": "qwen3_5", "require_proof": False},
        "explicit": [*explicit, *changes],
    }
    for name, value in changes.items():
        role = next(role for role in desired if role != "explicit" and name.startswith(f"{role}_"))
        desired[role][name.removeprefix(f"{role}_")] = value
    return desired


def entry(**changes: Any) -> dict[str, Any]:
    """The repository's entry as role cuda_repository writes it."""
    made = {
        "file": "/etc/apt/sources.list.d/cuda-debian12-x86_64.sources",
        "format": "deb822",
        "uri": URL,
        "suites": ["/"],
        "components": [],
        "signed_by": KEYRING,
        "enabled": True,
        "options": {},
        "line": 1,
    }
    return {**made, **changes}


def function(name: str, package: str, distribution: str, **changes: Any) -> dict[str, Any]:
    made = {
        "name": name,
        "package": package,
        "distribution": distribution,
        "bound": True,
        "implementation": f"{package}.{name}",
        "file": f"/opt/training/lib/python3.11/site-packages/{package}/__init__.py",
        "state": "ok",
        "error": None,
        "note": None,
    }
    return {**made, **changes}


def provisioned() -> Facts:
    """Everything holds, and no GPU is there."""
    return {
        "reach": {"answered": True, "transport": "pct_exec"},
        "base": {
            "os": {"id": "debian", "version_id": "12", "pretty_name": "Debian GNU/Linux 12 (bookworm)"},
            "machine": "x86_64",
            "deb_arch": "amd64",
            "glibc": "2.36",
            "python": "3.11.2",
            "packages": {"python3": "3.11.2-1+b1", "ca-certificates": "20230311"},
            "dpkg_unfinished": [],
            "ca_bundle": {"path": "/etc/ssl/certs/ca-certificates.crt", "usable": True},
            "memory_limit_bytes": 16 * 1024**3,
            "cpu_limit": 2.0,
            "disk": {"/opt/training": {"free_bytes": 50 * 1024**3, "total_bytes": 100 * 1024**3}},
            "system": {
                "read_only": [],
                "no_inodes": [],
                "not_writable": [],
                "null": "char",
                "preload": [],
                "unmet": [],
                "apt_module": True,
            },
        },
        "gpu": {
            "nodes": [],
            "configured": False,
            "module_version": None,
            "version_file": "/proc/driver/nvidia/version",
            "libraries": [],
            "user": "root",
            "gpus": [],
        },
        "torch": {
            "path": "/opt/training",
            "python": "/opt/training/bin/python",
            "python_version": "3.11.2",
            "python_tag": "cp311",
            "site_packages": "/opt/training/lib/python3.11/site-packages",
            "version": "2.14.1+cu130",
            "cuda": "13.0",
            "hip": None,
            "cxx11_abi": True,
            "distributions": {
                "torch": "2.14.1",
                "triton": "3.8.0",
                "transformers": "5.17.0",
                "flash-linear-attention": "0.5.2",
                "fla-core": "0.5.2",
                "causal-conv1d": "1.7.0",
            },
            "requirements": [{"name": "triton", "spec": "~=3.8.0"}],
        },
        "repository": {
            "entries": [entry()],
            "malformed": [],
            "keyrings": {KEYRING: {"path": KEYRING, "exists": True, "fingerprints": [OLD_KEY]}},
            "keyring": {"path": KEYRING, "exists": True, "fingerprints": [OLD_KEY]},
            "verifier": "gpgv",
            "fetched": True,
            "lists_empty": False,
            "signature": {"verified": True},
        },
        "toolkit": {
            "packages": {
                "cuda-nvcc-13-0": {"version": "13.0.88-1", "held": True},
                "cuda-cudart-dev-13-0": {"version": "13.0.96-1", "held": True},
            },
            "drivers": [],
            "nvccs": [dict(NVCC)],
            "default_nvcc": {"path": "/usr/local/cuda/bin/nvcc", "version": "13.0.88", "home": "/usr/local/cuda"},
            "cuda_home": "/usr/local/cuda",
            "cuda_homes": [],
            "pins": {},
            "drivers_blocked": True,
            "series": ["12-8", "13-0", "13-2"],
        },
        "compiler": {
            "gcc": "12.2.0",
            "gxx": "12.2.0",
            "ninja": "1.11.1",
            "python_headers": {"path": "/usr/include/python3.11/Python.h", "exists": True},
            "key": dict(PROBE_KEY),
            "record": {"schema": 1, "ok": True, "error": None, "key": dict(PROBE_KEY)},
            "record_file": "/var/lib/proxmox_gpu/compile_probe.json",
        },
        "extensions": {"causal-conv1d": extension()},
        "binding": binding(),
        "proof": {"record": None, "record_file": "/var/lib/proxmox_gpu/proof.json", "lock": None},
    }


def extension(**changes: Any) -> dict[str, Any]:
    key = {"torch": "2.14.1+cu130", "torch_cuda": "13.0", "python_tag": "cp311", "gpu_targets": ["sm_90"]}
    made = {
        "version": "1.7.0",
        "location": "/opt/training/lib/python3.11/site-packages/causal_conv1d-1.7.0.dist-info",
        "record": {"schema": 1, "key": dict(key)},
        "key": dict(key),
        "modules": [{"name": "causal_conv1d_cuda", "file": "x.so", "exists": True, "gpu_targets": ["sm_90"]}],
    }
    return {**made, **changes}


def binding(*slow: str, **changes: Any) -> dict[str, Any]:
    """The answer for a 64-layer model; the named packages are not installed."""
    functions = [
        function(*row, bound=False, state="absent", error=f"no module {row[1]!r} here", implementation=None)
        if row[1] in slow
        else function(*row)
        for row in FUNCTIONS
    ]
    made = {
        "state": "absent" if slow else "ok",
        "model": "qwen3_5",
        "transformers": "5.17.0",
        "design": "decorator",
        "layers": {"linear_attention": 48, "full_attention": 16},
        "total": 64,
        "fast_layers": 48,
        "functions": functions,
        "gpu": {"count": 0, "reason": "torch sees no GPU"},
        "problem": None,
        "source": "live",
    }
    return {**made, **changes}


def bare_torch() -> Facts:
    """The worked example of the project: torch and the Python packages are there, and nothing that compiles."""
    facts = provisioned()
    facts["repository"].update(entries=[], keyrings={}, keyring=None, fetched=False, signature={"verified": None})
    facts["toolkit"].update(packages={}, nvccs=[], default_nvcc=None, cuda_home=None, series=[], drivers_blocked=False)
    facts["compiler"].update(key={**PROBE_KEY, "nvcc": None}, record=None)
    facts["extensions"] = {}
    facts["torch"]["distributions"].pop("causal-conv1d")
    facts["binding"] = binding("causal_conv1d")
    return facts


def node(name: str, **changes: Any) -> dict[str, Any]:
    major = 511 if name.startswith("nvidia-uvm") else 195
    made = {
        "path": f"/dev/{name}",
        "kind": "char",
        "required": True,
        "mode": "0666",
        "owner": "root:root",
        "major": major,
        "live_majors": [major],
        "permitted": True,
    }
    return {**made, **changes}


def with_gpu(facts: Facts | None = None) -> Facts:
    """A provisioned host on an H200 with driver 580."""
    facts = facts or provisioned()
    facts["gpu"] = {
        "nodes": [node("nvidia0"), node("nvidiactl"), node("nvidia-uvm")],
        "configured": True,
        "module_version": "580.95.05",
        "version_file": "/proc/driver/nvidia/version",
        "libraries": [{"path": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "version": "580.95.05"}],
        "user": "root",
        "gpus": [{"name": "NVIDIA H200", "capability": "9.0", "uuid": "GPU-1"}],
    }
    facts["binding"]["gpu"] = {"count": 1, "visible": None}
    facts["proof"]["record"] = {"ok": True, "gpu": "NVIDIA H200", "ratio": 8.0, "key": {"torch": "2.14.1+cu130"}}
    facts["proof"]["key"] = {"torch": "2.14.1+cu130"}
    return facts


def runfile() -> Facts:
    """Set up by hand: NVIDIA's runfile installer, no packages, no repository; extensions built with pip."""
    facts = provisioned()
    facts["repository"].update(entries=[], keyrings={}, keyring=None, fetched=False, signature={"verified": None})
    facts["toolkit"].update(packages={}, nvccs=[{**NVCC, "package": None}], series=[], drivers_blocked=False)
    facts["compiler"].update(record=None)
    facts["extensions"]["causal-conv1d"].update(record=None)
    return facts


def conda() -> Facts:
    """Set up by hand: everything lies in a conda environment, compiler included."""
    facts = runfile()
    home = "/opt/conda/envs/train"
    facts["torch"].update(path=home, python=f"{home}/bin/python", version="2.13.0+cu130", requirements=[])
    facts["toolkit"]["nvccs"] = [{**NVCC, "path": f"{home}/bin/nvcc", "home": home, "package": None}]
    facts["toolkit"]["default_nvcc"] = None
    return facts


def cpu_only() -> tuple[Facts, dict[str, Any]]:
    """A host that is meant to have no CUDA."""
    facts = bare_torch()
    facts["torch"].update(version="2.14.1+cpu", cuda=None)
    return facts, wishes(torch_environment_cpu_only=True)


def inference_only() -> tuple[Facts, dict[str, Any]]:
    """A host that compiles nothing and trains nothing: a CUDA build of torch and a driver."""
    facts = with_gpu(bare_torch())
    facts["binding"] = {"model": None, "not_applicable": "no model is named", "functions": []}
    return facts, wishes(cuda_extensions_wanted=[], fast_path_family="")
