# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiny wheels that stand in for torch and its friends: a real pip is tested in seconds and without a network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, requires: Iterable[str] = (), cuda: str | None = None) -> None:
    """A wheel that holds one empty module; the stand-in for torch also says which CUDA it is for."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{module}/__init__.py": "",
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {one}\n" for one in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if name == "torch":
        files["torch/version.py"] = f"__version__ = '{version}'\ncuda = {cuda!r}\nhip = None\n"
    record = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in files.items()]
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]))


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def make_index(folder: Path) -> Path:
    """A folder with the versions that the tests of the training environment need."""
    make_wheel(folder, "torch", "2.14.1", ["triton==3.8.0"], "13.0")
    make_wheel(folder, "torch", "2.14.1+cpu")
    make_wheel(folder, "torch", "2.13.0+cpu")
    make_wheel(folder, "torch", "2.15.0", ["triton==3.9.0"], "13.2")
    for version in ("3.8.0", "3.9.0"):
        make_wheel(folder, "triton", version)
    for version in ("4.57.6", "5.17.0"):
        make_wheel(folder, "transformers", version, ["tokenizers<0.23" if version[0] == "4" else "tokenizers>=0.23"])
    make_wheel(folder, "flash-linear-attention", "0.6.0", ["transformers>=5.6.2,<6"])
    for name, version in (("tokenizers", "0.22.0"), ("tokenizers", "0.23.0"), ("einops", "0.8.0"), ("einops", "0.8.1")):
        make_wheel(folder, name, version)
    return folder
