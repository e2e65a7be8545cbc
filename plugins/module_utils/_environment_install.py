# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Carry out a plan for a Python environment: make it, clean up after an interruption, run pip or uv, compare.

Everything can be interrupted at any point and run again. Two installations at once are kept apart by a lock that an
orphaned pip still holds when whoever started it is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import _lock, _whole_file
from ._environment_plan import Plan, Torch, moved, normalise
from ._observe import distributions, torch
from ._observe.host import Host
from ._pip_errors import explain
from ._pip_sources import Sources
from ._run_limited import run_limited

CONSTRAINTS = "constraints.txt"
LOCK = ".proxmox_gpu.lock"


class Refused(Exception):
    """One sentence: what is wrong, and what to do. ``transient``: trying again may help."""

    def __init__(self, sentence: str, transient: bool = False) -> None:
        super().__init__(sentence)
        self.transient = transient


@dataclass(frozen=True)
class Settings:
    """Where packages come from and how long it may take. ``timeout`` in seconds for the whole installation."""

    installer: str = "pip"
    sources: Sources = Sources()
    constraints: tuple[str, ...] = ()
    ca_bundle: str | None = None
    timeout: int = 3600
    minimum_free_bytes: int = 0
    log_path: str = "/var/log/proxmox_gpu/torch_environment.log"


class Environment:
    """One virtual environment on this machine."""

    def __init__(self, path: str, python: str, settings: Settings) -> None:
        self.path, self.base_python, self.settings = path, python, settings
        self.python = f"{path}/bin/python"

    # --- looking ------------------------------------------------------------------------------------------------------

    def observe(self) -> tuple[dict[str, str], Torch]:
        """({normalised name: version}, torch); a distribution that pip did not finish, or that is damaged, is none."""
        facts = torch.observe(Host(), {"environment_path": self.path})
        if facts.get("broken_python"):
            broken = facts["broken_python"]
            raise Refused(
                f"the environment at {self.path} has no working Python: {broken['path']} {broken['problem']}; move "
                f"{self.path} away, and it is made anew"
            )
        installed = dict(facts.get("distributions") or {})
        for folder in self._broken(facts):
            installed.pop(normalise(os.path.basename(folder).partition("-")[0]), None)
        problem = facts.get("problem") or (None if not facts.get("version") or "torch" in installed else "unfinished")
        companions = {one["name"]: one["spec"] for one in facts.get("requirements") or ()}
        return installed, Torch(facts.get("version"), facts.get("cuda"), problem, companions)

    def lacking(self, installed: Mapping[str, str]) -> dict[str, str]:
        """{name: wish} of what the distributions need that is not there, and of what is damaged beside torch itself."""
        needs = [distributions.lacking(Host(), folder, dict(installed)) for folder in self._site_packages()]
        facts = torch.observe(Host(), {"environment_path": self.path})
        damaged = {one["name"]: f"=={facts['distributions'][one['name']]}" for one in facts.get("damaged") or ()}
        damaged.pop("torch", None)  # the plan has its own way with torch
        return {**{need["name"]: need["spec"] for found in needs for need in found}, **damaged}

    def unfinished(self) -> bool:
        """Whether an installation by this module was interrupted."""
        return torch.making(Host(), self.path)

    def _site_packages(self) -> list[str]:
        return distributions.folders(Host(), self.path, self.python)[:1]

    def _broken(self, facts: Mapping[str, Any]) -> list[str]:
        """Metadata folders that pip did not finish (it writes RECORD last), or whose libraries are damaged."""
        found = [str(one["metadata"]) for one in facts.get("damaged") or ()]
        for folder in self._site_packages():
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if name.endswith(".dist-info") and not os.path.isfile(os.path.join(path, "RECORD")):
                    found.append(path)
        return found

    # --- changing -----------------------------------------------------------------------------------------------------

    def install(self, plan: Plan, before: Mapping[str, str]) -> dict[str, str]:
        """Carry out the plan; the distributions that are there afterwards."""
        if plan.installs_torch:
            self._check_disk()
        with self._locked(), self._stamped():
            # Emptied, not removed: where an owner of its own installs, the folder is root's.
            with contextlib.suppress(FileNotFoundError):
                os.truncate(self.settings.log_path, 0)
            self._make()
            self._clean()
            if plan.uninstall:
                self._run([self.python, "-m", "pip", *self._pip_options(), "uninstall", "-y", *plan.uninstall], plan)
            if self.settings.installer == "uv" and plan.requirements and "uv" not in before:
                self._run(self._pip_install(["uv"]), plan)
            command = self._uv_install if self.settings.installer == "uv" else self._pip_install
            if plan.requirements:
                self._run(command(list(plan.requirements)), plan)
            after, _torch = self.observe()
            self._compare(before, after, plan)
            self._keep(after)
        return after

    def _check_disk(self) -> None:
        place = self.path
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        free, needed = shutil.disk_usage(place).free, self.settings.minimum_free_bytes
        if free < needed:
            raise Refused(
                f"only {free / 1024**3:.1f} GiB are free for {self.path}, and {needed / 1024**3:.1f} GiB are needed "
                "for torch (torch_environment_minimum_free_bytes); grow the disk on the node with 'pct resize VMID "
                "rootfs +SIZE', or delete something"
            )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock until pip has ended, be it an orphan's: it inherits the open file."""
        os.makedirs(self.path, exist_ok=True)
        with open(f"{self.path}/{LOCK}", "a", encoding="utf-8") as self._lock:
            os.set_inheritable(self._lock.fileno(), True)
            if not _lock.acquired(self._lock, self.settings.timeout):
                raise Refused(f"another installation into {self.path} is still running; wait for it")
            yield

    @contextlib.contextmanager
    def _stamped(self) -> Iterator[None]:
        """Say that an installation began, and that it came to its end. One that was refused before it changed anything
        leaves what was said before."""
        stamp = f"{self.path}/{torch.STAMP}"
        earlier, places = Host().read(stamp), self._places()
        self._stamp(stamp, "making")
        try:
            yield
        except Refused:
            if self._places() == places and earlier is None:
                os.unlink(stamp)
            elif self._places() == places:
                _whole_file.replace(stamp, str(earlier), 0o644)
            raise
        self._stamp(stamp, "made")

    def _places(self) -> dict[str, int]:
        """When something was last put into the environment or taken out: whatever pip installs has metadata there."""
        return {folder: os.stat(folder).st_mtime_ns for folder in self._site_packages()}

    @staticmethod
    def _stamp(path: str, state: str) -> None:
        _whole_file.replace(path, json.dumps({"schema": 1, "state": state}), 0o644)

    def _make(self) -> None:
        """The environment itself, with pip in it; one that was interrupted is finished."""
        if not os.path.isfile(self.python):
            strangers = set(os.listdir(self.path)) - {torch.STAMP, LOCK, "pyvenv.cfg", "bin", "lib", "lib64", "include"}
            if strangers:
                raise Refused(
                    f"{self.path} exists and is no Python environment (it holds {sorted(strangers)[0]}); move it away, "
                    "or choose another torch_environment_path"
                )
            self._run([self.base_python, "-m", "venv", self.path], None)
        if not any(os.path.isfile(f"{folder}/pip/__main__.py") for folder in self._site_packages()):
            self._run([self.python, "-m", "ensurepip", "--default-pip"], None)

    def _clean(self) -> None:
        """Remove what an interrupted pip left, so that it installs again instead of trusting the metadata."""
        unfinished = self._broken(torch.observe(Host(), {"environment_path": self.path}))
        if self.observe()[1].problem:
            unfinished += [
                path for folder in self._site_packages() for path in Host().find(f"{folder}/torch-*.dist-info")
            ]
        # "~orch" is where pip moves a package aside while it replaces it.
        unfinished += [path for folder in self._site_packages() for path in Host().find(f"{folder}/~*")]
        for path in unfinished:
            shutil.rmtree(path, ignore_errors=True)

    def _compare(self, before: Mapping[str, str], after: Mapping[str, str], plan: Plan) -> None:
        wrong = moved(before, after, plan)
        if wrong:
            raise Refused(
                f"the installer moved what was to stay in {self.path}: {', '.join(wrong)}; its log is "
                f"{self.settings.log_path}"
            )

    def _keep(self, after: Mapping[str, str]) -> None:
        """Pin everything for whoever calls pip in this environment later, and tell it where packages come from."""
        own = {normalise(re.split(r"[\s=<>!~\[;@]", one, maxsplit=1)[0]) for one in self.settings.constraints}
        pins = [f"{name}=={version}" for name, version in sorted(after.items()) if name not in own]
        sources = self.settings.sources
        lines = {"constraint": f"{self.path}/{CONSTRAINTS}", "cert": self.settings.ca_bundle}
        settings = [f"{name} = {value}" for name, value in lines.items() if value]
        for name, values in (
            ("index-url", [sources.index_url] if sources.index_url else []),
            ("extra-index-url", sources.extra_index_urls),
            ("find-links", sources.find_links),
        ):
            if values:
                settings.append(f"{name} =" + "".join(f"\n    {value}" for value in values))
        head = "# Managed by the role proxmox_gpu.training.torch_environment.\n"
        for file, text in (
            (CONSTRAINTS, head + "\n".join([*pins, *self.settings.constraints]) + "\n"),
            ("pip.conf", head + "[global]\n" + "\n".join(settings) + "\n"),
        ):
            there = Host().read(f"{self.path}/{file}")
            if there is not None and not there.startswith(head):
                continue  # somebody's own
            private = re.search(r"://[^/\s]+@", text)
            with open(f"{self.path}/{file}.new", "w", encoding="utf-8") as out:
                os.fchmod(out.fileno(), 0o600 if private else 0o644)
                out.write(text)
            os.replace(f"{self.path}/{file}.new", f"{self.path}/{file}")

    # --- running ------------------------------------------------------------------------------------------------------

    def _pip_options(self) -> list[str]:
        return [
            *("--no-input", "--disable-pip-version-check", "--retries", "2", "--timeout", "30"),
            *("--log", self.settings.log_path),
            *(("--cert", self.settings.ca_bundle) if self.settings.ca_bundle else ()),
        ]

    def _pip_install(self, requirements: list[str]) -> list[str]:
        # Without a cache: the wheels of torch would lie on the disk a second time.
        options = ["--no-cache-dir", "--progress-bar", "off", *self.settings.sources.arguments()]
        return [self.python, "-m", "pip", *self._pip_options(), "install", *options, *requirements]

    def _uv_install(self, requirements: list[str]) -> list[str]:
        options = [
            "--no-cache",
            "--python",
            self.python,
            "--index-strategy",
            "unsafe-best-match",
            *self.settings.sources.arguments(),
        ]
        uv = f"{self.path}/bin/uv"
        options += ["--constraint", f"{self.path}/{CONSTRAINTS}.now"]
        return [uv, "--no-progress", "--color", "never", "--no-config", "pip", "install", *options, *requirements]

    def _run(self, command: list[str], plan: Plan | None) -> None:
        """Run an installer; Refused with the cause. Temporary files lie in the environment, since /tmp may be small."""
        temporary = f"{self.path}/.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        os.makedirs(temporary)
        os.makedirs(os.path.dirname(self.settings.log_path), exist_ok=True)
        constraints = f"{self.path}/{CONSTRAINTS}.now"
        with open(constraints, "w", encoding="utf-8") as file:
            file.write("\n".join([*(plan.constraints if plan else ()), *self.settings.constraints]) + "\n")
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TMPDIR": temporary}
        # This replaces the constraint in pip.conf, which pins what a changed wish may move.
        environment.update({"PIP_CONSTRAINT": constraints, "PYTHONNOUSERSITE": "1"})
        environment.update({**self.settings.sources.pip_variables(), **self.settings.sources.uv_variables()})
        if self.settings.ca_bundle:
            environment["SSL_CERT_FILE"] = self.settings.ca_bundle
        log_before = _size(self.settings.log_path)
        try:
            status, output = run_limited(
                command, environment, self.settings.timeout, self.path, kept_open=[self._lock.fileno()]
            )
        except OSError as error:
            raise Refused(f"{command[0]} cannot be run: {error.strerror} (torch_environment_python)") from None
        shutil.rmtree(temporary, ignore_errors=True)
        os.unlink(constraints)
        if "--log" not in command:  # only pip keeps a log by itself
            with open(self.settings.log_path, "a", encoding="utf-8") as log:
                log.write(output)
        if status == 0:
            return
        with contextlib.suppress(OSError), open(self.settings.log_path, encoding="utf-8", errors="replace") as log:
            log.seek(log_before)
            raise self._explained(command, status, output, log.read())
        raise self._explained(command, status, output, "")

    def _explained(self, command: list[str], status: int | None, output: str, log: str) -> Refused:
        where = f"(log: {self.settings.log_path})"
        if status is None:
            return Refused(
                f"the installation into {self.path} was stopped because it did not finish in {self.settings.timeout} s "
                f"(torch_environment_timeout); what was installed stays, and the next run goes on {where}",
                True,
            )
        if status == -signal.SIGKILL:
            return Refused(f"the installation into {self.path} was killed, most likely for lack of memory {where}")
        if "ensurepip is not" in output:
            return Refused(
                f"{self.base_python} cannot make virtual environments, since its ensurepip is missing; install "
                "python3-venv (role bootstrap), or name another torch_environment_python"
            )
        problem = explain(output, log)
        if (not problem or problem.kind == "other") and _is_full(self.path):
            return Refused(f"the disk is full at {self.path}; grow it on the node with 'pct resize VMID rootfs +SIZE'")
        if problem:
            return Refused(f"{problem.sentence} {where}", problem.transient)
        last: Any = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "nothing")
        return Refused(f"{' '.join(command[:3])} failed with status {status}; the last it printed was: {last} {where}")


def _is_full(path: str) -> bool:
    """Whether less than 4 MiB are free: venv hides the words of what it runs."""
    return shutil.disk_usage(path).free < 4 << 20


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
