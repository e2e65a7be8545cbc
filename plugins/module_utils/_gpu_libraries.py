# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""A container's driver libraries: their versions, where the wanted ones come from, and what is said when they do not.

Package names: Debian and NVIDIA's repository for it have libcuda1 and libnvidia-ml1 whose version is the driver's,
with a revision; Ubuntu and NVIDIA's repository for it have one package a branch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ._observe import gpu
from ._observe.host import Host

_IN_NAME = re.compile(r"(\d{3}\.\d+(?:\.\d+)?)")


class LibraryError(Exception):
    """One sentence."""


def installed() -> list[str]:
    """Versions by the libraries' file names, each once."""
    return sorted({library["version"] for library in gpu.libraries(Host())})


def refuse(have: Sequence[str], module: str, on_disk: str | None) -> str | None:
    """Why nothing is installed although they differ: the node was upgraded, and the container followed already."""
    if on_disk and on_disk != module and list(have) == [on_disk]:
        return (
            f"The node's driver was upgraded to {on_disk} and its reboot is pending: module {module} still runs, and "
            f"the container has the libraries of {on_disk} already; reboot the node."
        )
    return None


def runfile_command(path: str | None, version: str) -> list[str]:
    """NVIDIA's installer without anything of the kernel. Raises LibraryError for another version's, or none."""
    if not path:
        raise LibraryError("gpu_passthrough_runfile is not set; give NVIDIA's installer of the node's driver version.")
    named = _IN_NAME.search(os.path.basename(path))
    if named and named.group(1) != version:
        raise LibraryError(
            f"The runfile is of driver {named.group(1)}, and the node's kernel module is {version}; they must be equal "
            "to the last digit, so give the runfile of that version."
        )
    if not os.path.isfile(path):
        raise LibraryError(f"There is no runfile {path} in the container.")
    options = ["--silent", "--no-kernel-modules", "--no-x-check", "--no-nouveau-check", "--no-backup"]
    return ["sh", path, *options]


def packages(version: str) -> list[str]:
    branch = version.split(".")[0]
    return ["libcuda1", "libnvidia-ml1", "nvidia-smi", f"libnvidia-compute-{branch}", f"nvidia-utils-{branch}"]


def exact(madison: str, version: str) -> dict[str, str]:
    """{package: version} of ``apt-cache madison`` whose upstream version is exactly this; {} without the libraries."""
    found: dict[str, str] = {}
    for line in madison.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) < 2 or words[0] in found:
            continue
        upstream = words[1].split(":")[-1].split("-")[0]
        if upstream == version:
            found[words[0]] = words[1]
    libraries = {"libcuda1", "libnvidia-ml1"} <= set(found) or any(
        name.startswith("libnvidia-compute-") for name in found
    )
    return found if libraries else {}


def nowhere(have: Sequence[str], version: str, wanted: str) -> str:
    state = f"are {', '.join(have)}" if have else "are missing"
    also = "" if wanted == "apt" else "no runfile is given (gpu_passthrough_runfile), and "
    return (
        f"The container's driver libraries {state}, the node's kernel module is {version}, and they must be equal to "
        f"the last digit: {also}apt has no libcuda1 or libnvidia-compute of exactly that version."
    )
