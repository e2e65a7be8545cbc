# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""The way to the node: ansible-core's ssh plugin with shared connections dealt out, and processes for bulk data."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.plugins.connection.ssh import Connection as SshConnection
from ansible.utils.path import makedirs_safe, unfrackpath

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _pct_masters, _pct_stream

# The socket's own name, and the suffix that ssh adds while it makes one.
_LONGEST_DIRECTORY = 107 - len("/pct-0123456789-00.0123456789abcdef")


#: Seconds for which a new connection is not reset again; fifty hosts of one node may wait for their containers at once.
_FRESH = 5


class NodeConnection(SshConnection):
    """Runs command lines in the node's login shell, or in a local shell when the controller is the node.

    Of the parent's private parts only _build_command is used and extended (the ssh command line for a node): no public
    method gives it, and bulk data can't go through exec_command, which keeps all of it in memory.
    """

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        if not hasattr(SshConnection, "_build_command"):
            raise AnsibleError(
                "The ssh plugin of this ansible-core has no _build_command, which pct_exec needs; use 2.19 to 2.22."
            )
        self._building = False
        self._control_socket: str | None = None
        self._known_masters: _pct_masters.Masters | None = None

    # Options

    def get_option(self, option: str, hostvars: dict[str, object] | None = None) -> t.Any:
        """Return an option; to everybody but the ssh command line, the user is the container's root.

        Action plugins expand ~ and set owners for the connection's remote user; with the node's login they would make
        folders named ~login inside the container.
        """
        if option == "remote_user" and not self._building:
            return "root"
        if option == "control_path" and self._building and self._control_socket:
            return self._control_socket.replace("%", "%%")
        if option == "ssh_executable" and self.local:
            return "/bin/sh"
        return super().get_option(option, hostvars=hostvars)

    @property
    def local(self) -> bool:
        """Whether the controller is the node."""
        return super().get_option("transport") == "local"

    @property
    def node(self) -> str:
        """The node's name or address, as the inventory has it."""
        return to_text(self.get_option("host") or self._play_context.remote_addr)

    # Shared connections

    @property
    def masters(self) -> _pct_masters.Masters | None:
        """The node's masters; None where none are to be dealt out: no ControlPersist, or the user's own ControlPath."""
        if self._known_masters is None and not self.local:
            words = [
                super(NodeConnection, self).get_option(f"ssh_{name}") or ""
                for name in ("args", "common_args", "extra_args")
            ]
            text = " ".join(words).lower()
            if "controlpersist" not in text or "controlpath" in text or super().get_option("control_path"):
                return None
            directory = unfrackpath(self.get_option("control_path_dir"))
            if len(os.fsencode(directory)) > _LONGEST_DIRECTORY:
                raise AnsibleError(
                    f"The name of {directory} is too long for ssh's control sockets ({_LONGEST_DIRECTORY} bytes); "
                    "set ansible_control_path_dir to a shorter one."
                )
            makedirs_safe(directory, 0o700)
            place = (self.node, super().get_option("port"))
            login = (super().get_option("remote_user"), super().get_option("private_key_file"), *words)
            self._known_masters = _pct_masters.Masters(
                directory,
                _digest(*place, *login),
                _digest(*place),
                super().get_option("sessions_per_connection"),
                super().get_option("parallel_logins"),
            )
        return self._known_masters

    @contextlib.contextmanager
    def _session(self) -> t.Iterator[None]:
        """Hold one of the node's sessions; a nested one shares the outer's connection."""
        if self._control_socket or self.masters is None:
            yield
            return
        try:
            with self.masters.session(self._start_master) as self._control_socket:
                yield
        except _pct_masters.StartFailed as error:
            raise AnsibleConnectionFailure(str(error)) from None
        finally:
            self._control_socket = None

    def _start_master(self, path: str) -> None:
        self._control_socket = path
        super().exec_command("true", sudoable=False)

    # Commands

    def _build_command(self, binary: str, subsystem: str, *other_args: bytes | str) -> list[bytes]:
        if self.local:
            return [b"/bin/sh", b"-c", to_bytes(other_args[-1])]
        self._building = True
        try:
            # -T last: a terminal asked for in ssh_args would damage output and mix stderr into it.
            command = super()._build_command(binary, subsystem, "-T", *other_args)
        finally:
            self._building = False
        place = command.index(to_bytes(binary))
        return command[:place] + _tied_to_us() + command[place:]

    def run_on_node(self, line: str, in_data: bytes | None = None, sudoable: bool = False) -> tuple[int, bytes, bytes]:
        """Run a command line in the node's login shell. An ssh failure (255) is raised as an unreachable host."""
        with self._session():
            return super().exec_command(line, in_data=in_data, sudoable=sudoable)

    @property
    def can_stream(self) -> bool:
        """Whether a process of its own can use the connection: not where each login needs a password."""
        return self.local or self.masters is not None or not super().get_option("password")

    def _node_command(self, *args: str) -> list[bytes]:
        """Return the command of an ssh client that logs in by itself or through a master that has done so."""
        self.host = self.node
        executable = self.get_option("ssh_executable")
        command = self._build_command(executable, "ssh", *args)
        if self.local:
            return command
        # ansible-core 2.19 puts sshpass in front where a password is set; the master has logged in already.
        return _tied_to_us() + command[command.index(to_bytes(executable)) :]

    def forward_socket(self, local: str, remote: str) -> bool:
        """Make the node's sshd forward a socket of the controller to one of the node, while the master lives."""
        with self._session(), contextlib.suppress(subprocess.TimeoutExpired):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(local)
            command = self._node_command("-O", "forward", "-L", f"{local}:{remote}", self.node)
            return not subprocess.run(command, capture_output=True, timeout=10, check=False).returncode
        return False

    @contextlib.contextmanager
    def process_on_node(self, line: str, stdin: int, stdout: int) -> t.Iterator[NodeProcess]:
        """Start a command line in the node's login shell for bulk data; wait for it at the end, end it on errors."""
        timeout = self.get_option("transfer_timeout")
        with self._session(), tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(self._node_command(self.node, line), stdin=stdin, stdout=stdout, stderr=errors)
            result = NodeProcess(process, _pct_stream.Stream(process, timeout))
            try:
                yield result
                result.stream.finish()
            except _pct_stream.Stalled:
                raise AnsibleConnectionFailure(
                    f"A transfer through node {self.node} made no progress for {timeout} s and was given up."
                ) from None
            finally:
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe:
                        with contextlib.suppress(OSError):
                            pipe.close()
            errors.seek(0)
            result.stderr = errors.read()
        result.rc = process.returncode
        if result.rc == 255 and not self.local:
            said = to_text(result.stderr).strip()
            raise AnsibleConnectionFailure(f"The ssh link to node {self.node} failed during a transfer: {said}")

    def reset(self) -> None:
        """Let the next task log in anew."""
        if self.local:
            return
        for path in self.masters.sockets() if self.masters else [None]:
            # A connection that another host's reset has just renewed is left alone.
            if path and _pct_masters.age(path) < _FRESH:
                continue
            self._control_socket = path
            try:
                super().reset()
            finally:
                self._control_socket = None


class NodeProcess:
    """A process started by process_on_node: its stream, and after the end its exit status and stderr."""

    def __init__(self, process: subprocess.Popen[bytes], stream: _pct_stream.Stream) -> None:
        self.process = process
        self.stream = stream
        self.rc = -1
        self.stderr = b""


@functools.cache
def _tied_to_us() -> list[bytes]:
    """Return the words that make an ssh client end with the worker that started it, however that ends.

    Ansible's workers leave their ssh client alone when they are killed, and the task would go on in the container.
    Empty where util-linux is missing or older than 2.33: each task asks anew, so its program is searched for the
    option's name instead of being run. A master is a child of its client and lives on.
    """
    program = shutil.which("setpriv")
    with contextlib.suppress(OSError):
        if program and b"pdeathsig" in pathlib.Path(program).read_bytes():
            return [b"setpriv", b"--pdeathsig", b"TERM"]
    return []


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr([str(part) for part in parts]).encode("utf-8")).hexdigest()[:10]
