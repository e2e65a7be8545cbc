# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ``ansible-test sanity`` on what a user gets: the built collection, unpacked where ansible-test wants it.

ansible-test refuses a link and a place outside ``ansible_collections/``, and sees no files where a git checkout
around them ignores them; so the collection is built and unpacked in a temporary folder. No container engine is
needed: ``--local`` makes its own environments with this interpreter. Arguments are passed on
(``tools/sanity.py --test pep8``).
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent

GET_PIP = '''\
"""A stand-in for get-pip.py, which ansible-test would download: pip comes from this interpreter's own ensurepip."""
import ensurepip
import subprocess
import sys

ensurepip.bootstrap()
wanted = [argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", *wanted]))
'''


def unpack_collection(place: Path) -> Path:
    """Builds the collection from this checkout and unpacks it below ``place``; the folder to run in."""
    folder = place / "ansible_collections" / "proxmox_gpu" / "training"
    build = [str(BIN / "ansible-galaxy"), "collection", "build", "--output-path", str(place), str(CHECKOUT)]
    subprocess.run(build, check=True, timeout=300)
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as built:
        built.extractall(folder, filter="data")
    return folder


def provide_get_pip() -> None:
    """ansible-test looks for its download in a cache of the user; a real one that is there stays."""
    spec = importlib.util.find_spec("ansible_test")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("sanity: ansible-test is not installed beside this interpreter. Run: make setup")
    source = Path(spec.submodule_search_locations[0]) / "_internal" / "python_requirements.py"
    for version in re.findall(r"\bpip='([0-9.]+)'", source.read_text(encoding="utf-8")):
        cached = Path.home() / ".ansible/test/cache" / f"get_pip_{version.replace('.', '_')}.py"
        if not cached.exists():
            cached.parent.mkdir(parents=True, exist_ok=True)
            cached.write_text(GET_PIP, encoding="utf-8")


def main() -> int:
    provide_get_pip()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [str(BIN / "ansible-test"), "sanity", "--local", "--python", version, "--color", "no", *sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="sanity-") as place:
        folder = unpack_collection(Path(place))
        return subprocess.run(
            command, cwd=folder, env=os.environ | {"LC_ALL": "C.UTF-8", "PIP_QUIET": "2"}, timeout=1500
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
