# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 2, the ground that everything stands on: what makes any installation fail, whatever is to be installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..catalogue import entry, provision
from ..finding import Finding
from ..links import BROKEN

REPAIR = provision("bootstrap")

READ_ONLY = entry(
    "base.read_only",
    BROKEN,
    "{places} {verb} read-only, so nothing can be installed, repaired or saved there.",
    cause="The kernel makes a file system read-only when its disk fails or is full, or somebody mounted it that way.",
    remedy="On the node: look at the last lines of dmesg, then 'pct stop VMID; pct fsck VMID; pct start VMID'; or take "
    "the read-only mount off.",
)
NO_INODES = entry(
    "base.no_inodes",
    BROKEN,
    "The file system of {place} has no inodes left: it takes no more files ('No space left on device') although there "
    "is room on it.",
    cause="Millions of small files, such as caches, checkpoints in pieces or unpacked data sets.",
    remedy="Find them with 'du --inodes -x -d 3 {place} | sort -n | tail' in the container, and delete or pack them.",
)
NULL = entry(
    "base.dev_null",
    BROKEN,
    "/dev/null is {kind} in the container, so what programs throw away fills the disk, and programs of users other "
    "than root fail.",
    cause="A program that was to write to a file was given /dev/null and replaced it.",
    remedy="On the node: pct reboot VMID (the container's /dev is made anew).",
)
PRELOAD = entry(
    "base.preload",
    BROKEN,
    "/etc/ld.so.preload names {library}, which does not exist: each program complains before it begins, and whatever "
    "reads the output of programs, Ansible among it, may trip over that.",
    cause="A tool that hooks itself into all programs was removed and left its line.",
    remedy="Take the line out of /etc/ld.so.preload in the container, or install what it belongs to.",
)
NOT_WRITABLE = entry(
    "base.tmp_not_writable",
    BROKEN,
    "{path} has mode {mode}, and everybody must be able to write there (1777): apt's own user cannot check signatures, "
    "and jobs of other users than root fail.",
    cause="A chmod -R, or an archive that was unpacked over the root.",
    remedy=REPAIR,
)
UNMET = entry(
    "base.unmet_dependencies",
    BROKEN,
    "{package} is installed without {needs}, which it depends on, so apt refuses whatever else it is asked "
    "('Unmet dependencies').",
    cause="A package was removed or installed by force.",
    remedy=REPAIR,
)
APT_MODULE = entry(
    "base.python_apt_broken",
    BROKEN,
    "python3 ({python}) cannot load its apt module although python3-apt is installed, so Ansible can install no "
    "package.",
    cause="python3 was replaced by another version than the distribution's, or files of python3-apt were deleted.",
    remedy=REPAIR,
)
KINDS = {"file": "a regular file", "missing": "missing", "directory": "a directory"}


def judge(facts: dict[str, Any]) -> Iterable[Finding]:
    """facts: those of link base."""
    system = facts.get("system") or {}
    if system.get("read_only"):
        places = system["read_only"]
        verb = "is" if len(places) == 1 else "are"
        yield READ_ONLY.finding(places=", ".join(places), verb=verb, evidence="/proc/mounts")
    for place in (system.get("no_inodes") or [])[:1]:
        yield NO_INODES.finding(place=place, evidence=f"df -i {place}")
    if system.get("null", "char") != "char":
        yield NULL.finding(kind=KINDS.get(system["null"], "no device"), evidence="ls -l /dev/null")
    if system.get("preload"):
        yield PRELOAD.finding(library=system["preload"][0], evidence="/etc/ld.so.preload")
    for folder in (system.get("not_writable") or [])[:1]:
        yield NOT_WRITABLE.finding(evidence=f"ls -ld {folder['path']}", **folder)
    for broken in (system.get("unmet") or [])[:1]:
        yield UNMET.finding(evidence="apt-get check", **broken)
    if system.get("apt_module") is False and "python3-apt" in (facts.get("packages") or {}):
        yield APT_MODULE.finding(python=facts.get("python"), evidence="python3 -c 'import apt_pkg'")
