# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiny CUDA extension of the tests as a source archive, and as a wish of cuda_extensions_wanted."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

from tests.integration.box import Container

SOURCES = Path(__file__).parent / "extensions" / "tiny"
NAME, VERSION = "tiny-gpu-ops", "1.0"
ARCHIVE = f"/root/sdists/tiny_gpu_ops-{VERSION}.tar.gz"


def archive() -> bytes:
    """The same bytes each time, so that the key is the same in each container."""
    packed = io.BytesIO()
    metadata = f"Metadata-Version: 2.1\nName: tiny_gpu_ops\nVersion: {VERSION}\n".encode()
    files = {str(path.relative_to(SOURCES)): path.read_bytes() for path in sorted(SOURCES.rglob("*")) if path.is_file()}
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in {**files, "PKG-INFO": metadata}.items():
            if "__pycache__" not in name:
                member = tarfile.TarInfo(f"tiny_gpu_ops-{VERSION}/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def sha256() -> str:
    return hashlib.sha256(archive()).hexdigest()


def put(container: Container) -> None:
    """Lay the archive into a container, where pip finds it by --find-links."""
    text = base64.b64encode(archive()).decode()
    container.run(f"mkdir -p /root/sdists && base64 -d > {ARCHIVE.replace('.tar.gz', '.tar')}", stdin=text)
    container.run(f"gzip -nf {ARCHIVE.replace('.tar.gz', '.tar')}")


def wish(fault: str = "", **fields: Any) -> dict[str, Any]:
    """The wish; ``fault`` makes the build fail in that way, ``fields`` win."""
    return {
        "name": NAME,
        "version": VERSION,
        "compiled": ["tiny_gpu_ops_cuda"],
        "modules": ["tiny_gpu_ops"],
        "functions": ["tiny_gpu_ops:add_one"],
        "variables": {"TINY_FORCE_BUILD": "TRUE", **({"TINY_FAULT": fault} if fault else {})},
        "skip_variables": {"TINY_SKIP_CUDA_BUILD": "TRUE", "TINY_FORCE_BUILD": "TRUE"},
        "memory_per_process": 600 << 20,
        "disk": 100 << 20,
        **fields,
    }


def variables(fault: str = "", targets: tuple[str, ...] = ("9.0",), **fields: Any) -> dict[str, Any]:
    """Variables of role cuda_extensions for it."""
    return {
        "cuda_extensions_wanted": [wish(fault, **fields)],
        "cuda_extensions_gpu_targets": list(targets),
        "torch_environment_find_links": ["/root/sdists"],
        "cuda_extensions_shared_wheelhouse": "",
    }
