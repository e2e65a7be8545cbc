# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""What a login shell of root is told before the first prompt, read from its start-up files; nothing is expanded."""

from __future__ import annotations

import os
import re
from typing import Any

from .host import Host

#: Packages that a training job imports, by what they are imported as.
MODULES = ("torch", "triton", "transformers", "fla", "causal_conv1d", "numpy")
#: Libraries of which torch brings its own: a second copy that comes first leaves symbols undefined.
LIBRARIES = ("libnvJitLink.so.*", "libcudnn.so.*", "libcublas.so.*", "libcusparse.so.*", "libnccl.so.*")


def assignments(host: Host, *names: str) -> list[dict[str, str]]:
    """[{file, name, value}] of the lines that set one of these variables, in the order in which a login reads them."""
    line = re.compile(rf"^\s*(?:export\s+)?({'|'.join(names)})=[\"']?([^\"'\s#;]*)", re.MULTILINE)
    files = ["/etc/environment", "/etc/profile", "/etc/bash.bashrc", *host.find("/etc/profile.d/*.sh")]
    files += ["/root/.profile", "/root/.bash_profile", "/root/.bashrc"]
    return [
        {"file": file, "name": name, "value": value}
        for file in files
        for name, value in line.findall(host.read(file, 1 << 20) or "")
    ]


def astray(host: Host, site_packages: str) -> list[dict[str, Any]]:
    """[{file, name, value, holds}]: variables that give a job other code than the environment's; holds is what."""
    found = []
    for item in assignments(host, "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH"):
        folders = [folder.rstrip("/") for folder in item["value"].split(":") if folder.startswith("/")]
        if item["name"] == "PYTHONHOME":
            holds = "the standard library" if item["value"] else None
        elif item["name"] == "PYTHONPATH":
            holds = next((name for folder in folders for name in _modules(host, folder, site_packages)), None)
        else:
            holds = next((name for folder in folders for name in _libraries(host, folder, site_packages)), None)
        if holds:
            found.append({**item, "holds": holds})
    return found


def _modules(host: Host, folder: str, site_packages: str) -> list[str]:
    if folder == site_packages:
        return []
    return [name for name in MODULES if host.exists(f"{folder}/{name}") or host.exists(f"{folder}/{name}.py")]


def _libraries(host: Host, folder: str, site_packages: str) -> list[str]:
    """Names under which both the folder and torch's own packages have a library, and not the same one."""
    theirs = [path for pattern in LIBRARIES for path in host.find(f"{folder}/{pattern}")]
    return [
        os.path.basename(path)
        for path in theirs
        for own in host.find(f"{site_packages}/nvidia/*/lib/{os.path.basename(path)}")
        if host.size(own) != host.size(path)
    ]
