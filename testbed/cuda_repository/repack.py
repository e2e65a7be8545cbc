# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a wheel's layout (``nvidia/cu13/...``) to the tree of NVIDIA's Debian packages (``/usr/local/cuda-X.Y/...``).

Paths, and who owns the ``include``, ``lib64`` and unversioned library links, follow ``dpkg -L`` of NVIDIA's packages.
Several packages ship the same link to the same folder; dpkg allows that.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .deb import Entry
from .layout import toolkit_root
from .stub_library import driver_stub

_TARGET = "targets/x86_64-linux"
_INCLUDE, _LIB = f"{_TARGET}/include", f"{_TARGET}/lib"
_HEADERS = (r"include/(.+)", rf"{_INCLUDE}/\1")

# 13.2's wheel carries a profile for the wheel's own tree; NVIDIA's Debian packages have one for targets/, as 13.0's
# wheel does.
_PROFILE = (
    ('"-I$(TOP)/include"', '"-I$(TOP)/$(_TARGET_DIR_)/include"'),
    ('"$(TOP)/include/cccl"', '"$(TOP)/$(_TARGET_DIR_)/include/cccl"'),
    ('"-L$(TOP)/lib/stubs"', '"-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)/stubs"'),
    ('"-L$(TOP)/lib"', '"-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)"'),
)


@dataclass(frozen=True)
class Recipe:
    """How one package is made from one wheel.

    ``rules``: (pattern, replacement) on the path below ``nvidia/cuNN``; the first match wins, no match leaves a file
    out.
    ``links``: (path, target) below the toolkit's root. "{version}" stands for the package's upstream version.
    ``triggers``: the control file of that name; a package with a shared library has the linker's cache renewed.
    """

    wheel: str
    rules: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...] = ()
    triggers: str = ""


_SONAME = "libcudart.so.13"
RECIPES: dict[str, Recipe] = {
    "cuda-nvcc": Recipe("nvidia-cuda-nvcc", ((r"(bin/.+)", r"\1"), _HEADERS)),
    "cuda-crt": Recipe("nvidia-cuda-crt", (_HEADERS,)),
    "libnvvm": Recipe(
        "nvidia-nvvm",
        (
            (r"(nvvm/.+)", r"\1"),
            (r"include/(.+)", r"nvvm/include/\1"),
            (r"lib/libnvvm\.so\.4", "nvvm/lib64/libnvvm.so.4.0.0"),
        ),
        (("nvvm/lib64/libnvvm.so.4", "libnvvm.so.4.0.0"), ("nvvm/lib64/libnvvm.so", "libnvvm.so.4")),
    ),
    "libnvptxcompiler": Recipe("nvidia-nvptxcompiler", (_HEADERS, (r"lib/(.+)", rf"{_LIB}/\1"))),
    "cuda-cudart": Recipe(
        "nvidia-cuda-runtime",
        ((rf"lib/{re.escape(_SONAME)}", f"{_LIB}/libcudart.so.{{version}}"),),
        ((f"{_LIB}/{_SONAME}", "libcudart.so.{version}"),),
        "activate-noawait ldconfig\n",
    ),
    "cuda-cudart-dev": Recipe(
        "nvidia-cuda-runtime",
        (_HEADERS, (r"lib/(.+\.a)", rf"{_LIB}/\1")),
        ((f"{_LIB}/libcudart.so", _SONAME),),
    ),
    "cuda-cccl": Recipe("nvidia-cuda-cccl", (_HEADERS, (r"(?:cuda_cccl/)?lib/(cmake/.+)", rf"{_LIB}/\1"))),
    "cuda-culibos-dev": Recipe("nvidia-cuda-culibos", ((r"lib/(.+)", rf"{_LIB}/\1"),)),
    "cuda-driver-dev": Recipe("nvidia-cuda-runtime", ((r"include/cuda\.h", f"{_LIB}/stubs/libcuda.so"),)),
    "cuda-cuobjdump": Recipe("nvidia-cuda-cuobjdump", ((r"(bin/.+)", r"\1"),)),
    "cuda-nvdisasm": Recipe("nvidia-cuda-nvdisasm", ((r"(bin/.+)", r"\1"),)),
    "libcublas-dev": Recipe("nvidia-cublas", (_HEADERS,)),
    "libcusparse-dev": Recipe("nvidia-cusparse", (_HEADERS,)),
    "libcusolver-dev": Recipe("nvidia-cusolver", (_HEADERS,)),
}


def entries(stem: str, package: str, series: str, version: str, archive: Path) -> Iterator[Entry]:
    """The files and links of ``package``, read one at a time from the wheel ``archive``. ``version``: "13.0.96"."""
    recipe = RECIPES[stem]
    root = toolkit_root(series)
    tops: set[str] = set()
    with zipfile.ZipFile(archive) as wheel:
        for info in wheel.infolist():
            if re.fullmatch(r"[^/]+\.dist-info/licenses/License\.txt", info.filename):
                yield Entry(f"usr/share/doc/{package}/copyright", wheel.read(info))
                continue
            place = _place(recipe, info.filename, version)
            if place is None:
                continue
            tops.add("/".join(place.split("/")[:3]))
            content = wheel.read(info)
            if place.endswith("/stubs/libcuda.so"):
                content = driver_stub(content.decode())
            elif place == "bin/nvcc.profile":
                content = _adapt(content)
            yield Entry(f"{root}/{place}", content, mode=_mode(info, place))
    for name, target in recipe.links:
        yield Entry(f"{root}/{name.format(version=version)}", target=target.format(version=version))
    if _INCLUDE in tops:
        yield Entry(f"{root}/include", target=_INCLUDE)
    if _LIB in tops:
        yield Entry(f"{root}/lib64", target=_LIB)


def _place(recipe: Recipe, member: str, version: str) -> str | None:
    """Where a wheel's ``member`` goes below the toolkit's root; None for what is left out (folders, build metadata)."""
    inside = re.fullmatch(r"nvidia/[^/]+/(?!\.metadata/)(.*[^/])", member)
    if inside is None:
        return None
    for pattern, replacement in recipe.rules:
        if re.fullmatch(pattern, inside[1]):
            return re.sub(pattern, replacement.format(version=version), inside[1])
    return None


def _mode(info: zipfile.ZipInfo, place: str) -> int:
    executable = bool((info.external_attr >> 16) & 0o100) and not place.startswith(_TARGET)
    return 0o755 if executable else 0o644


def _adapt(profile: bytes) -> bytes:
    text = profile.decode()
    for ours, theirs in _PROFILE:
        text = text.replace(ours, theirs)
    return text.encode()
