# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Link 6, facts: every nvcc on the machine, the toolkit's packages, drivers, pins, and what apt's lists offer."""

from __future__ import annotations

import re
from typing import Any

from . import pins, repository, shells
from .host import Host

#: Where compilers are installed: NVIDIA's packages and runfile, the distribution, conda, pip.
PLACES = (
    "/usr/local/cuda*/bin/nvcc",
    "/usr/local/bin/nvcc",
    "/usr/bin/nvcc",
    "/opt/cuda*/bin/nvcc",
    "{environment}/bin/nvcc",
    "{environment}/lib/python3*/site-packages/nvidia/*/bin/nvcc",
)
#: Parts of a toolkit: any of the files below its folder will do.
PARTS = {
    "cudart": ("include/cuda_runtime.h", "targets/*/include/cuda_runtime.h"),
    "crt": ("include/crt/host_config.h", "targets/*/include/crt/host_config.h"),
    "cccl": (
        "include/cub/cub.cuh",
        "include/cccl/cub/cub.cuh",
        "targets/*/include/cub/cub.cuh",
        "targets/*/include/cccl/cub/cub.cuh",
    ),  # fmt: skip
    "cicc": ("nvvm/bin/cicc", "lib/nvidia-cuda-toolkit/bin/cicc"),
}
TOOLKIT_NAME = re.compile(
    r"^(cuda-(nvcc|crt|nvvm|cudart|cudart-dev|cccl|driver-dev|culibos-dev|toolkit|minimal-build|compiler|libraries|"
    r"libraries-dev)(-\d+-\d+)?|lib(nvvm|nvptxcompiler|cublas|cublas-dev|cusparse|cusparse-dev|cusolver|cusolver-dev|"
    r"curand|curand-dev|cufft|cufft-dev)-\d+-\d+|nvidia-cuda-toolkit)$"
)
#: What brings a kernel module or pulls one in. The libraries (libcuda1, libnvidia-*) may be here at the node's version.
DRIVER_NAME = re.compile(
    r"^(cuda-drivers(-.+)?|nvidia-driver(-(?!libs|bin|cuda|pinning)[a-z0-9-]+)?|nvidia-open(-.+)?|nvidia-dkms(-.+)?|"
    r"nvidia-kernel-.+|nvidia-headless-.+|linux-(modules|objects)-nvidia-.+)$"
)
_RELEASE = re.compile(r"release (\d+\.\d+), V(\d+\.\d+\.\d+)")
_SERIES = re.compile(rb"^Package: cuda-nvcc-(\d+-\d+)$", re.MULTILINE)


def observe(host: Host, wishes: dict[str, Any]) -> dict[str, Any]:
    environment = str(wishes.get("environment_path") or "/opt/training").rstrip("/")
    packages = {
        name: {"version": package.version, "held": package.held}
        for name, package in sorted(host.packages.items())
        if package.installed and TOOLKIT_NAME.match(name)
    }
    asked = {str(name) for name in wishes.get("toolkit_packages") or []}
    nvccs = compilers(host, environment, list(packages))
    homes = cuda_homes(host)
    default = default_nvcc(host, nvccs, homes)
    files = pins.files(host)
    offered = series(host, str(wishes.get("mirror") or ""))
    return {
        "packages": packages,
        # What the variables name, with a series or without.
        "wished": {
            name: package.version
            for name, package in sorted(host.packages.items())
            if package.installed and asked & {name, re.sub(r"-\d+-\d+$", "", name)}
        },
        "drivers": sorted(n for n, package in host.packages.items() if package.installed and DRIVER_NAME.match(n)),
        "nvccs": nvccs,
        "default_nvcc": default,
        "cuda_home": default["home"] if default else None,
        "cuda_homes": homes,
        "cuda_link": host.realpath("/usr/local/cuda") if host.exists("/usr/local/cuda") else None,
        "pins": files,
        "drivers_blocked": pins.blocked(files, ("cuda-drivers", "nvidia-driver", "nvidia-open")),
        "series": offered,
        "forbidden": {name: record for name in offered if (record := pins.forbidding(files, f"cuda-nvcc-{name}"))},
    }


def compilers(host: Host, environment: str, packages: list[str]) -> list[dict[str, Any]]:
    """[{path, realpath, home, version, package, missing, problem}], each compiler once, by its shortest honest path."""
    found: dict[str, dict[str, Any]] = {}
    for pattern in PLACES:
        for path in host.find(pattern.format(environment=environment)):
            real = host.realpath(path)
            if real not in found and host.executable(path):
                found[real] = compiler(host, real if real.startswith("/usr/local/cuda") else path, real, packages)
    return list(found.values())


def compiler(host: Host, path: str, real: str, packages: list[str]) -> dict[str, Any]:
    done = host.run(path, "--version", timeout=10)
    release = _RELEASE.search(done.stdout)
    home = path.rpartition("/bin/")[0]
    owners = [name for name in packages if name.startswith("cuda-nvcc") or name == "nvidia-cuda-toolkit"]
    facts: dict[str, Any] = {
        "path": path,
        "realpath": real,
        "home": home,
        "version": release.group(2) if release else None,
        "package": host.owner(path, owners) or host.owner(real, owners),
        "missing": [part for part, files in PARTS.items() if not any(host.find(f"{home}/{name}") for name in files)],
    }
    if not release:
        said = (done.stderr or done.stdout).strip().splitlines()
        facts["problem"] = done.problem or (said[-1][:200] if said else "it prints no version")
    return facts


def cuda_homes(host: Host) -> list[dict[str, Any]]:
    """[{file, name, value, usable}] of the start-up files that set CUDA_HOME for whoever logs in."""
    found = []
    for item in shells.assignments(host, "CUDA_HOME", "CUDA_PATH"):
        value = item["value"]
        # What a shell must expand is not judged, except for the slip that leaves a colon in front.
        if "$" not in value or value.startswith(("$CUDA_HOME:", "${CUDA_HOME}:")):
            found.append({**item, "usable": host.executable(f"{value.rstrip('/')}/bin/nvcc")})
    return found


def default_nvcc(host: Host, nvccs: list[dict[str, Any]], homes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The compiler that a build by hand takes, as torch looks for it: CUDA_HOME, PATH, /usr/local/cuda."""
    # The files are in the order in which a login reads them: the last one wins.
    usable = [item for item in homes if item["usable"]][-1:]
    places: list[tuple[str, str, str | None]] = [
        (f"{item['value'].rstrip('/')}/bin/nvcc", f"{item['name']} in {item['file']}", item["file"]) for item in usable
    ]
    on_path = host.which("nvcc")
    places += [(on_path, "first on PATH", None)] if on_path else []
    places += [("/usr/local/cuda/bin/nvcc", "where /usr/local/cuda points", None)]
    for path, reason, file in places:
        real = host.realpath(path)
        for nvcc in nvccs:
            if nvcc["realpath"] == real:
                found = {"path": path, "realpath": real, "home": path.rpartition("/bin/")[0]}
                return {**found, "version": nvcc["version"], "reason": reason, "file": file}
    return None


def series(host: Host, mirror: str) -> list[str]:
    """["12-8", "13-0"]: the compilers that the indexes of apt offer, from the CUDA repositories' files alone."""
    stem = repository.list_name(mirror) if mirror else "/"
    found: set[str] = set()
    for name in host.names(repository.LISTS):
        if "Packages" in name and ("_compute_cuda_repos_" in name or name.startswith(stem) or "cuda-repo-" in name):
            found.update(item.decode() for item in _SERIES.findall(index(host, f"{repository.LISTS}/{name}")))
    return sorted(found, key=lambda text: tuple(int(part) for part in text.split("-")))


def index(host: Host, path: str) -> bytes:
    """The text of an index, however apt compressed it."""
    if path.endswith("Packages"):
        return host.read_bytes(path, 1 << 28) or b""
    done = host.run("/usr/lib/apt/apt-helper", "cat-file", host.path(path), timeout=10)
    return done.stdout.encode()
