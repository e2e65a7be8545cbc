# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 3: live device nodes, driver libraries equal to the node's kernel module, and a user who may open them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..catalogue import entry
from ..finding import Finding
from ..links import ABSENT, BROKEN, NOT_APPLICABLE, OK
from ..look import Look

ON_THE_NODE = "On the node: "

FITS = entry("gpu.ok", OK, "{gpus} through driver {driver}, and {user} may open the device nodes.", cause="")
NOT_CONFIGURED = entry("gpu.not_configured", NOT_APPLICABLE, "No GPU is passed through to this container.", cause="")
ABSENT_GPU = entry(
    "gpu.absent",
    ABSENT,
    "This host must prove its fast path on a GPU (fast_path_require_proof), and no GPU is passed through to it.",
    cause="The container's config has no device entries, or the container was moved to a node without a GPU.",
    remedy=ON_THE_NODE
    + "pct set VMID --dev0 /dev/nvidia0 --dev1 /dev/nvidiactl --dev2 /dev/nvidia-uvm, then restart it.",
)
MODULE_NOT_LOADED = entry(
    "gpu.module_not_loaded",
    BROKEN,
    "The container has NVIDIA device nodes, but the node's kernel module is not loaded ({evidence_file} is missing), "
    "so no GPU answers.",
    cause="The node booted into a kernel for which the driver was not built, or the driver was removed.",
    remedy=ON_THE_NODE + "modprobe nvidia && nvidia-modprobe -u -c=0, then restart the container.",
)
NOT_A_DEVICE = entry(
    "gpu.not_a_device",
    BROKEN,
    "{path} is {kind} and not a device, so no program can open the GPU.",
    cause="A bind mount or a script made a file at that path while the driver was not loaded on the node.",
    remedy=ON_THE_NODE + "remove the file at {path}, run nvidia-modprobe -u -c=0, then restart the container.",
)
NODE_MISSING = entry(
    "gpu.node_missing",
    BROKEN,
    "{paths} {verb} missing in the container although other NVIDIA devices are there; torch then sees no GPU while "
    "nvidia-smi may still work.",
    cause="nvidia-uvm is made only when something uses it; after a reboot of the node the container started before "
    "that.",
    remedy=ON_THE_NODE + "nvidia-modprobe -u -c=0, then restart the container.",
)
STALE_MAJOR = entry(
    "gpu.stale_major",
    BROKEN,
    "{path} has major number {found}, and the node's driver has {wanted} now, so opening it fails.",
    cause="Major numbers are given out at boot; the container's config or node still has those of an earlier boot.",
    remedy=ON_THE_NODE
    + "use devN entries (pct set VMID --dev0 {path}) in place of fixed numbers, then restart the container.",
)
NOT_PERMITTED = entry(
    "gpu.not_permitted",
    BROKEN,
    "{user} may not open {path} (mode {mode}, owner {owner}), so training as that user sees no GPU.",
    cause="The group or mode of the device entry is not the one of the training user inside the container.",
    remedy=ON_THE_NODE
    + "pct set VMID --devN {path},gid=GID,mode=0660 with the group id inside the container, then restart it.",
)
BLOCKED = entry(
    "gpu.blocked",
    BROKEN,
    "The container's device rules forbid opening {path} although the node is there, so no program can use the GPU.",
    cause="The config lacks the rule for the device, or a reload of systemd on the node rewrote the rules.",
    remedy=ON_THE_NODE + "pass the device as devN (pct set VMID --devN {path}), then restart the container.",
)
LIBRARY_MISSING = entry(
    "gpu.library_missing",
    ABSENT,
    "The GPU's device nodes are here, but libcuda.so.1 is not, so no CUDA program starts.",
    cause="The driver's user-space libraries were never installed in the container.",
    remedy="Install the libraries of driver {driver} in the container, without its kernel module "
    "(NVIDIA-Linux-x86_64-{driver}.run --no-kernel-modules).",
)
LIBRARY_MISMATCH = entry(
    "gpu.library_mismatch",
    BROKEN,
    "The driver libraries in the container are {library}, the node's kernel module is {module}; they must be equal, "
    "and every GPU program ends in 'driver/library version mismatch'.",
    cause="The node's driver was upgraded, and the container's libraries were not (or the other way round).",
    remedy="Install the libraries of driver {module} in the container, without its kernel module "
    "(NVIDIA-Linux-x86_64-{module}.run --no-kernel-modules).",
)


def judge(look: Look) -> Iterable[Finding]:
    facts = look.section("gpu")
    nodes = [node for node in facts.get("nodes") or [] if node["kind"] != "missing"]
    if not nodes and not facts.get("configured"):
        if look.wish("fast_path", "require_proof", False) and not look.cpu_only:
            yield ABSENT_GPU.finding(evidence="/dev/nvidia*")
        else:
            yield NOT_CONFIGURED.finding(evidence="/dev/nvidia*")
        return
    findings = [*_nodes(facts), *_permissions(facts), *_libraries(facts)]
    yield from findings or [_fits(look, facts)]


def _nodes(facts: dict[str, Any]) -> Iterable[Finding]:
    for node in facts.get("nodes") or []:
        if node["kind"] not in ("char", "missing"):
            yield NOT_A_DEVICE.finding(path=node["path"], kind=_named(node["kind"]), evidence=f"stat {node['path']}")
    if not facts.get("module_version"):
        path = facts.get("version_file") or "/proc/driver/nvidia/version"
        yield MODULE_NOT_LOADED.finding(evidence_file=path, evidence=path)
        return
    missing = [node["path"] for node in facts.get("nodes") or [] if node["kind"] == "missing" and node.get("required")]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        yield NODE_MISSING.finding(paths=", ".join(missing), verb=verb, evidence="ls -l /dev/nvidia*")
    for node in facts.get("nodes") or []:
        live = node.get("live_majors") or []
        if node["kind"] == "char" and live and node.get("major") not in live:
            wanted = " or ".join(str(major) for major in live)
            yield STALE_MAJOR.finding(
                path=node["path"],
                found=node.get("major"),
                wanted=wanted,
                expected=wanted,
                observed=node.get("major"),
                evidence="/proc/devices",
            )


def _permissions(facts: dict[str, Any]) -> Iterable[Finding]:
    required = [node for node in facts.get("nodes") or [] if node["kind"] == "char" and node.get("required")]
    for node in required:
        if node.get("open_error") == "EPERM":
            yield BLOCKED.finding(path=node["path"], observed=node["open_error"], evidence=f"open {node['path']}")
            return
        if node.get("permitted") is False:
            yield NOT_PERMITTED.finding(
                user=facts.get("user") or "the training user",
                path=node["path"],
                mode=node.get("mode"),
                owner=node.get("owner"),
                evidence=f"ls -l {node['path']}",
            )
            return


def _libraries(facts: dict[str, Any]) -> Iterable[Finding]:
    module = facts.get("module_version")
    if not module:
        return
    versions = sorted({library["version"] for library in facts.get("libraries") or [] if library.get("version")})
    others = [version for version in versions if version != module]
    if not facts.get("libraries"):
        yield LIBRARY_MISSING.finding(driver=module, evidence="libcuda.so.1")
    elif others:
        path = [item["path"] for item in facts["libraries"] if item.get("version") == others[0]][0]
        yield LIBRARY_MISMATCH.finding(
            library=", ".join(others), module=module, expected=module, observed=others, evidence=path
        )


def _named(kind: str) -> str:
    return {"file": "a regular file", "directory": "a directory", "block": "a block device"}.get(kind, f"a {kind}")


def _fits(look: Look, facts: dict[str, Any]) -> Finding:
    gpus = facts.get("gpus") or []
    names = sorted({gpu.get("name") or "a GPU" for gpu in gpus})
    text = f"{len(gpus)} x {', '.join(names)}" if gpus else "A GPU"
    return FITS.finding(gpus=text, driver=facts.get("module_version"), user=facts.get("user") or "root")
