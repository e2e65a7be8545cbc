# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 2, facts: system, machine, C library, python3, packages, CA bundle, disk, memory, processors."""

from __future__ import annotations

import os
import platform
import re
from typing import Any

from . import system
from .host import STATE, Host

CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
#: Where role bootstrap puts its own files.
CERTIFICATES = "/usr/local/share/ca-certificates"
APT_PROXY = "/etc/apt/apt.conf.d/80proxmox-gpu-proxy"
#: The mirror that role bootstrap wrote into the sources last.
APT_MIRROR = f"{STATE}/apt_mirror"
#: What a mirror takes the place of, as sed -E and Python's re both read it.
DISTRIBUTION_HOSTS = (
    r"https?://((deb|security|ftp(\.[a-z]+)?)\.debian\.org"
    r"|((([a-z]+\.)?archive|security)\.ubuntu|ports\.ubuntu)\.com)"
)
DEB_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def observe(host: Host, wishes: dict[str, Any]) -> dict[str, Any]:
    machine = platform.machine()
    wanted = [str(name) for name in wishes.get("packages") or []]
    versions = {name: host.installed(name) for name in wanted}
    return {
        "os": os_release(host.read("/etc/os-release") or host.read("/usr/lib/os-release") or ""),
        "machine": machine,
        "deb_arch": DEB_ARCHITECTURES.get(machine, machine),
        "glibc": glibc(),
        "python": platform.python_version(),
        "packages": {name: version for name, version in versions.items() if version is not None},
        "dpkg_unfinished": unfinished(host),
        "ca_bundle": ca_bundle(host),
        "ca_certificates": [name for name in host.names(CERTIFICATES) if name.startswith("proxmox-gpu-")],
        "apt_proxy": (host.read(APT_PROXY, 1 << 16) or "").rstrip("\n"),
        "apt_unmirrored": unmirrored(host, str(wishes.get("apt_mirror") or "").rstrip("/")),
        "memory_limit_bytes": memory_limit(host),
        "cpu_limit": cpu_limit(host),
        "disk": disk(host, wishes.get("environment_path") or "/opt"),
        "system": system.observe(host, wishes.get("environment_path") or "/opt"),
    }


def os_release(text: str) -> dict[str, str]:
    """{id, version_id, pretty_name}; a name that the file lacks is missing."""
    values = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name in ("ID", "VERSION_ID", "PRETTY_NAME"):
            values[name.lower()] = value.strip().strip("\"'")
    return values


def glibc() -> str | None:
    """ "2.36" of the C library that this very process runs on; None on another C library."""
    try:
        name, _space, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        return None
    return version if name == "glibc" else None


def unfinished(host: Host) -> list[str]:
    """Packages that dpkg began and did not finish, for which apt refuses everything else."""
    names = [name for name, package in host.packages.items() if not package.installed]
    # dpkg writes each step to updates/ first: a numbered file there means that it was killed.
    return (
        sorted(names)
        or [f"dpkg's journal {name}" for name in host.names("/var/lib/dpkg/updates") if name.isdigit()][:1]
    )


def ca_bundle(host: Host) -> dict[str, Any]:
    """usable: at least one certificate is in it."""
    return {"path": CA_BUNDLE, "usable": "BEGIN CERTIFICATE" in (host.read(CA_BUNDLE, 4096) or "")}


def unmirrored(host: Host, mirror: str) -> list[str]:
    """The addresses in apt's sources that a mirror is to take the place of: the distribution's, and the last mirror's.

    Empty where none is wanted. One of them may itself be the wanted mirror.
    """
    if not mirror:
        return []
    last = (host.read(APT_MIRROR, 4096) or "").strip()
    end = r"(?=[/\s]|$)"
    others = [re.escape(last) + end] if last else []
    pattern = re.compile(f"{re.escape(mirror)}{end}|(?P<other>{'|'.join([*others, DISTRIBUTION_HOSTS])})", re.MULTILINE)
    folder = "/etc/apt/sources.list"
    files = [folder, *host.find(f"{folder}.d/*.list"), *host.find(f"{folder}.d/*.sources")]
    found = [match["other"] for file in files for match in pattern.finditer(host.read(file, 1 << 20) or "")]
    return sorted({other for other in found if other})


def memory_limit(host: Host) -> int | None:
    """Bytes: the smallest of the memory cgroup's limits and what /proc/meminfo says (lxcfs puts the limit there)."""
    limits = []
    for line in (host.read(f"{host.proc}/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            limits.append(int(line.split()[1]) * 1024)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = (host.read(path) or "").strip()
        if text.isdigit():
            limits.append(int(text))
    return min(limits) if limits else None


def cpu_limit(host: Host) -> float:
    """Processors that may be used at once: the cgroup's quota, else those this process may run on."""
    usable = float(len(os.sched_getaffinity(0)))
    words = (host.read("/sys/fs/cgroup/cpu.max") or "").split()
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
        return min(usable, int(words[0]) / int(words[1]))
    return usable


def disk(host: Host, environment_path: str) -> dict[str, dict[str, int]]:
    """{path: {free_bytes, total_bytes}}, one line a file system, for the places that installations write to."""
    found: dict[str, dict[str, int]] = {}
    seen = set()
    for path in (environment_path, "/", "/usr/local", "/var", "/tmp"):
        place = path
        while place != "/" and not host.exists(place):
            place = os.path.dirname(place)
        try:
            device, room = os.stat(host.path(place)).st_dev, os.statvfs(host.path(place))
        except OSError:
            continue
        if device not in seen:
            seen.add(device)
            found[path] = {"free_bytes": room.f_bavail * room.f_frsize, "total_bytes": room.f_blocks * room.f_frsize}
    return found
