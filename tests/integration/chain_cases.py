# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the recipes of tests/integration/cases: all messes at once, each in a container of its own.

One diagnose looks at all containers, one provision repairs those that a role can repair, and one diagnose and one more
provision look at the result. So 90 cases cost little more than the slowest repair.
"""

from __future__ import annotations

import base64
import fcntl
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests import prepared
from tests.integration.box import Box
from tests.integration.standins import pack

FOLDER = Path(__file__).parent / "cases"
FIRST = 400
BUILDER = 399
FORKS = "4"
#: What all hosts here wish for: the stand-in for causal-conv1d, which compiles in seconds, for one GPU.
WISHES = {
    "cuda_extensions_wanted": [pack.wish()],
    "cuda_extensions_gpu_targets": ["9.0"],
    "cuda_extensions_shared_wheelhouse": "",
}
STATE = r"""
dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' | grep -v '  *[rp][cn] *$'
ls /opt/training/lib/python3.11/site-packages | grep 'dist-info$'
cd / && md5sum etc/environment etc/profile etc/profile.d/* root/.bashrc root/.profile etc/apt/sources.list* \
    etc/apt/sources.list.d/* etc/apt/preferences.d/* etc/apt/apt.conf.d/* usr/share/keyrings/* 2>/dev/null; true
"""


@dataclass(frozen=True)
class Case:
    """One recipe; cases/README.md says what the fields mean."""

    file: str
    name: str
    finding: str
    mess: str = ""
    start: str = "toolkit"
    rows: tuple[int, ...] = ()
    combine: tuple[str, ...] = ()
    node: str = ""
    words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    consequences: tuple[str, ...] = ()
    then: str | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    repair: str = "provision"
    repair_variables: dict[str, Any] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    reason: str = ""

    @property
    def harmless(self) -> bool:
        """Whether diagnose must find nothing at all."""
        return self.finding == "nothing"

    @property
    def identity(self) -> str:
        return f"{self.file}: {self.name}"


def load(folder: Path = FOLDER) -> list[Case]:
    """All recipes, in the order of the files. TypeError for a field that is none."""
    found = []
    for path in sorted(folder.glob("*.yml")):
        for item in yaml.safe_load(path.read_text(encoding="utf-8")) or []:
            lists = {key: tuple(value) for key, value in item.items() if isinstance(value, list)}
            found.append(Case(file=path.stem, **{**item, **lists}))
    return found


def place_standin(box: Box, vmid: int) -> None:
    """Put the stand-in's source archive where the wish says."""
    text = base64.b64encode(pack.archive("causal_conv1d")).decode()
    command = f"mkdir -p {pack.PLACE} && base64 -d > {pack.wish()['source']}"
    done = box.attach(vmid, command, stdin=text)
    assert done.returncode == 0, done.stderr


def snapshot(box: Box, start: str) -> str:
    """The snapshot that a case starts from, made when the box has none; "finished" is "toolkit" and what follows."""
    if start != "finished":
        return prepared.snapshot(start)
    with open(box.layout.state / "finished.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (box.layout.snapshots / start / "snapshot.json").exists():
            _finish(box, start)
    return start


def _finish(box: Box, name: str) -> None:
    box.testbed("create", str(BUILDER))
    try:
        box.testbed("fresh", str(BUILDER), "--from", prepared.snapshot("toolkit"))
        place_standin(box, BUILDER)
        box.run_playbook("proxmox_gpu.training.provision", limit=f"ct{BUILDER}", extra_vars=WISHES, timeout=1800).ok()
        box.testbed("snapshot", str(BUILDER), name)
    finally:
        box.testbed("remove", str(BUILDER))


class Ward:
    """The containers of some cases: made, messed up, looked at, repaired."""

    def __init__(self, box: Box, cases: list[Case], folder: Path, first: int = FIRST) -> None:
        self.box = box
        self.folder = folder
        self.vmids = {case.identity: first + index for index, case in enumerate(cases)}
        self.cases = cases
        #: {identity: why} of the messes that could not be made.
        self.unmade: dict[str, str] = {}

    def host(self, case: Case) -> str:
        return f"ct{self.vmids[case.identity]}"

    def make(self) -> None:
        ids = ",".join(str(vmid) for vmid in self.vmids.values())
        self.box.testbed("create", ids)
        for start, options in sorted({(case.start, case.options) for case in self.cases}):
            mine = [
                str(self.vmids[case.identity]) for case in self.cases if (case.start, case.options) == (start, options)
            ]
            source = () if start == "bare" else ("--from", snapshot(self.box, start))
            self.box.testbed("fresh", ",".join(mine), *options, *source)
        mirror = self._mirror()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda case: self._try(case, mirror), self.cases))

    def _try(self, case: Case, mirror: str) -> None:
        """A mess that cannot be made is the fault of its own case alone."""
        try:
            self.mess_up(case, mirror)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self.unmade[case.identity] = str(error)

    def mess_up(self, case: Case, mirror: str) -> None:
        vmid = self.vmids[case.identity]
        if case.start not in ("bare", "finished"):
            place_standin(self.box, vmid)
        prelude = (FOLDER / "prelude.sh").read_text(encoding="utf-8")
        for mess in [*[self._named(name).mess for name in case.combine], case.mess]:
            if mess:
                script = f"MIRROR={mirror}\n{prelude}\n{mess}\n"
                done = self.box.attach(vmid, "/bin/sh -s", stdin=script, timeout=300)
                assert done.returncode == 0, f"{case.identity}: {done.stdout}{done.stderr}"
        if case.node:
            done = self.box.node("/bin/sh", "-c", case.node, environment={"VMID": str(vmid)})
            assert done.returncode == 0, f"{case.identity}: {done.stdout}{done.stderr}"

    def _named(self, name: str) -> Case:
        [found] = [case for case in self.cases if case.name == name]
        return found

    def _mirror(self) -> str:
        text = self.box.inventory.read_text(encoding="utf-8")
        inventory = json.loads(text[text.index("{") :])
        return str(inventory["all"]["children"]["training"]["vars"]["cuda_repository_mirror"])

    def variables(self, repair: bool = False) -> Path:
        """A second inventory with what each case wishes for its host."""
        hosts = {
            self.host(case): {**WISHES, **case.variables, **(case.repair_variables if repair else {})}
            for case in self.cases
        }
        path = self.folder / "variables.yml"
        path.write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        return path

    def diagnose(self, cases: list[Case], check: bool = False) -> dict[str, dict[str, Any]]:
        """{identity: chain} of these cases' hosts. check: in check mode, in which no report is written."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        wishes = {"diagnose_format": "json", "diagnose_path": str(report), "diagnose_fail_on": []}
        result = self.box.run_playbook(
            "proxmox_gpu.training.diagnose",
            limit=",".join(map(self.host, cases)),
            extra_vars=wishes,
            check=check,
            arguments=("-i", str(self.variables()), "--forks", FORKS),
            timeout=1200,
        )
        assert report.exists() != check, result.output[-4000:]
        text = result.output if check else report.read_text()
        hosts = json.JSONDecoder().raw_decode(text[text.index("{\n") :])[0]["hosts"]
        return {case.identity: hosts[self.host(case)] for case in cases}

    def provision(self, cases: list[Case]) -> dict[str, dict[str, int]]:
        """{identity: recap} of these cases' hosts: ok, changed, failures, unreachable."""
        result = self.box.run_playbook(
            "proxmox_gpu.training.provision",
            limit=",".join(map(self.host, cases)),
            arguments=("-i", str(self.variables(repair=True)), "--forks", FORKS),
            timeout=3600,
        )
        (self.folder / "provision.txt").write_text(result.output)
        return {case.identity: result.recap[self.host(case)] for case in cases}

    def state(self, case: Case) -> set[str]:
        """What a repair must not touch unasked, a line each: packages, holds, Python packages, a person's own files."""
        done = self.box.attach(self.vmids[case.identity], "/bin/sh -s", stdin=STATE)
        assert done.returncode == 0, f"{case.identity}: {done.stderr}"
        return set(done.stdout.splitlines())

    def remove(self) -> None:
        self.box.testbed("remove", ",".join(str(vmid) for vmid in self.vmids.values()))
