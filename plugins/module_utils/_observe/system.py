# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 2, facts about the ground that all else stands on: file systems, /tmp, /dev/null, the loader, apt's state."""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from typing import Any

from .host import Host, kind_of

PRELOAD = "/etc/ld.so.preload"
#: Where installations and repairs write.
PLACES = ("/", "/usr", "/etc", "/var", "/var/tmp", "/tmp")


def observe(host: Host, environment_path: str) -> dict[str, Any]:
    places = [*PLACES, environment_path]
    return {
        "read_only": [place for place in places if read_only(host, place)],
        "no_inodes": [place for place in places if inodes(host, place) == 0],
        "not_writable": [found for found in (shared_folder(host, path) for path in ("/tmp", "/var/tmp")) if found],
        "null": kind_of(host.path("/dev/null")),  # the real one: host.dev may be a folder of a test
        "preload": [path for path in (host.read(PRELOAD) or "").split() if not host.exists(path)],
        "unmet": unmet(host),
        "apt_module": apt_module(),
    }


def apt_module() -> bool | None:
    """Whether the system's python3 loads python3-apt; None where this runs in another Python that somebody chose."""
    ours = os.path.realpath(sys.executable or "").startswith("/usr/bin/")
    return importlib.util.find_spec("apt_pkg") is not None if ours else None


def read_only(host: Host, place: str) -> bool:
    try:
        return bool(os.statvfs(host.path(place)).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def inodes(host: Host, place: str) -> int | None:
    """Free inodes; None where the file system does not count them, or the place is not there."""
    try:
        room = os.statvfs(host.path(place))
    except OSError:
        return None
    return room.f_favail if room.f_files else None


def shared_folder(host: Host, path: str) -> dict[str, str] | None:
    """{path, mode} of a folder in which not everybody may make files; None where all is well."""
    try:
        mode = os.stat(host.path(path)).st_mode
    except OSError:
        return {"path": path, "mode": "missing"}
    good = stat.S_ISDIR(mode) and mode & 0o1777 == 0o1777
    return None if good else {"path": path, "mode": f"{stat.S_IMODE(mode):04o}"}


def unmet(host: Host) -> list[dict[str, str]]:
    """[{package, needs}]: what dpkg has installed without what it depends on, by names alone. apt compares versions
    too, and where it finds something to complain about, a name is nearly always missing."""
    provided = set(host.packages)  # unfinished ones as well, which are a trouble of their own
    for package in host.packages.values():
        provided.update(_names(package.provides))
    found = []
    for name, package in sorted(host.packages.items()):
        for clause in package.depends.split(",") if package.installed else ():
            choices = _names(clause.replace("|", ","))
            if choices and not provided & set(choices):
                found.append({"package": name, "needs": " or ".join(choices)})
    return found


def _names(text: str) -> list[str]:
    """The names in a list of relations: "libc6 (>= 2.36), python3:any" -> [libc6, python3]."""
    return [word.split()[0].partition(":")[0] for word in text.split(",") if word.strip()]
