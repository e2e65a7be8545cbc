# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cached root file system that every container is an overlay of: a minimal Debian, without python3.

Made by mmdebstrap from the machine's own apt configuration, once a release, mirror and variant; it lies in the
user's cache, so that a fresh clone finds it. Nobody writes to it: a container's changes lie in its overlay.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from testbed import apt_configuration
from testbed.errors import TestbedError
from testbed.refusals import os_release

INIT = """\
#!/bin/sh
# Stand-in for an init system, made by the testbed: it reaps orphans, runs the container's own sshd where one is
# configured, and ends at SIGPWR (what lxc-stop sends).
trap 'exit 0' PWR TERM INT
if [ -f /etc/ssh/sshd_config.d/testbed.conf ]; then mkdir -p /run/sshd && /usr/sbin/sshd; fi
while :; do sleep 2147483647 & wait $!; done
"""
VARIANTS = {"bare": [], "sshd": ["openssh-server"]}  # variant → packages beyond minbase
VERSION = 2  # raise it when what is made below changes


def ensure(cache: Path, variant: str, log: Callable[[str], None]) -> Path:
    """Path of the root file system of a variant; made first when the cache lacks it (half a minute)."""
    codename = os_release()["VERSION_CODENAME"]
    sources = apt_configuration.debian_sources(apt_configuration.read_sources(), codename)
    text = apt_configuration.one_line_format(sources)
    key = hashlib.sha256(f"{VERSION}\n{INIT}\n{text}".encode()).hexdigest()[:10]
    arch = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, timeout=30, check=True)
    target = cache / f"debian-{codename}-{arch.stdout.strip()}-{variant}-{key}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f".{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            log(f"making the base root file system (Debian {codename}, {variant}) in {cache}")
            _make(target, codename, text, sources, VARIANTS[variant], lock.fileno())
    return target


def _make(
    target: Path,
    codename: str,
    sources_text: str,
    sources: list[apt_configuration.Source],
    packages: list[str],
    lock: int,
) -> None:
    """``lock``: handed to mmdebstrap too, so that one whose parent was killed still keeps others out."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    listed = target.with_name(target.name + ".list")
    listed.write_text(sources_text)
    command = ["unshare", "--mount", "--propagation", "private", "mmdebstrap", "--mode=root", "--variant=minbase"]
    command += [f'--aptopt=Acquire::{scheme}::Proxy "{url}"' for scheme, url in apt_configuration.proxies().items()]
    command += [f"--include={','.join(packages)}"] if packages else []
    command += [codename, str(partial), str(listed)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, pass_fds=[lock])
    except subprocess.TimeoutExpired:
        raise TestbedError("mmdebstrap did not make the base root file system within 15 minutes.") from None
    if result.returncode != 0:
        last = [line for line in result.stderr.splitlines() if line.strip()][-3:]
        shutil.rmtree(partial, ignore_errors=True)
        raise TestbedError(
            f"mmdebstrap could not make a Debian {codename} from this machine's apt sources: {' / '.join(last)}"
        )
    _finish(partial, sources_text, sources)
    listed.unlink()
    partial.rename(target)


def _finish(root: Path, sources_text: str, sources: list[apt_configuration.Source]) -> None:
    """Add the init and the machine's apt sources with their keys; take out what mmdebstrap left of this machine."""
    init = root / "sbin/init"
    init.unlink(missing_ok=True)
    init.write_text(INIT)
    init.chmod(0o755)
    (root / "etc/apt/sources.list").write_text(sources_text)
    for source in sources:
        key = Path(source.signed_by)
        if source.signed_by.startswith("/") and key.is_file() and not (root / source.signed_by[1:]).exists():
            (root / source.signed_by[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(key, root / source.signed_by[1:])
    for leftover in ("etc/apt/apt.conf.d/99mmdebstrap", "etc/resolv.conf", "etc/hostname"):
        (root / leftover).unlink(missing_ok=True)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()  # each container makes its own
