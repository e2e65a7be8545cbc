# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's wheels: which ones (wheels.txt), and how they get from the person's pip configuration into the cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError

_LIST = Path(__file__).with_name("wheels.txt")
_LINE = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[0-9.]+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")
_TIMEOUT = 1800
# 400 MB of library for 0.5 MB of headers: of these wheels only the headers and the licence are kept.
_HEADERS_ONLY = frozenset({"nvidia-cublas", "nvidia-cusparse", "nvidia-cusolver"})
_KEPT = re.compile(r"nvidia/[^/]+/include/|[^/]+\.dist-info/licenses/")


@dataclass(frozen=True)
class Wheel:
    name: str
    version: str
    sha256: str
    series: str

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def listed(text: str) -> list[Wheel]:
    """The wheels of a requirements text whose comment lines "# 13-0" name the series of what follows."""
    found: list[Wheel] = []
    series = ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"# (\d+-\d+)", line):
            series = heading[1]
        elif match := _LINE.fullmatch(line):
            found.append(Wheel(match["name"], match["version"], match["sha256"], series))
    return found


def table() -> dict[tuple[str, str], Wheel]:
    """wheels.txt by (wheel name, series)."""
    return {(wheel.name, wheel.series): wheel for wheel in listed(_LIST.read_text())}


def fetch(wheel: Wheel, cache: Path, log: Callable[[str], None]) -> Path:
    """A zip with what is needed of ``wheel``, downloaded by pip unless the cache has it.

    pip takes the index, proxy and certificates from its own configuration, and checks the wheel against its checksum.
    """
    kept = cache / "wheels" / f"{wheel.name}-{wheel.version}-{wheel.sha256[:12]}.zip"
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    log(f"downloading {wheel.name} {wheel.version} with pip")
    with tempfile.TemporaryDirectory(prefix="pip-", dir=kept.parent) as folder:
        _download(wheel, Path(folder))
        found = next(Path(folder).glob("*.whl"))
        if wheel.name in _HEADERS_ONLY:
            found = _slim(found)
        os.replace(found, kept)
    return kept


def _download(wheel: Wheel, folder: Path) -> None:
    wanted = folder / "requirements.txt"
    wanted.write_text(wheel.requirement + "\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--require-hashes", "--dest", str(folder), "--requirement", str(wanted)]
    what = f"{wheel.name} {wheel.version} for the CUDA repository stand-in"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as exc:
        raise BuildError(
            f"pip needed more than {_TIMEOUT} s for {what}: check the index that pip is configured to use."
        ) from exc
    if done.returncode:
        said = done.stderr.splitlines() or [f"exit status {done.returncode}"]
        reason = next((line for line in reversed(said) if line.startswith("ERROR:")), said[-1])
        raise BuildError(f"pip could not download {what}: {reason}")


def _slim(path: Path) -> Path:
    """``path`` reduced to its headers and licence."""
    small = path.with_suffix(".small")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for info in source.infolist():
            if _KEPT.match(info.filename):
                target.writestr(info, source.read(info))
    return small
