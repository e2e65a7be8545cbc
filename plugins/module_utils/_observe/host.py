# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The machine that is looked at: its files below a root folder, its packages, and programs with a time limit.

Everything here reads. What cannot be read is None or an empty value, because a missing file is a fact like any other.
"""

from __future__ import annotations

import glob
import json
import os
import stat
import subprocess
from functools import cached_property
from typing import Any, NamedTuple

#: What every program is run with: English texts, and no settings of whoever logged in.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/"}
_FIELDS = ("Package: ", "Status: ", "Version: ", "Depends: ", "Pre-Depends: ", "Provides: ")
#: Files of the collection in the container.
STATE = "/var/lib/proxmox_gpu"


class Package(NamedTuple):
    """One package of dpkg's: its version, whether it is fully installed, whether apt must leave it alone, and its
    relations as dpkg writes them."""

    version: str
    installed: bool
    held: bool
    depends: str = ""
    provides: str = ""


class Output(NamedTuple):
    """What a program answered; problem is a half sentence when it could not be run to its end."""

    status: int | None
    stdout: str
    stderr: str
    problem: str | None = None


class Host:
    """root, proc and dev are folders, so that a fixture tree or a mounted container can be looked at."""

    def __init__(self, root: str = "/", proc: str = "/proc", dev: str = "/dev") -> None:
        self.root = root.rstrip("/")
        self.proc = proc.rstrip("/")
        self.dev = dev.rstrip("/")

    def path(self, path: str) -> str:
        """Where a path of the host lies for us."""
        return self.root + path if path.startswith("/") else path

    def _theirs(self, path: str) -> str:
        return path[len(self.root) :] if self.root and path.startswith(self.root) else path

    def read(self, path: str, limit: int = 1 << 24) -> str | None:
        """The text of a file; None when it cannot be read. At most limit bytes, undecodable ones replaced."""
        content = self.read_bytes(path, limit)
        return None if content is None else content.decode("utf-8", "replace")

    def read_bytes(self, path: str, limit: int = 1 << 24) -> bytes | None:
        try:
            with open(self.path(path), "rb") as stream:
                return stream.read(limit)
        except OSError:
            return None

    def read_json(self, path: str) -> dict[str, Any] | None:
        """The object in a JSON file; None when there is none or it is damaged."""
        try:
            found = json.loads(self.read(path) or "")
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def exists(self, path: str) -> bool:
        return os.path.exists(self.path(path))

    def is_file(self, path: str) -> bool:
        return os.path.isfile(self.path(path))

    def size(self, path: str) -> int | None:
        """Bytes of a file, links followed; None where there is none."""
        try:
            return os.stat(self.path(path)).st_size
        except OSError:
            return None

    def private(self, path: str) -> str | None:
        """What keeps other users from reading a file: "it has mode 0600", "its folder has mode 0700"; None for
        nothing."""
        folder = os.path.dirname(path)
        for name, place, needed in (("it", path, stat.S_IROTH), ("its folder", folder, stat.S_IXOTH)):
            try:
                mode = os.stat(self.path(place)).st_mode
            except OSError:
                return None
            if not mode & needed:
                return f"{name} has mode {stat.S_IMODE(mode):04o}"
        return None

    def executable(self, path: str) -> bool:
        return os.path.isfile(self.path(path)) and os.access(self.path(path), os.X_OK)

    def realpath(self, path: str) -> str:
        return self._theirs(os.path.realpath(self.path(path)))

    def find(self, pattern: str) -> list[str]:
        """The host's paths that match a glob, sorted."""
        return sorted(self._theirs(path) for path in glob.glob(glob.escape(self.root) + pattern))

    def names(self, folder: str) -> list[str]:
        """What a folder holds, sorted; [] when it is not there."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except OSError:
            return []

    def which(self, program: str) -> str | None:
        """The first program of that name on the standard path."""
        folders = ENVIRONMENT["PATH"].split(":")
        return next((f"{folder}/{program}" for folder in folders if self.executable(f"{folder}/{program}")), None)

    def run(self, *command: str, timeout: float = 10.0) -> Output:
        """Run a program of the host to its end, without input, for at most timeout seconds."""
        program = [self.path(command[0]), *command[1:]]
        try:
            # AnsibleModule.run_command knows no time limit, and an observation must never hang.
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                program,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                env=ENVIRONMENT,
                cwd="/",
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Output(None, "", "", f"{command[0]} did not end within {timeout:g} seconds")
        except OSError as error:
            return Output(None, "", "", f"{command[0]} cannot be run: {error.strerror}")
        return Output(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    @cached_property
    def packages(self) -> dict[str, Package]:
        """dpkg's packages, read from its status file: a package that was removed is not in it."""
        return parse_dpkg_status(self.read("/var/lib/dpkg/status", 1 << 28) or "")

    def installed(self, name: str) -> str | None:
        """The version of an installed package; None for what is missing or half installed."""
        package = self.packages.get(name)
        return package.version if package and package.installed else None

    def owner(self, path: str, candidates: list[str]) -> str | None:
        """Which of these packages a file belongs to, by dpkg's own lists."""
        wanted = {path, self.realpath(path)}
        for name in candidates:
            for listing in self.find(f"/var/lib/dpkg/info/{name}.list") or self.find(
                f"/var/lib/dpkg/info/{name}:*.list"
            ):
                if wanted & set((self.read(listing) or "").splitlines()):
                    return name
        return None


def parse_dpkg_status(text: str) -> dict[str, Package]:
    """{name: Package} of a dpkg status file; for a name with several architectures the installed one."""
    found: dict[str, Package] = {}
    for stanza in text.split("\n\n"):
        values = {}
        for line in stanza.splitlines():
            if line.startswith(_FIELDS):
                name, _colon, value = line.partition(": ")
                values[name] = value.strip()
        words = values.get("Status", "").split()
        if "Package" not in values or len(words) != 3 or words[2] in ("not-installed", "config-files"):
            continue
        depends = ", ".join(values[name] for name in ("Pre-Depends", "Depends") if name in values)
        package = Package(
            values.get("Version", ""), words[2] == "installed", words[0] == "hold", depends, values.get("Provides", "")
        )
        known = found.get(values["Package"])
        if known is None or not known.installed:
            found[values["Package"]] = package
    return found


def kind_of(path: str) -> str:
    """ "char", "block", "file", "directory", "missing", or "other": what lies at a path, links followed."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "missing"
    tests = {"char": stat.S_ISCHR, "block": stat.S_ISBLK, "file": stat.S_ISREG, "directory": stat.S_ISDIR}
    return next((name for name, test in tests.items() if test(mode)), "other")
