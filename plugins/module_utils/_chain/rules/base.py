# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 2: a supported system with python3, CA certificates, apt's helpers, and enough disk and memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..catalogue import entry, provision
from ..finding import Finding
from ..links import ABSENT, BROKEN, DRIFTED, OK
from ..look import Look
from ..tables import distributions
from . import _base_system

FITS = entry("base.ok", OK, "{system} on {machine}, with everything that apt and Ansible need.", cause="")
PYTHON_MISSING = entry(
    "base.python3_missing",
    ABSENT,
    "python3 is not installed in the container, so nothing in it can be observed and no module of Ansible runs there.",
    cause="A minimal container template comes without python3.",
    remedy=provision("bootstrap"),
)
NOTHING_WRITTEN = entry(
    "base.nothing_written",
    BROKEN,
    "Nothing can be written in the container ({problem}), so no module of Ansible runs there and nothing in it can be "
    "observed: its file systems are full or read-only.",
    cause="The disk is full, or the kernel made the file system read-only because the disk failed.",
    remedy="On the node: 'pct exec VMID -- df -h / /tmp' and 'pct exec VMID -- grep \" / \" /proc/mounts' say which; "
    "make room or grow it with 'pct resize VMID rootfs +4G', or stop the container and run 'pct fsck VMID'.",
)
UNSUPPORTED_SYSTEM = entry(
    "base.unsupported_system",
    BROKEN,
    "The container runs {system}, for which NVIDIA's repository and these roles are not prepared; "
    "supported are {supported}.",
    cause="The container was made from a template of another distribution or release.",
    remedy="Make the container anew from a template of {supported}.",
)
UNSUPPORTED_MACHINE = entry(
    "base.unsupported_machine",
    BROKEN,
    "The machine is of type {machine}; NVIDIA's CUDA repository has x86_64 and aarch64 (sbsa) only.",
    cause="CUDA for this processor does not exist in NVIDIA's apt repositories.",
    remedy="Use a node with an x86_64 or aarch64 processor.",
)
DPKG_INTERRUPTED = entry(
    "base.dpkg_interrupted",
    BROKEN,
    "An installation was interrupted ({packages}), and apt refuses everything until it is finished.",
    cause="apt or dpkg was killed while it configured packages: a full disk, a stopped container, Ctrl-C.",
    remedy=provision("bootstrap"),
)
PACKAGES_MISSING = entry(
    "base.packages_missing",
    ABSENT,
    "{packages} {verb} not installed; without them repositories, environments or builds fail later with unclear texts.",
    cause="A minimal container template lacks what apt, TLS, virtual environments and compilers need.",
    remedy=provision("bootstrap"),
)
NO_CA_BUNDLE = entry(
    "base.no_ca_bundle",
    BROKEN,
    "The container has no usable CA bundle ({path}), so every download over https fails.",
    cause="ca-certificates is not installed, or its bundle was emptied or never generated.",
    remedy=provision("bootstrap"),
)
CONFIGURATION_DIFFERS = entry(
    "base.configuration_differs",
    DRIFTED,
    "The container's {what} not what the variables say ({variables}), so downloads take another way than is wanted, or "
    "fail.",
    cause="The variables were changed after the container was set up, or the files in the container were.",
    remedy=provision("bootstrap"),
)
DISK_LOW = entry(
    "base.disk_low",
    BROKEN,
    "Only {free} are free on {path}, and {needed} are needed; an installation or a build would stop half-way.",
    cause="A CUDA build of torch takes about 6 GB and a toolkit about 1 GB; the container's disk is smaller than that.",
    remedy="On the node: pct resize VMID rootfs +{more}G, or delete what {path} holds.",
)
MEMORY_LOW = entry(
    "base.memory_low",
    BROKEN,
    "The container may use {limit} of memory, and {needed} are needed; the compiler would be killed.",
    cause="The container's memory limit is below what one compiler process needs.",
    remedy="On the node: pct set VMID --memory {megabytes}",
)


def judge(look: Look) -> Iterable[Finding]:
    facts = look.section("base")
    if facts.get("python_missing"):
        yield PYTHON_MISSING.finding(expected="python3", observed="none", evidence="command -v python3")
        return
    if facts.get("nothing_written"):
        yield NOTHING_WRITTEN.finding(problem=facts["nothing_written"], evidence="df -h / /tmp")
        return
    findings = [
        *_system(facts),
        *_base_system.judge(facts),
        *_packages(look, facts),
        *_configuration(look, facts),
        *_resources(look, facts),
    ]
    system = (facts.get("os") or {}).get("pretty_name") or "an unknown system"
    yield from findings or [FITS.finding(system=system, machine=facts.get("machine"))]


def _system(facts: dict[str, Any]) -> Iterable[Finding]:
    release = facts.get("os") or {}
    row = distributions.distribution(release.get("id"), release.get("version_id"))
    if not row or not row.supported:
        yield UNSUPPORTED_SYSTEM.finding(
            system=release.get("pretty_name") or "a system without a name",
            supported=", ".join(distributions.supported()),
            observed=f"{release.get('id')} {release.get('version_id')}",
            evidence="/etc/os-release",
        )
    if not distributions.architecture(facts.get("machine")):
        yield UNSUPPORTED_MACHINE.finding(machine=facts.get("machine"), evidence="uname -m")


def _packages(look: Look, facts: dict[str, Any]) -> Iterable[Finding]:
    unfinished = facts.get("dpkg_unfinished") or []
    if unfinished:
        yield DPKG_INTERRUPTED.finding(packages=", ".join(unfinished), evidence="dpkg --audit")
    installed = facts.get("packages") or {}
    missing = [name for name in look.wish("bootstrap", "packages", []) if name not in installed]
    # A host that was set up by hand and has a fitting torch does not need the roles' helpers until a role is to run.
    torch = look.section("torch")
    fitting = torch.get("version") and (torch.get("cuda") or look.cpu_only)
    if missing and (look.explicit("bootstrap", "packages") or not fitting):
        verb = "is" if len(missing) == 1 else "are"
        yield PACKAGES_MISSING.finding(packages=", ".join(missing), verb=verb, evidence="/var/lib/dpkg/status")
    bundle = facts.get("ca_bundle") or {}
    if bundle and not bundle.get("usable"):
        yield NO_CA_BUNDLE.finding(path=bundle.get("path"), evidence=bundle.get("path"))


def _configuration(look: Look, facts: dict[str, Any]) -> Iterable[Finding]:
    """Certificates that are wanted and missing (more do no harm), and another proxy or mirror than the wanted one."""
    files = look.wish("bootstrap", "files", {})
    missing = set(files.get("certificates") or []) - set(facts.get("ca_certificates") or [])
    if missing:
        words = {"what": "CA certificates are", "variables": "bootstrap_ca_certificates"}
        yield CONFIGURATION_DIFFERS.finding(
            evidence="/usr/local/share/ca-certificates", expected=sorted(missing), **words
        )
    if "proxy" in files and files["proxy"] != (facts.get("apt_proxy") or ""):
        words = {
            "what": "proxy for apt is",
            "variables": "bootstrap_http_proxy, bootstrap_https_proxy, bootstrap_no_proxy",
        }
        yield CONFIGURATION_DIFFERS.finding(
            evidence="/etc/apt/apt.conf.d/80proxmox-gpu-proxy",
            expected=files["proxy"] or "none",
            observed=facts.get("apt_proxy") or "none",
            **words,
        )
    if facts.get("apt_unmirrored"):
        yield CONFIGURATION_DIFFERS.finding(
            what="package sources are",
            variables="bootstrap_apt_mirror",
            evidence="/etc/apt/sources.list",
            expected=look.wish("bootstrap", "apt_mirror"),
            observed=facts["apt_unmirrored"],
        )


def _resources(look: Look, facts: dict[str, Any]) -> Iterable[Finding]:
    needed = int(look.wish("bootstrap", "minimum_free_bytes", 0))
    for path, disk in sorted((facts.get("disk") or {}).items()):
        # /tmp may be small: builds are given a directory on the disk.
        if path != "/tmp" and disk["free_bytes"] < needed:
            yield DISK_LOW.finding(
                free=_size(disk["free_bytes"]),
                path=path,
                needed=_size(needed),
                more=-(-(needed - disk["free_bytes"]) // 1024**3),
                evidence=f"df {path}",
            )
            break
    least = int(look.wish("bootstrap", "minimum_memory_bytes", 0))
    limit = facts.get("memory_limit_bytes")
    if limit is not None and limit < least:
        yield MEMORY_LOW.finding(
            limit=_size(limit), needed=_size(least), megabytes=-(-least // 1024**2), evidence="the memory cgroup"
        )


def _size(count: int) -> str:
    """Bytes as a person reads them: "1.5 GiB"."""
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.0f} MiB"
