# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other releases of ansible-core, each in an environment of its own under build/cores, made when first asked for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.layout import CHECKOUT

# Release: the Pythons that it runs on, the newest first.
PYTHONS = {
    "2.19": ("python3.13", "python3.12", "python3.11"),
    "2.20": ("python3.14", "python3.13", "python3.12"),
    "2.21": ("python3.14", "python3.13", "python3.12"),
    "2.22": ("python3.14", "python3.13"),
}


def _python(name: str) -> str | None:
    """A Python of this name that runs: a shim of pyenv is on the PATH for versions too that it does not offer."""
    for found in (shutil.which(name), str(Path(sys.base_prefix) / "bin" / name)):
        if (
            found
            and Path(found).exists()
            and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode
        ):
            return found
    return None


def commands_of(release: str) -> Path:
    """The folder with this release's commands. Skips the test where it can't be installed."""
    folder = CHECKOUT / "build" / "cores" / release
    done = folder / "installed"
    if not done.exists():
        python = next((found for name in PYTHONS[release] if (found := _python(name))), None)
        if python is None:
            pytest.skip(f"ansible-core {release} needs one of {', '.join(PYTHONS[release])}")
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True, timeout=120)
        result = subprocess.run(
            [str(folder / "bin" / "pip"), "install", "--quiet", "--pre", f"ansible-core=={release}.*"],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if result.returncode:
            pytest.skip(f"ansible-core {release} does not install here: {result.stderr.strip().splitlines()[-1:]}")
        done.touch()
    return folder / "bin"
