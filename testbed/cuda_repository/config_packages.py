# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages whose files the stand-in writes itself: cuda-keyring and the three ``config-common`` ones.

Their effects are NVIDIA's: /usr/local/cuda and /usr/local/cuda-<major> are alternatives whose priority is the series
without its dot (13.0 -> 130), so the newest series wins, and two files tell the linker where the libraries are.
"""

from __future__ import annotations

from dataclasses import dataclass

from .catalogue import Package, config_names
from .deb import Entry
from .layout import KEYRING_VERSION, Repository, major, toolkit_root
from .signing import OWNER

# NVIDIA puts every package into this section, on Debian as well.
COMMON_FIELDS = {"Priority": "optional", "Section": "multiverse/devel", "Maintainer": OWNER}
KEYRING_PATH = "usr/share/keyrings/cuda-archive-keyring.gpg"

_PIN = """\
Package: nsight-compute
Pin: origin *ubuntu.com*
Pin-Priority: -1

Package: nsight-systems
Pin: origin *ubuntu.com*
Pin-Priority: -1

Package: *
Pin: release l=NVIDIA CUDA
Pin-Priority: 600
"""
_POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    echo "Setting alternatives"
    update-alternatives --quiet --install /usr/local/cuda cuda {root} {priority}
    update-alternatives --quiet --install /usr/local/cuda-{major} cuda-{major} {root} {priority}
fi
"""
_PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ]; then
    update-alternatives --quiet --remove cuda {root}
    update-alternatives --quiet --remove cuda-{major} {root}
fi
"""
_LDCONFIG = """\
#!/bin/sh
set -e
ldconfig
"""


@dataclass(frozen=True)
class Contents:
    """What deb.write() takes besides the control fields."""

    entries: tuple[Entry, ...]
    scripts: dict[str, str]
    conffiles: tuple[str, ...] = ()


def keyring_fields() -> dict[str, str]:
    return {
        **COMMON_FIELDS,
        "Package": "cuda-keyring",
        "Version": KEYRING_VERSION,
        "Architecture": "all",
        "Description": "stand-in for NVIDIA's cuda-keyring\nThe testbed's own key under NVIDIA's file names and URL.",
    }


def keyring(repository: Repository, public_key: bytes) -> Contents:
    """The keyring package of one repository. It names NVIDIA's true URL, as the copy on any mirror does."""
    listed = f"etc/apt/sources.list.d/cuda-{repository.distro}-{repository.arch}.list"
    pin = "etc/apt/preferences.d/cuda-repository-pin-600"
    line = f"deb [signed-by=/{KEYRING_PATH}] {repository.true_url}/ /\n"
    entries = (Entry(pin, _PIN.encode()), Entry(listed, line.encode()), Entry(KEYRING_PATH, public_key))
    return Contents(entries, {}, (f"/{pin}", f"/{listed}"))


def config(package: Package, repository: Repository) -> Contents:
    """One of the three ``config-common`` packages."""
    of_series, of_major, _ = config_names(package.series)
    number = major(package.series)
    if package.name == of_series:
        words = {
            "root": f"/{toolkit_root(package.series)}",
            "major": number,
            "priority": package.series.replace("-", ""),
        }
        return Contents((), {"postinst": _POSTINST.format(**words), "prerm": _PRERM.format(**words)})
    linked, name = (f"cuda-{number}", f"988_cuda-{number}") if package.name == of_major else ("cuda", "000_cuda")
    path = f"etc/ld.so.conf.d/{name}.conf"
    line = f"/usr/local/{linked}/targets/{repository.target}/lib\n"
    return Contents((Entry(path, line.encode()),), {"postinst": _LDCONFIG, "postrm": _LDCONFIG}, (f"/{path}",))
