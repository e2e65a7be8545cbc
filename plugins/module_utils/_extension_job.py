# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Bring one extension into the training environment: from the wheelhouse if its key is there, else by building it.

Nothing that is installed is touched before its replacement has been built, looked into and imported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
import tempfile
import time
import typing as t

from ansible_collections.proxmox_gpu.training.plugins.module_utils import (
    _build_run,
    _extension_source,
    _lock,
    _wheelhouse,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_errors import Build, Cause, classify
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_jobs import Parallel, choose, read_limits
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain import nvcc as choice
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_build import (
    BuildError,
    Built,
    Progress,
    build_wheel,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_check import (
    import_problem,
    modules_in,
    wrong_modules,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_state import JobError, State, Wish
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import base, compiler, distributions
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import toolkit as toolkit_facts
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import (
    WheelError,
    read_record,
    stamp,
    unpack,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import WheelKey

MIB, GIB = 1 << 20, 1 << 30
FULL = (errno.ENOSPC, errno.EDQUOT)


class Job:
    """One wish on this machine: `run` does it. `there` says what is installed and whether there is something to do."""

    def __init__(self, wish: Wish, host: Host | None = None, warn: t.Callable[[str], None] = lambda text: None) -> None:
        self.wish, self.host, self.warn = wish, host or Host(), warn
        self.there = State(wish, self.host)
        self.torch = self.there.torch
        self.log = os.path.join(wish.logs, f"{wish.description.name}.log")
        self.state = os.path.join(_build_run.STATE, "extensions")
        self.progress = Progress(status_path(wish.description.name), wish.what)

    # ---- what is done

    def run(self, force: bool = False) -> dict[str, t.Any]:
        """Do it, and say what was done. Raises JobError, BuildError or SourceError."""
        with self._alone():
            if not force and self.there.needed() is None:
                return {"origin": "done meanwhile by another run"}
            folder = tempfile.mkdtemp(prefix=f"proxmox_gpu-{self.wish.description.name}-", dir=self.wish.tmpdir)
            try:
                self._rotate_log()
                wheel, origin = self._wheel(folder)
                return self._install(wheel, origin) if self.wish.install else self._told(wheel, origin)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                raise self._full() from error
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                self.progress.done()

    def obstacle(self) -> str | None:
        """Why nothing could be built here, as far as that can be known without trying; None if nothing is known."""
        try:
            self._check_tools()
            self._check_room()
            if not (self.wish.description.pure_python or self.wish.prebuilt):
                self._compiler()
        except (JobError, BuildError) as error:
            return str(error)
        except OSError as error:
            return f"{self.wish.what}: {error.strerror}: {error.filename}"
        return None

    def _wheel(self, folder: str) -> tuple[str, str]:
        """(a good wheel of today's key in the wheelhouse, where it came from)."""
        key, known = self.there.asked_key()
        found = self._from_wheelhouse(key, folder) if known else None
        if found:
            return found, "wheelhouse"

        def wait(holder: str) -> None:
            self.progress(f"waiting for its wheel, which {holder} builds")

        limit = self.wish.lock_timeout
        try:
            with _wheelhouse.turn(self.wish.wheelhouse, key, "another run", limit, wait):
                key, known = self.there.asked_key()
                found = self._from_wheelhouse(key, folder) if known else None
                return (found, "wheelhouse") if found else self._new_wheel(folder)
        except _wheelhouse.Busy as error:
            raise JobError("locked", str(error)) from error

    def _new_wheel(self, folder: str) -> tuple[str, str]:
        self._check_room()
        if self.wish.prebuilt:
            wheel = _extension_source.prebuilt(
                self.wish.what, self.wish.prebuilt, self.wish.sha256, folder, ca_bundle=self.wish.ca_bundle
            )
            self._check_wheel(wheel, folder)
            key, origin = self.there.key(self.wish.sha256 or ""), f"prebuilt, from {self.wish.prebuilt}"
            wheel = stamp(wheel, key, {"prebuilt": self.wish.prebuilt}, _made(folder, "stamped"))
            return self._publish(key, wheel), origin
        self._check_tools()
        archive = self.wish.source or self._fetch(folder)
        key = self.there.key(self._checked(archive))
        found = self._from_wheelhouse(key, folder)
        if found:
            return found, "wheelhouse"
        wheel = self._build(archive, key, folder)
        return self._publish(key, wheel), "built"

    def _publish(self, key: WheelKey, wheel: str) -> str:
        try:
            return _wheelhouse.publish(self.wish.wheelhouse, key, wheel)
        except OSError as error:
            size = os.path.getsize(wheel) / MIB
            raise JobError(
                "wheelhouse",
                f"{self.wish.what}: the wheel of {size:.1f} MiB cannot be put into {self.wish.wheelhouse}:"
                f" {error.strerror}; make room there, or set cuda_extensions_wheelhouse to another folder",
            ) from error

    def _from_wheelhouse(self, key: WheelKey, folder: str) -> str | None:
        try:
            found = _wheelhouse.find(self.wish.wheelhouse, key)
        except WheelError as error:
            self.warn(f"{error}; it is built again")
            return None
        if not found:
            return None
        self._check_wheel(found[0], folder)
        return found[0]

    def _fetch(self, folder: str) -> str:
        self.progress("fetching the sources", elapsed=0)
        place = os.path.join(folder, "download")
        os.makedirs(place)
        environment = self._environment(folder, network=True)
        return _extension_source.fetch(
            self._facts(1, read_limits().memory_limit),
            self.wish.description,
            self.wish.version,
            self.wish.sources,
            environment,
            place,
            self.log,
            min(self.wish.timeout, 900.0),
        )

    def _checked(self, archive: str) -> str:
        catalogued = self.wish.description.sha256.get(self.wish.version)
        origin = "cuda_extensions_wanted" if self.wish.sha256 else "the catalogue"
        return _extension_source.check(self.wish.what, archive, self.wish.sha256 or catalogued, origin)

    def _build(self, archive: str, key: WheelKey, folder: str) -> str:
        nvcc = {"version": None} if self.wish.description.pure_python else self._compiler()
        limits = read_limits()
        parallel = choose(limits, self.wish.description.memory_per_process, len(self.wish.targets), self.wish.jobs)
        self.progress.estimate = _wheelhouse.earlier_seconds(self.wish.wheelhouse, key)
        source = _extension_source.unpack(self.wish.what, archive, _made(folder, "source"))
        _extension_source.repair(self.wish.what, self.wish.description, self.torch["version"], source)
        _extension_source.split(self.wish.what, self.wish.description, source)
        built = self._compile(source, folder, parallel, limits.memory_limit)
        unpacked = self._check_wheel(built.wheel, folder)
        provenance = {
            "nvcc": nvcc["version"],
            "gcc": (self.host.run("/usr/bin/gcc", "-dumpfullversion").stdout or "").strip(),
            "seconds": built.seconds,
            "jobs": built.jobs,
            "sources": built.sources,
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "modules": {
                module["name"]: module["gpu_targets"] for module in modules_in(self.wish.description, unpacked)
            },
        }
        return stamp(built.wheel, key, provenance, _made(folder, "stamped"))

    def _compile(self, source: str, folder: str, parallel: Parallel, memory_limit: int | None) -> Built:
        """Build; once more with a single job if a compiler was killed for memory."""
        for jobs in dict.fromkeys((parallel.jobs, 1)):
            attempt = dataclasses.replace(parallel, jobs=jobs, threads=parallel.threads if jobs == parallel.jobs else 1)
            try:
                return build_wheel(
                    self._facts(jobs, memory_limit),
                    self.wish.description,
                    self.wish.targets,
                    attempt,
                    self._environment(folder),
                    source,
                    folder,
                    self.log,
                    self.wish.timeout,
                    self.progress,
                    self.wish.low_priority,
                )
            except BuildError as error:
                if error.cause.id != "memory" or jobs == 1:
                    raise
                self.warn(f"{error.cause.sentence}; tried again with one job")
        raise AssertionError("unreachable: the loop returns or raises")

    def _check_wheel(self, wheel: str, folder: str) -> str:
        """Unpack a wheel, look into it and import it; the folder it lies in. Raises BuildError for one that is no
        good."""
        self.progress("checking the wheel", elapsed=0)
        place = _made(folder, "unpacked")
        unpack(wheel, place)
        what, description = self.wish.what, self.wish.description
        cause = wrong_modules(what, modules_in(description, place), self.wish.targets)
        cause = cause or import_problem(
            self._facts(1, read_limits().memory_limit), description, self._environment(folder), place
        )
        if cause:
            raise BuildError(cause)
        return place

    def _install(self, wheel: str, origin: str) -> dict[str, t.Any]:
        self.progress("installing the wheel", elapsed=0)
        command = [self.torch["python"], "-m", "pip", "install", "--no-deps", "--no-index", "--no-cache-dir"]
        command += ["--disable-pip-version-check", "--force-reinstall", wheel]
        environment = self._environment(self.wish.tmpdir)
        finished = _build_run.run_logged(command, environment, "/", self.log, 600.0, owner=self._owner())
        if finished.status != 0:
            build = self._facts(1, read_limits().memory_limit)
            why = classify(_build_run.read_log(self.log), build, finished.starved)
            if why.id == "no_space":
                text = f"there is no room for it in {self.wish.environment}: free space and run this again"
                why = dataclasses.replace(why, sentence=f"{self.wish.what}: {text}")
            raise BuildError(why)
        cause = import_problem(self._facts(1, None), self.wish.description, environment)
        if cause:
            raise BuildError(cause)
        record = read_record(wheel)
        facts = self.there.installed()
        state = {**record, "wheel": wheel, "origin": origin, "modules": facts.get("modules"), "log": self.log}
        _build_run.write_json(os.path.join(self.state, f"{self.wish.description.name}.json"), state)
        return self._told(wheel, origin)

    def _told(self, wheel: str, origin: str) -> dict[str, t.Any]:
        record = read_record(wheel)
        return {"origin": origin, "wheel": wheel, "key": record["key"], "built": record["built"]}

    # ---- what it needs

    def _owner(self) -> tuple[int, int] | None:
        """Whoever the environment belongs to, if that is somebody else: their pip must be able to replace what we
        install."""
        found = os.stat(self.wish.environment)
        return (found.st_uid, found.st_gid) if os.geteuid() == 0 and found.st_uid != 0 else None

    def _facts(self, jobs: int, memory_limit: int | None) -> Build:
        nvcc = self._nvcc()
        home = choice.home_of(nvcc) if nvcc else "/usr/local/cuda-" + self.torch["cuda"]
        series = ".".join((nvcc["version"] if nvcc else self.torch["cuda"]).split(".")[:2]).replace(".", "-")
        return Build(
            self.wish.what,
            jobs,
            memory_limit,
            self.wish.tmpdir,
            home,
            self.torch["python"],
            self.torch["version"],
            self.torch["cuda"],
            series,
        )

    def _nvcc(self) -> dict[str, t.Any] | None:
        if not hasattr(self, "_found_nvcc"):
            tools = toolkit_facts.observe(self.host, {"environment_path": self.wish.environment})
            self._found_nvcc = choice.chosen(tools.get("nvccs") or [], self.torch["cuda"])
        return self._found_nvcc

    def _compiler(self) -> dict[str, t.Any]:
        """The nvcc to build with. Raises JobError where there is none, or where it does not know a wanted target."""
        nvcc = self._nvcc()
        if not nvcc:
            raise JobError(
                "no_nvcc",
                f"{self.wish.what}: there is no working nvcc for CUDA {self.torch['cuda']}; run the role cuda_toolkit",
            )
        listed = (
            self.host.run(nvcc["path"], "--list-gpu-code").stdout
            + self.host.run(nvcc["path"], "--list-gpu-arch").stdout
        )
        unknown = [target for target in self.wish.targets if listed and target not in listed.split()]
        if unknown:
            raise JobError(
                "gpu_target_unknown",
                f"{self.wish.what}: nvcc {nvcc['version']} cannot compile for {', '.join(unknown)}; it knows"
                f" {', '.join(listed.split())}: change cuda_extensions_gpu_targets, or take a torch of another CUDA",
            )
        if not compiler.ninja(self.host, self.torch):
            # Without it torch compiles one file after the other and never looks at PYTORCH_NVCC: hours.
            raise JobError("no_ninja", f"{self.wish.what}: ninja is missing or does not run; run the role cuda_toolkit")
        headers = distributions.python_headers(self.host, self.torch["path"], self.torch.get("python_version"))
        if headers and not headers.get("exists"):
            cause = classify("fatal error: Python.h: No such file", self._facts(1, None))
            raise BuildError(cause)
        return nvcc

    def _check_tools(self) -> None:
        """Before the sources are fetched, since even that runs their setup."""
        tools = self.torch.get("distributions") or {}
        missing = [name for name in ("pip", "setuptools", "wheel", "packaging") if name not in tools]
        if missing:
            raise JobError(
                "no_build_tool",
                f"{self.wish.what}: {', '.join(missing)} is missing from {self.wish.environment}, and builds take"
                " their tools from there; run the role torch_environment",
            )

    def _check_room(self) -> None:
        free, wanted = shutil.disk_usage(self.wish.tmpdir).free, self.wish.description.disk
        if free < wanted:
            sentence = (
                f"{self.wish.what}: {self.wish.tmpdir} has {free / GIB:.1f} GiB free and the build needs"
                f" {wanted / GIB:.1f}:"
                " free space, or set cuda_extensions_tmpdir to a larger disk"
            )
            raise BuildError(Cause("no_space", sentence, ""))

    def _environment(self, folder: str, network: bool = False) -> dict[str, str]:
        """The build's environment; with ``network`` the caller's proxies and the CA bundle, or the system's, too."""
        variables: dict[str, str] = {}
        if network:
            names = ("http_proxy", "https_proxy", "no_proxy", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
            variables = {name: value for name, value in os.environ.items() if name in names or name.lower() in names}
            if self.wish.ca_bundle:
                variables["PIP_CERT"] = self.wish.ca_bundle
            elif os.path.exists(base.CA_BUNDLE):
                variables.setdefault("PIP_CERT", base.CA_BUNDLE)
        return _build_run.build_environment(self.torch["python"], self._facts(1, None).cuda_home, folder, variables)

    def _rotate_log(self) -> None:
        os.makedirs(self.wish.logs, mode=0o755, exist_ok=True)
        if os.path.exists(self.log):
            os.replace(self.log, f"{self.log}.1")

    def _full(self) -> JobError:
        """What to say of a disk that became full: which one it is, as long as nothing is cleaned up."""
        wish = self.wish
        places = {wish.tmpdir: "cuda_extensions_tmpdir", wish.logs: "cuda_extensions_log_path", self.state: ""}
        full = [place for place in places if os.path.isdir(place) and shutil.disk_usage(place).free < MIB]
        place = (full or [wish.tmpdir])[0]
        larger = f", or set {places[place]} to a larger disk" if places[place] else ""
        return JobError("no_space", f"{wish.what}: the disk that {place} is on became full: free space{larger}")

    @contextlib.contextmanager
    def _alone(self) -> t.Iterator[None]:
        """Wait until no other run works on this extension. The lock goes with its process, however that ends."""
        os.makedirs(self.state, mode=0o755, exist_ok=True)
        with open(os.path.join(self.state, f"{self.wish.description.name}.lock"), "a", encoding="utf-8") as lock:
            if not _lock.acquired(lock, self.wish.lock_timeout):
                limit = f"{self.wish.lock_timeout:.0f} seconds"
                raise JobError("locked", f"{self.wish.what}: another build of it did not end within {limit}")
            yield


def status_path(name: str) -> str:
    """Where the progress of a running build of this extension can be read."""
    return f"/run/proxmox_gpu/{name}.json"


def _made(folder: str, name: str) -> str:
    place = os.path.join(folder, name)
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    return place
