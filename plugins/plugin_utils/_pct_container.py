# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""The way into a container of a node: command lines by a session each, or by the resident runner."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.utils.display import Display
from ansible.utils.path import makedirs_safe, unfrackpath

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import (
    _pct_command,
    _pct_masters,
    _pct_outcome,
    _pct_residence,
    _pct_runner,
    _pct_supervisor,
    _pct_vmid,
)
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._pct_node import NodeConnection

display = Display()


T = t.TypeVar("T")


class ContainerMoved(AnsibleConnectionFailure):
    """The container is on another node, and nothing was run."""

    def __init__(self, sentence: str, node: str) -> None:
        super().__init__(sentence)
        self.node = node


class ContainerConnection(NodeConnection):
    """The node's connection, with each command line going on into one container."""

    @property
    def vmid(self) -> int:
        """The container's id; AnsibleError names the source of one that can't be."""
        value, origin = self.get_option_and_origin("vmid")
        try:
            return _pct_vmid.parse_vmid(value, origin or "unknown")
        except _pct_vmid.VmidError as error:
            raise AnsibleError(str(error)) from None

    def request(self, command: bytes, **details: t.Any) -> _pct_supervisor.Request:
        """Return what the supervisor needs for a shell command line; details are fields of the request."""
        mark, end = _pct_supervisor.new_marks()
        try:
            argv = _pct_command.container_argv(command, mark)
        except ValueError as error:
            raise AnsibleError(str(error)) from None
        method = self.get_option("method")
        return _pct_supervisor.Request(
            vmid=self.vmid,
            method="pct" if method == "auto" and self._fell_back() else method,
            argv=argv,
            mark=mark,
            end=end,
            wait=self.get_option("attach_timeout"),
            **details,
        )

    def line(self, request: _pct_supervisor.Request) -> str:
        """Return the request as a command line for the node's login shell."""
        line = _pct_supervisor.remote_command(request)
        if len(line) > _pct_supervisor.MAX_REMOTE_BYTES:
            raise AnsibleError(
                f"The command is too long for a command line ({len(line)} bytes encoded, "
                f"{_pct_supervisor.MAX_REMOTE_BYTES} at most); put it into a script or a file."
            )
        return line

    def where_it_is(self, run: t.Callable[[], T]) -> T:
        """Do something in the container; when it is on another node whose address is known, do it there."""
        try:
            return run()
        except ContainerMoved as moved:
            place = (self.get_option("node_addresses") or {}).get(moved.node)
            if not place:
                raise
            display.warning(f"Container {self.vmid} is on node {moved.node} now; the play goes on there.")
            self.set_option("host", place["host"])
            if place.get("port"):
                self.set_option("port", place["port"])
            self._known_masters = None
            return run()

    def run_plain(
        self, command: bytes, in_data: bytes | None = None, sudoable: bool = False, locate: bool = False
    ) -> tuple[int, bytes, bytes, _pct_outcome.Report]:
        """Run a command line through a session of its own."""
        prompts = sudoable and getattr(self.become, "prompt", None)
        request = self.request(command, stdin="pass" if in_data or prompts else "null", locate=locate)
        with self._ended_on_error(request):
            rc, stdout, stderr = self.run_on_node(self.line(request), in_data=in_data, sudoable=sudoable)
        stderr, report = self.judge(request, rc, stderr)
        return report.rc, stdout, stderr, report

    def judge(self, request: _pct_supervisor.Request, rc: int, stderr: bytes) -> tuple[bytes, _pct_outcome.Report]:
        """Return the command's own stderr and its report; raise every other outcome as an unreachable host."""
        stderr, report = _pct_outcome.split_report(stderr, request.end)
        if report is None:
            said = to_text(stderr).strip().splitlines()
            raise AnsibleConnectionFailure(
                f"The login on node {self.node} did not run perl to enter container {request.vmid} "
                f"(exit status {rc}): {said[-1] if said else 'it said nothing'}"
            )
        if report.fell:
            self._fell_back(True)
            display.warning(
                f"The login on node {self.node} may not run lxc-attach through sudo; pct exec is used, which costs "
                "0.7 s a command. Add /usr/bin/lxc-attach to its sudoers line, or set pct_method=pct."
            )
        failure = _pct_outcome.classify(report, request.vmid)
        if failure:
            if failure[0] == _pct_outcome.ELSEWHERE and not report.started:
                raise ContainerMoved(failure[1], _pct_outcome.place_of(report.vmlist, report.conf).node)
            raise AnsibleConnectionFailure(failure[1])
        return stderr, report

    def _fell_back(self, now: bool = False) -> bool:
        """Whether lxc-attach was refused to this login lately: asking again would be logged on the node each time."""
        if self.masters is None:
            return False
        path = self.masters.beside("pct")
        if now:
            with open(path, "w", encoding="ascii"):
                pass
        return _pct_masters.age(path) < 600

    @contextlib.contextmanager
    def _ended_on_error(self, request: _pct_supervisor.Request) -> t.Iterator[None]:
        """End the command inside when its task is given up (a timeout, an interrupt, a wrong become password)."""
        try:
            yield
        except AnsibleConnectionFailure:
            raise  # The link is gone: the supervisor notices that by itself.
        except BaseException:
            with contextlib.suppress(Exception):
                self.run_on_node(_pct_supervisor.stop_command(request.end))
            raise

    # The resident runner

    def residence(self) -> _pct_residence.Residence | None:
        """Return the place of the container's runner; None where there is to be none."""
        if not self.get_option("runner"):
            return None
        if self.local:
            directory = unfrackpath(self.get_option("control_path_dir"))
            makedirs_safe(directory, 0o700)
            base = os.path.join(directory, f"pct-local-v{self.vmid}")
        elif self.masters is not None:
            base = self.masters.beside(f"v{self.vmid}")
        else:
            return None
        return _pct_residence.Residence(self, base, self.local, self.get_option("runner_idle"))

    def run_resident(self, command: bytes, in_data: bytes | None) -> tuple[int, bytes, bytes] | None:
        """Let the runner run a command line; None when it can't, and nothing of it was run."""
        residence = self.residence()
        if residence is None:
            return None
        payload = _pct_runner.as_payload(to_text(command, errors="surrogateescape")) if in_data else None
        try:
            with residence.conversation(payload.python if payload else None) as conversation:
                return conversation.run(command, payload, in_data or b"", self._look)
        except _pct_runner.NoRunner as reason:
            display.vvvv(f"PCT EXEC container {self.vmid}: no resident runner, {reason}", host=self.node)
            return None
        except _pct_runner.LostRunner as reason:
            self._look()
            raise AnsibleConnectionFailure(
                f"The way into container {self.vmid} was lost while a task ran there ({reason}); "
                "nothing is known about the task's end."
            ) from None

    def _look(self) -> None:
        """Raise what keeps the container from answering, if anything does. A command may have run: none is repeated."""
        try:
            self.run_plain(b"true")
        except ContainerMoved as moved:
            raise AnsibleConnectionFailure(str(moved)) from None

    def start_runner(self, python: str, program: bytes) -> _pct_residence.Started | None:
        """Start the runner's program with the container's Python."""
        rc, stdout, _stderr, report = self.run_plain(b"exec " + to_bytes(shlex.quote(python)), program, locate=True)
        try:
            return _pct_residence.Started(json.loads(stdout)["path"], report.init, report.sudo) if not rc else None
        except (ValueError, KeyError, TypeError):
            return None

    def forward(self, local: str, remote: str) -> bool:
        """Forward a socket of the controller to one of the node."""
        return self.forward_socket(local, remote)

    def relay(self, command: bytes) -> _pct_residence.ProcessChannel:
        """Start a command in the container whose stdin and stdout are the channel."""
        stack = contextlib.ExitStack()
        line = self.line(self.request(command, relay=False))
        process = stack.enter_context(self.process_on_node(line, subprocess.PIPE, subprocess.PIPE)).process
        return _pct_residence.ProcessChannel(process, stack)
