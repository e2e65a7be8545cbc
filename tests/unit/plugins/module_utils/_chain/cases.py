# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One way into each finding: what is done to a good host, and the finding that must be the first one of its link.

`test_every_entry_of_the_catalogue_can_be_reached` holds this list against the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.unit.plugins.module_utils._chain import hosts

Facts = dict[str, Any]


@dataclass(frozen=True)
class Case:
    id: str
    change: Callable[[Facts], Any]
    host: Callable[[], Facts] = hosts.provisioned
    wishes: dict[str, Any] = field(default_factory=hosts.wishes)
    words: tuple[str, ...] = ()


def put(*path: Any, **values: Any) -> Callable[[Facts], Any]:
    """A change that updates the dictionary at a path of keys."""

    def change(facts: Facts) -> None:
        place: Any = facts
        for key in path:
            place = place[key]
        place.update(values)

    return change


def nothing(_facts: Facts) -> None:
    pass


def functions(**changes: Any) -> Callable[[Facts], Any]:
    """A change of all functions of the binding."""

    def change(facts: Facts) -> None:
        for function in facts["binding"]["functions"]:
            function.update(changes)

    return change


def nodes(index: int, **changes: Any) -> Callable[[Facts], Any]:
    return put("gpu", "nodes", index, **changes)


def without_torch(change: Callable[[Facts], Any]) -> Callable[[Facts], Any]:
    """A change of a host that has no torch yet."""

    def both(facts: Facts) -> None:
        change(facts)
        facts["torch"].update(version=None, cuda=None)

    return both


def system(**changes: Any) -> Callable[[Facts], Any]:
    """A change of the ground that everything stands on; python3-apt is installed."""

    def change(facts: Facts) -> None:
        facts["base"]["system"].update(changes)
        facts["base"]["packages"]["python3-apt"] = "2.6.0"

    return change


GPU: dict[str, Any] = {"host": hosts.with_gpu}
OTHER_NVCC = {**hosts.NVCC, "path": "/usr/bin/nvcc", "version": "12.8.93", "package": "nvidia-cuda-toolkit"}
MINOR_NVCC = {**hosts.NVCC, "version": "13.2.86", "home": "/usr/local/cuda-13.2", "package": "cuda-nvcc-13-2"}
LOCAL = hosts.entry(uri="file:/var/cuda-repo-debian12-13-0-local", signed_by="/k.gpg")
EMPTY_RING = {"path": hosts.KEYRING, "exists": True, "fingerprints": []}

CASES = (
    Case("reach.ok", nothing),
    Case("reach.unreachable", put(reach={"error": "Container 202 is stopped."}), words=("202 is stopped",)),
    Case("base.ok", nothing),
    Case("base.python3_missing", put(base={"python_missing": True})),
    Case("base.nothing_written", put(base={"nothing_written": "Read-only file system"}), words=("Read-only",)),
    Case(
        "base.unsupported_system",
        put("base", "os", id="alpine", version_id="3.20", pretty_name="Alpine Linux v3.20"),
        words=("Alpine", "Debian 12"),
    ),
    Case("base.unsupported_machine", put("base", machine="riscv64"), words=("riscv64",)),
    Case("base.dpkg_interrupted", put("base", dpkg_unfinished=["libc6"]), words=("libc6",)),
    Case("base.packages_missing", without_torch(put("base", packages={"python3": "3"})), words=("ca-certificates is",)),
    Case("base.no_ca_bundle", put("base", "ca_bundle", usable=False)),
    Case(
        "base.configuration_differs",
        nothing,
        wishes=hosts.wishes(bootstrap_files={"certificates": ["proxmox-gpu-1.crt"], "proxy": ""}),
        words=("bootstrap_ca_certificates",),
    ),
    Case("base.read_only", system(read_only=["/", "/usr"]), words=("/, /usr are read-only",)),
    Case("base.no_inodes", system(no_inodes=["/var/tmp"]), words=("/var/tmp has no inodes",)),
    Case("base.dev_null", system(null="file"), words=("a regular file",)),
    Case("base.preload", system(preload=["/usr/lib/libgone.so"]), words=("libgone.so",)),
    Case(
        "base.tmp_not_writable", system(not_writable=[{"path": "/tmp", "mode": "0755"}]), words=("/tmp has mode 0755",)
    ),
    Case(
        "base.unmet_dependencies",
        system(unmet=[{"package": "libc6-dev", "needs": "linux-libc-dev"}]),
        words=("libc6-dev is installed without linux-libc-dev",),
    ),
    Case("base.python_apt_broken", system(apt_module=False), words=("3.11.2",)),
    Case("base.disk_low", put("base", disk={"/": {"free_bytes": 1024**3, "total_bytes": 1024**4}}), words=("1.0 GiB",)),
    Case("base.memory_low", put("base", memory_limit_bytes=512 * 1024**2), words=("512 MiB", "1.0 GiB")),
    Case("gpu.ok", nothing, **GPU, words=("1 x NVIDIA H200", "580.95.05")),
    Case("gpu.not_configured", nothing),
    Case("gpu.absent", nothing, wishes=hosts.wishes(fast_path_require_proof=True)),
    Case("gpu.module_not_loaded", put("gpu", module_version=None), **GPU),
    Case("gpu.not_a_device", nodes(0, kind="file"), **GPU, words=("a regular file",)),
    Case("gpu.node_missing", nodes(2, kind="missing"), **GPU, words=("/dev/nvidia-uvm is missing",)),
    Case("gpu.stale_major", nodes(2, major=508), **GPU, words=("508", "511")),
    Case("gpu.not_permitted", nodes(0, permitted=False, mode="0660"), **GPU, words=("root", "0660")),
    Case("gpu.blocked", nodes(0, open_error="EPERM"), **GPU, words=("/dev/nvidia0",)),
    Case("gpu.library_missing", put("gpu", libraries=[]), **GPU, words=("libcuda.so.1",)),
    Case(
        "gpu.library_mismatch",
        put("gpu", module_version="590.44.01"),
        **GPU,
        words=("580.95.05", "590.44.01"),
    ),
    Case("torch.ok", nothing, words=("2.14.1", "13.0", "/opt/training")),
    Case("torch.ok", put("torch", elsewhere=["/root/venv"]), words=("torch in /root/venv too",)),
    Case(
        "torch.cpu_only",
        put("torch", version="2.14.1+cpu", cuda=None),
        wishes=hosts.wishes(torch_environment_cpu_only=True),
    ),
    Case("torch.other_version", put("torch", version="2.13.0+cu130"), words=("2.13.0", "2.14.1")),
    Case("torch.no_environment", put("torch", python=None, elsewhere=["/opt/conda"]), words=("/opt/conda",)),
    Case(
        "torch.broken_interpreter",
        put("torch", python=None, broken_python={"path": "/opt/training/bin/python", "problem": "points nowhere"}),
    ),
    Case("torch.absent", put("torch", version=None)),
    Case(
        "torch.files_damaged",
        put("torch", damaged=[{"name": "torch", "file": "/x/libtorch_cuda.so", "problem": "holds 5 of its 9 bytes"}]),
        words=("libtorch_cuda.so of torch 2.14.1 holds 5",),
    ),
    Case(
        "torch.needed_missing",
        put("torch", managed=True, lacking=[{"name": "fla-core", "spec": "==1", "by": "flash-linear-attention"}]),
        words=("fla-core is not installed", "flash-linear-attention cannot be imported"),
    ),
    Case(
        "torch.led_astray",
        put("torch", astray=[{"file": "/etc/environment", "name": "PYTHONPATH", "value": "/srv/old", "holds": "fla"}]),
        words=("/etc/environment sets PYTHONPATH to /srv/old", "takes fla from there"),
    ),
    Case("torch.not_finished", put("torch", making=True), words=("/opt/training", "constraints.txt")),
    Case("torch.half_installed", put("torch", problem="two versions"), words=("two versions",)),
    Case("torch.cpu_build", put("torch", version="2.14.1+cpu", cuda=None), words=("CPU build",)),
    Case("torch.rocm_build", put("torch", version="2.14.1+rocm7", cuda=None, hip="7.0"), words=("ROCm",)),
    Case(
        "torch.version_differs",
        put("torch", version="2.13.0+cu130"),
        wishes=hosts.wishes("torch_environment_torch"),
        words=("2.13.0", "2.14.1"),
    ),
    Case("torch.driver_too_old", put("gpu", module_version="570.86.10"), **GPU, words=("580", "570.86.10")),
    Case("torch.gpu_not_in_build", put("gpu", gpus=[{"name": "V100", "capability": "7.0"}]), **GPU, words=("7.0",)),
    Case("torch.dependency_moved", put("torch", "distributions", triton="3.4.0"), words=("3.8.0", "triton 3.4.0")),
    Case(
        "torch.packages_missing",
        nothing,
        wishes=hosts.wishes(torch_environment_packages={"Flash_Linear_Attention": "0.5.2", "numpy": "2.2.6"}),
        words=("numpy is not installed",),
    ),
    Case(
        "torch.package_differs",
        nothing,
        wishes=hosts.wishes(torch_environment_packages={"transformers": "5.23.0"}),
        words=("transformers 5.17.0", "5.23.0 is wanted"),
    ),
    Case("repository.ok", nothing, words=(hosts.URL,)),
    Case("repository.local", put("repository", entries=[LOCAL])),
    Case("repository.lists_cleaned", put("repository", fetched=False, lists_empty=True)),
    Case("repository.not_needed", nothing, host=hosts.runfile, words=("/usr/local/cuda-13.0/bin/nvcc",)),
    Case("repository.absent", nothing, host=hosts.bare_torch),
    Case(
        "repository.malformed_source",
        put("repository", malformed=[{"file": "/etc/apt/sources.list", "problem": "line 1 names no suite"}]),
    ),
    Case(
        "repository.conflicting_signed_by",
        put("repository", entries=[hosts.entry(), hosts.entry(file="cuda.list", uri=hosts.URL[:-1], signed_by=None)]),
        words=("stops completely", "cuda.list"),
    ),
    Case("repository.duplicate", put("repository", entries=[hosts.entry(), hosts.entry(file="b.list")])),
    Case(
        "repository.wrong_distribution",
        put("repository", entries=[hosts.entry(uri=hosts.URL.replace("debian12", "ubuntu2204"))]),
        words=("ubuntu2204", "debian12"),
    ),
    Case(
        "repository.wrong_architecture",
        put("repository", entries=[hosts.entry(uri=hosts.URL.replace("x86_64", "sbsa"))]),
        words=("sbsa", "x86_64"),
    ),
    Case("repository.unsigned", put("repository", entries=[hosts.entry(options={"trusted": "yes"})])),
    Case("repository.keyring_missing", put("repository", keyrings={hosts.KEYRING: EMPTY_RING})),
    Case(
        "repository.keyring_unreadable",
        put("repository", "keyrings", hosts.KEYRING, private="it has mode 0600"),
        words=("_apt", "0600"),
    ),
    Case("repository.wrong_key", put("repository", "keyrings", hosts.KEYRING, fingerprints=["A" * 40])),
    Case("repository.key_refused", put("repository", verifier="sqv"), words=("SHA-1",)),
    Case("repository.bad_signature", put("repository", signature={"verified": False, "problem": "BAD signature"})),
    Case("repository.not_fetched", put("repository", fetched=False)),
    Case(
        "repository.unreachable",
        put("repository", network={"error": "the server failed (503)", "transient": True}),
        words=("503",),
    ),
    Case("repository.refused", put("repository", network={"error": "the proxy p refused (407)"}), words=("407",)),
    Case(
        "repository.other_mirror",
        nothing,
        wishes=hosts.wishes(cuda_repository_mirror="http://mirror.lan/cuda"),
        words=("mirror.lan",),
    ),
    Case("toolkit.ok", nothing, words=("13.0.88", "/usr/local/cuda-13.0")),
    Case("toolkit.minor_differs", put("toolkit", nvccs=[MINOR_NVCC], default_nvcc=None), words=("13.2.86",)),
    Case("toolkit.by_hand", nothing, host=hosts.runfile),
    Case("toolkit.not_needed", nothing, wishes=hosts.wishes(cuda_extensions_wanted=[])),
    Case("toolkit.torch_unknown", put("torch", cuda=None, version=None)),
    Case(
        "toolkit.driver_installed", put("toolkit", drivers=["cuda-drivers", "nvidia-driver"]), words=("cuda-drivers",)
    ),
    Case("toolkit.not_offered", put("toolkit", nvccs=[], series=["12-8"]), words=("13.0", "12.8")),
    Case(
        "toolkit.forbidden",
        put(
            "toolkit",
            nvccs=[],
            forbidden={"13-0": {"file": "/etc/apt/preferences.d/no", "package": "cuda-*", "priority": -1}},
        ),
        words=("/etc/apt/preferences.d/no", "cuda-*", "cuda-nvcc-13-0"),
    ),
    Case("toolkit.absent", put("toolkit", nvccs=[]), words=("13.0", "bare_metal_version")),
    Case("toolkit.wrong_major", put("toolkit", nvccs=[OTHER_NVCC]), words=("12.8", "/usr/bin/nvcc")),
    Case(
        "toolkit.wrong_minor",
        put("toolkit", nvccs=[MINOR_NVCC], default_nvcc=None),
        wishes=hosts.wishes(cuda_toolkit_policy="exact"),
        words=("13.2.86", "exact"),
    ),
    Case("toolkit.broken_nvcc", put("toolkit", nvccs=[{**hosts.NVCC, "version": None, "problem": "no cudafe++"}])),
    Case("toolkit.incomplete", put("toolkit", "nvccs", 0, missing=["cudart"]), words=("cuda-cudart-dev",)),
    Case(
        "toolkit.wrong_nvcc",
        put("toolkit", default_nvcc={"path": "/usr/local/cuda/bin/nvcc", "version": "13.2.86", "reason": "a link"}),
        words=("13.2", "a link"),
    ),
    Case(
        "toolkit.other_cuda_home",
        put(
            "toolkit",
            default_nvcc={"path": "x", "home": "/opt/cuda-12.4", "version": "12.4.1", "file": "/root/.bashrc"},
        ),
        words=("/root/.bashrc", "/opt/cuda-12.4", "12.4"),
    ),
    Case(
        "toolkit.bad_cuda_home",
        put("toolkit", cuda_homes=[{"file": "/etc/environment", "value": ":/usr/local/cuda", "usable": False}]),
        words=("/etc/environment", ":/usr/local/cuda"),
    ),
    Case(
        "toolkit.mixed_set",
        put("toolkit", "packages", **{"cuda-crt-13-0": {"version": "13.0.48-1", "held": True}}),
        words=("cuda-crt-13-0 is version 13.0.48-1",),
    ),
    Case("toolkit.not_held", put("toolkit", "packages", "cuda-nvcc-13-0", held=False), words=("cuda-nvcc-13-0 is",)),
    Case(
        "toolkit.packages_missing",
        nothing,
        wishes=hosts.wishes(cuda_toolkit_extra_packages=["x"], cuda_toolkit_beside_compiler=["libcurand-dev"]),
        words=("libcurand-dev-13-0 is not installed", "cuda_toolkit_extra_packages"),
    ),
    Case(
        "toolkit.version_differs",
        put("toolkit", wished={"cuda-nvcc-13-0": "13.0.88-1"}),
        wishes=hosts.wishes(cuda_toolkit_versions={"cuda-nvcc-13-0": "13.0.48-1", "cuda-nvcc-12-8": "12.8.61-1"}),
        words=("cuda-nvcc-13-0 is version 13.0.88-1, and 13.0.48-1 is wanted",),
    ),
    Case("toolkit.drivers_not_blocked", put("toolkit", drivers_blocked=False)),
    Case("compiler.ok", nothing, words=("12.2.0", "13.0.88")),
    Case("compiler.not_needed", nothing, host=hosts.runfile),
    Case("compiler.no_gcc", put("compiler", gcc=None, gxx=None), words=("Triton",)),
    Case("compiler.no_gxx", put("compiler", gxx=None), words=("g++",)),
    Case("compiler.no_python_headers", put("compiler", "python_headers", exists=False), words=("3.11.2",)),
    Case("compiler.gcc_too_new", put("compiler", gcc="16.1.0"), words=("16.1.0", "15")),
    Case("compiler.gcc_too_old", put("compiler", gcc="9.4.0"), words=("C++20",)),
    Case("compiler.glibc_too_new", put("base", glibc="2.42"), words=("2.42", "13.2")),
    Case("compiler.no_ninja", put("compiler", ninja=None)),
    Case("compiler.not_probed", put("compiler", record=None), host=lambda: unrecorded(hosts.provisioned())),
    Case(
        "compiler.probe_failed",
        put("compiler", "record", ok=False, error="cusparse.h is missing."),
        words=("cusparse",),
    ),
    Case("compiler.changed", put("compiler", "key", gcc="13.3.0"), words=("gcc went from 12.2.0 to 13.3.0",)),
    Case("extensions.ok", nothing, words=("causal-conv1d 1.7.0",)),
    Case("extensions.by_hand", nothing, host=hosts.runfile),
    Case("extensions.none_wanted", nothing, wishes=hosts.wishes(cuda_extensions_wanted=[])),
    Case("extensions.absent", put(extensions={}), words=("causal-conv1d",)),
    Case(
        "extensions.gpu_targets_differ",
        nothing,
        wishes=hosts.wishes(cuda_extensions_gpu_targets=["sm_90", "12.0"]),
        words=("sm_90", "12.0 is wanted"),
    ),
    Case("extensions.version_differs", put("extensions", "causal-conv1d", version="1.6.1"), words=("1.6.1", "1.7.0")),
    Case("extensions.unrecorded", nothing, host=lambda: unrecorded(hosts.provisioned())),
    Case(
        "extensions.stale",
        put("extensions", "causal-conv1d", "key", torch="2.15.0+cu132"),
        words=("torch was 2.14.1+cu130, is 2.15.0+cu132",),
    ),
    Case(
        "extensions.module_damaged",
        put("extensions", "causal-conv1d", "modules", 0, exchanged=True, file="/x/causal_conv1d_cuda.so"),
        words=("causal_conv1d_cuda.so",),
    ),
    Case("extensions.module_missing", put("extensions", "causal-conv1d", "modules", 0, exists=False)),
    Case(
        "extensions.gpu_target_missing",
        put("extensions", "causal-conv1d", "modules", 0, gpu_targets=["sm_80"]),
        **GPU,
        words=("sm_80", "9.0"),
    ),
    Case("binding.ok", nothing, words=("All 4 functions",)),
    Case("binding.not_applicable", put("binding", state="not_applicable")),
    Case("binding.no_transformers", put("binding", transformers=None, state=None)),
    Case(
        "binding.slow",
        put(binding=hosts.binding("causal_conv1d", warnings=["transformers ignores the borders of packed sequences."])),
        words=("48 of 64 layers", "causal_conv1d_fn", "causal-conv1d: not installed", "borders of packed sequences."),
    ),
    Case("binding.import_fails", put("binding", state="broken", problem="torch cannot be imported."), words=("torch",)),
    Case("binding.arguments_dropped", put("binding", "functions", 0, note="does not take seq_idx"), words=("seq_idx",)),
    Case("binding.undecided", functions(bound=None), words=("torch sees no GPU",)),
    Case("binding.unknown_design", put("binding", design="unknown", state="unknown")),
    Case("binding.model_unreadable", put("binding", model_problem="The config /m cannot be read.")),
    Case("binding.failed", put("binding", state=None, problem="It did not end within 120 seconds.")),
    Case(
        "binding.no_gpu_seen",
        put("binding", gpu={"count": 0, "reason": "CUDA_VISIBLE_DEVICES is empty", "visible": ""}),
        **GPU,
        words=("CUDA_VISIBLE_DEVICES is empty",),
    ),
    Case("binding.kernels_out_of_range", put("torch", "distributions", kernels="0.12.0"), words=("0.12.0", "0.16.0")),
    Case(
        "binding.known_bad_pair",
        put("torch", "distributions", **{"triton": "3.6.0", "fla-core": "0.6.0"}),
        **GPU,
        words=("triton 3.6.0", "fla-core 0.6.0", "backward"),
    ),
    Case("proof.ok", nothing, **GPU, words=("8.0",)),
    Case("proof.not_applicable", nothing, wishes=hosts.wishes(torch_environment_cpu_only=True)),
    Case("proof.no_gpu", nothing),
    Case("proof.never", put("proof", record=None), **GPU),
    Case("proof.changed", put(proof={"record": {"ok": True, "key": {"torch": "1"}}, "key": {"torch": "2"}}), **GPU),
    Case("proof.slower", put("proof", "record", slower=["training takes 9.9 ms, 24 % more."]), **GPU, words=("24 %",)),
    Case("proof.failed", put("proof", "record", ok=False, error="NaN in the gradient."), **GPU, words=("NaN",)),
)


def unrecorded(facts: Facts) -> Facts:
    """An extension without a record, in a host whose binding was not looked at."""
    facts["extensions"]["causal-conv1d"]["record"] = None
    facts.pop("binding")
    return facts
