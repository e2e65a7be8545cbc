# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training interpreters for the tests of the fast path, kept in build/fast_path: a CPU build of torch, and releases of
transformers as folders to put on PYTHONPATH before it.

    base()                         # a virtual environment: torch for the CPU and what transformers needs
    transformers("5.17.0")         # the folders of one release, with the tokenizers and hub client that it takes
    packages("fla-core==0.5.2")    # a folder with other real wheels, without what they require

Each is made once, by pip with the machine's own settings. CPU builds of torch come from PyTorch's own index where the
machine's does not have them.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "build" / "fast_path"
TORCH = "2.13.0+cpu"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# Without tokenizers and the hub client of a release's own.
REQUIRED = (
    "numpy", "packaging", "pyyaml", "regex", "requests", "safetensors", "tqdm", "filelock", "typer", "einops", "httpx2",
    "huggingface_hub==1.33.0", "tokenizers==0.22.2",
)  # fmt: skip
RELEASES: dict[str, tuple[str, ...]] = {
    "4.57.6": ("huggingface_hub==0.36.2",),
    "5.5.4": (),
    "5.14.1": (),
    "5.15.1": (),
    "5.17.0": ("tokenizers==0.23.3",),
    "5.24.0": ("huggingface_hub==2.4.0", "tokenizers==0.23.3"),
}


def base() -> Path:
    """The base environment's python."""
    requirements = (f"torch=={TORCH}", *REQUIRED)
    folder = FOLDER / f"base-{_digest(_python(), *requirements)}"
    if not (folder / "made").exists():
        with _locked():
            if not (folder / "made").exists():
                _make_base(folder)
    return folder / "bin" / "python"


def transformers(release: str) -> list[str]:
    """Folders for the front of the path. A release that is not in RELEASES comes with everything it requires."""
    if release in RELEASES:
        return [str(packages(f"transformers=={release}", *RELEASES[release]))]
    return [str(packages(f"transformers=={release}", dependencies=True))]


def packages(*requirements: str, dependencies: bool = False) -> Path:
    """A folder with these wheels unpacked; with what they require only if that is asked for."""
    name = "_".join(requirements[:1]).replace("==", "-") + "-" + _digest(*requirements, str(dependencies))
    folder = FOLDER / name
    python = base()
    if not (folder / "made").exists():
        with _locked():
            if not (folder / "made").exists():
                shutil.rmtree(folder, ignore_errors=True)
                _pip(python, *(() if dependencies else ("--no-deps",)), f"--target={folder}", *requirements)
                if dependencies:  # the base has it, and pip brings the build for CUDA
                    for heavy in [*folder.glob("torch*"), *folder.glob("nvidia*"), *folder.glob("triton*")]:
                        shutil.rmtree(heavy)
                (folder / "made").touch()
    return folder


def _make_base(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([_python(), "-m", "venv", str(folder)], check=True, timeout=120)
    python = folder / "bin" / "python"
    try:
        _pip(python, f"torch=={TORCH}", *REQUIRED)
    except subprocess.CalledProcessError:
        _pip(python, f"--extra-index-url={CPU_INDEX}", f"torch=={TORCH}", *REQUIRED)
    (folder / "made").touch()


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, timeout=1200, stdin=subprocess.DEVNULL)


def _python() -> str:
    """An interpreter that each of these releases has wheels for."""
    return shutil.which("python3.11") or sys.executable


def _digest(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


class _locked:
    """One process at a time makes something."""

    def __enter__(self) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.file = open(FOLDER / "lock", "w")  # noqa: SIM115
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *exception: object) -> None:
        self.file.close()
