# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cuda_extension on the control node: start the build in the container, and tell the person how far it is.

A build takes minutes to hours. It runs there by Ansible's own async wrapper, so a lost connection does not end it,
and what it is at is read from its status file with one small command at a time.

Around it is the wheelhouse that containers share: a wheel that is there is handed in, so that the module finds it in
the container; a new one is fetched and put there. Of several that want the same wheel one builds, the others wait.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_run import without_logins
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import WheelError, read_record
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import (
    WheelKey,
    key_from_dict,
    normalise_name,
)
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _background
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._build_progress import Reporter
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._shared_wheelhouse import Folder, Served, shared

MODULE = "proxmox_gpu.training.cuda_extension"
STATUS = "/run/proxmox_gpu/{name}.json"
SPARE = 1800  # seconds beside the build: fetching, checking, installing, waiting for another run

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _estimate: float | None = None

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        del tmp
        variables = task_vars or {}
        asked = self._ask(variables)
        place = str(self._task.args.get("shared_wheelhouse") or "")
        if asked.get("failed") or not (asked.get("changed") or (place and asked.get("key"))):
            return {**result, **asked}
        if not place or not asked.get("key"):
            return {**result, **(asked if self._task.check_mode else self._build(variables))}
        try:
            with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
                visit = _Visit(self, shared(place), asked, folder)
                foreseen = visit.foreseen()
                if self._task.check_mode or not foreseen["changed"]:
                    return {**result, **foreseen}
                return {**result, **visit.bring(variables)}
        except _wheelhouse.Busy as error:
            return {**result, "failed": True, "msg": str(error), "cause": "locked"}
        except (OSError, WheelError) as error:
            where = f"The wheelhouse {without_logins(place)} (cuda_extensions_shared_wheelhouse) cannot be used"
            return {
                **result,
                "failed": True,
                "cause": "wheelhouse",
                "msg": f"{where}: {_why(error)}; name another one, or none",
            }

    def _ask(self, variables: dict[str, Any]) -> dict[str, Any]:
        return _background.ask(self, MODULE, variables)

    def _build(self, variables: dict[str, Any]) -> dict[str, Any]:
        limit = int(self._task.args.get("timeout") or 7200) + SPARE
        status = shlex.quote(STATUS.format(name=normalise_name(str(self._task.args.get("name")))))
        command = (
            f"cat {status} 2>/dev/null; echo; echo '#alive#';"
            f" pid=$(sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p' {status} 2>/dev/null);"
            ' [ -n "$pid" ] && [ -d /proc/$pid ] && echo yes'
        )
        host = str(variables.get("inventory_hostname") or "")
        reporter = Reporter(host, display.display, estimate=self._estimate)
        done, last = _background.run(self, MODULE, variables, limit, command, _progress, reporter.show, "The build")
        return self._vanished(last) if done is None else done

    def _vanished(self, last: dict[str, Any]) -> dict[str, Any]:
        """The result of a build that left none, by its last status and the kernel's count of what it killed."""
        files = "/sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control"
        said = self._low_level_execute_command(f"cat {files} 2>/dev/null; true", sudoable=True).get("stdout") or ""
        counts = [int(number) for number in re.findall(r"^oom_kill (\d+)$", str(said), re.MULTILINE)]
        if max(counts, default=0) > int(last.get("kills") or 0):
            why = f"was killed for lack of memory ({last.get('jobs') or 1} compiler processes at once): set"
            why += " cuda_extensions_jobs: 1, or give the container more memory"
            return {"failed": True, "cause": "memory", "msg": f"{last.get('what') or 'The build'}: the build {why}."}
        return {
            "failed": True,
            "msg": "The build in the container ended without leaving a result: the container was restarted, or"
            " the process was killed. Run the playbook again; see the log in the container.",
        }


def _progress(output: str) -> tuple[dict[str, Any], bool]:
    """(what the build is at, whether its process lives)"""
    text, _mark, alive = output.partition("#alive#")
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        found = {}
    return found, alive.strip() == "yes"


def _why(error: Exception) -> str:
    """What is wrong, and with which file, without Python's way of saying it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


class _Visit:
    """One container's visit to the shared wheelhouse, for the wheel that the module's answer ``asked`` speaks of."""

    def __init__(self, action: ActionModule, house: Folder | Served, asked: dict[str, Any], folder: str) -> None:
        self.action, self.house, self.asked, self.folder = action, house, asked, folder
        self.args = action._task.args
        self.built_only = self.args.get("state") == "built"
        self.warnings: list[str] = []

    def foreseen(self) -> dict[str, Any]:
        """The module's answer in check mode, with what the shared house knows."""
        key, known = self._key()
        there = known and self._look(key) is not None
        answer = {**self.asked, "key": key.as_dict(), "digest": key.digest(), "key_known": known}
        if there:
            answer.update(available=True, obstacle=None)
        if self.built_only:
            answer.update(changed=not there, available=there)
        return self._warned(answer)

    def bring(self, variables: dict[str, Any]) -> dict[str, Any]:
        host = str(variables.get("inventory_hostname") or "a container")
        if self.built_only and self.asked.get("wheel"):
            result = {**self.asked, "changed": True, "origin": "the container's wheelhouse"}
            return self._warned(self._take_out(str(self.asked["wheel"]), self._key()[0], result))
        if self._hand_in():
            return self._warned(self.action._build(variables))
        limit = float(self.args.get("shared_wheelhouse_timeout") or 7200)
        said = 0.0

        def wait(holder: str) -> None:
            nonlocal said
            if time.monotonic() - said > 60:
                said = time.monotonic()
                display.display(f"{host}: {self.args.get('name')}: waiting for its wheel, which {holder} builds")

        key, _known = self._key()
        with self.house.turn(key, host, limit, wait):
            handed = self._hand_in()
            self.action._estimate = self.house.earlier_seconds(key)
            result = self.action._build(variables)
            if not handed and not result.get("failed") and result.get("wheel"):
                result = self._take_out(str(result["wheel"]), key_from_dict(result["key"]), result)
            return self._warned(result)

    def _key(self) -> tuple[WheelKey, bool]:
        """(the wanted key, whether it is the whole one): the house may know the sources that the container does not."""
        fields, known = dict(self.asked["key"]), bool(self.asked.get("key_known"))
        if not known and not self.args.get("source"):
            try:
                checksum = self.house.source_sha256(fields["package"], fields["version"])
            except WheelError as error:
                self._warn(f"{error}; it is not used")
                checksum = None
            fields, known = ({**fields, "source_sha256": checksum}, True) if checksum else (fields, False)
        return key_from_dict(fields), known

    def _look(self, key: WheelKey) -> str | None:
        try:
            return self.house.get(key, self.folder)
        except WheelError as error:
            self._warn(f"{error}; it is not used")
            return None

    def _hand_in(self) -> bool:
        """Put the wheel into the container's own wheelhouse; whether there was one, there or here."""
        if self.asked.get("available"):
            return False  # the container has it, and the house gets it from there
        key, known = self._key()
        wheel = self._look(key) if known else None
        if not wheel:
            return False
        inside = str(self.args.get("wheelhouse") or "/var/cache/proxmox_gpu/wheelhouse")
        try:
            self._copy_in(wheel, key, inside)
        except OSError as error:
            self._warn(f"{os.path.basename(wheel)} could not be handed into {inside}: {_why(error)}; it is built there")
            return False
        return True

    def _copy_in(self, wheel: str, key: WheelKey, inside: str) -> None:
        staged = os.path.join(self.folder, "house")
        _wheelhouse.publish(staged, key, wheel)
        temporary = self.action._make_tmp_path()
        try:
            # The manifest last: with it the wheel is there.
            relative = f"{_wheelhouse.set_of(key)}/{os.path.basename(wheel)}"
            for name in (relative, _wheelhouse.source_path(key.package, key.version), _wheelhouse.manifest_path(key)):
                remote = self.action._connection._shell.join_path(temporary, "part")
                self.action._transfer_file(os.path.join(staged, name), remote)
                target, place = shlex.quote(f"{inside}/{name}"), shlex.quote(os.path.dirname(f"{inside}/{name}"))
                # A half one has a name of those that the clean-up removes, and of its own where containers share this.
                script = f"mkdir -p {place} && new=$(mktemp {place}/{_wheelhouse.NEW}XXXXXX) &&"
                script += f' {{ cp {shlex.quote(remote)} "$new" && chmod 644 "$new" && mv -f "$new" {target}'
                script += ' || { rm -f "$new"; false; }; }'
                done = self.action._low_level_execute_command(script, sudoable=True)
                if done.get("rc"):
                    raise OSError(str(done.get("stderr") or done.get("stdout")).strip())
        finally:
            self.action._remove_tmp_path(temporary)

    def _take_out(self, wheel: str, key: WheelKey, result: dict[str, Any]) -> dict[str, Any]:
        """Put the container's wheel into the house; the task's result. What keeps it out is a warning where the
        container has what it needs, and a failure where nothing else was asked for."""
        local = os.path.join(self.folder, os.path.basename(wheel))
        if not self.house.wants(key):
            return result
        try:
            self.action._connection.fetch_file(wheel, local)
            read_record(local)
            self.house.put(key, local)
        except (WheelError, OSError) as error:
            text = f"{os.path.basename(wheel)} could not be put into the shared wheelhouse: {_why(error)}"
            if self.built_only:
                return {**result, "failed": True, "cause": "wheelhouse", "msg": f"{text}; it is kept as {wheel}"}
            self._warn(text)
        return result

    def _warn(self, text: object) -> None:
        if str(text) not in self.warnings:
            self.warnings.append(str(text))

    def _warned(self, result: dict[str, Any]) -> dict[str, Any]:
        both = [*(result.get("warnings") or []), *self.warnings]
        return {**result, **({"warnings": both} if both else {})}
