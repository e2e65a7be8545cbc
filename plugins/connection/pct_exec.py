# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: pct_exec
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
version_added: 0.1.0
short_description: Run tasks in an LXC container of a Proxmox node, addressed by its id
description:
  - Reaches the node with the OpenSSH client, as ansible-core's own P(ansible.builtin.ssh#connection) plugin does (ControlPersist, jump
    hosts, host key checking, passwords and retries work as they do there), and enters the container there.
  - Enters with C(lxc-attach), which costs about 5 ms. C(pct exec), which ends in the same C(lxc-attach) after 700 to 900 ms of start-up, is
    used on request, or where the node's login may not run C(lxc-attach).
  - Nothing has to be installed or to listen in the container. Only tasks that are Python modules need a python3 there.
  - Commands run as the container's root, with an environment, working directory and umask set by this plugin; nothing of the node's
    environment gets in. Use C(become) for other users of the container.
  - The files of a task are streamed through the same channel, compared by size and SHA-256, and get their name by one rename.
  - A container that is stopped, frozen, missing or on another node is told apart from a command that fails, whatever that command prints.
notes:
  - The options V(host) to V(verbosity) of the ssh plugin are about the node; O(remote_user) is the node's login.
  - The node needs C(perl), which each Proxmox node has.
  - A terminal is never asked for on the node, since it would damage binary output and mix stderr into stdout.
  - M(ansible.posix.synchronize) can't go through this plugin; use M(ansible.builtin.copy) or M(ansible.builtin.unarchive) instead.
options:
  vmid:
    description:
      - The container's id, a whole number from V(100) to V(999999999).
      - The variable P(community.proxmox.proxmox#inventory) sets, C(proxmox_vmid), is understood as well. C(pct_vmid) wins.
    type: raw
    required: true
    vars:
      - name: proxmox_vmid
      - name: pct_vmid
    env:
      - name: PROXMOX_GPU_PCT_VMID
    ini:
      - section: pct_exec
        key: vmid
  method:
    description: How the container is entered on the node.
    type: string
    default: auto
    choices:
      auto: C(lxc-attach); where the node's login may not run it through sudo, C(pct exec), and a warning says so.
      lxc-attach: C(lxc-attach) alone.
      pct: C(pct exec) alone, for logins that may run nothing else.
    vars:
      - name: pct_method
    env:
      - name: PROXMOX_GPU_PCT_METHOD
    ini:
      - section: pct_exec
        key: method
  transport:
    description: How the node is reached.
    type: string
    default: ssh
    choices:
      ssh: With the OpenSSH client.
      local: Not at all, the controller is the node itself.
    vars:
      - name: pct_transport
    env:
      - name: PROXMOX_GPU_PCT_TRANSPORT
    ini:
      - section: pct_exec
        key: transport
  attach_timeout:
    description:
      - Seconds until the container has to have taken a command. It says nothing about how long the command may run.
      - A frozen container is noticed sooner, after 3 seconds at the latest.
    type: int
    default: 60
    vars:
      - name: pct_attach_timeout
    env:
      - name: PROXMOX_GPU_PCT_ATTACH_TIMEOUT
    ini:
      - section: pct_exec
        key: attach_timeout
  transfer_timeout:
    description: Seconds without any progress after which the transfer of a file is given up.
    type: int
    default: 120
    vars:
      - name: pct_transfer_timeout
    env:
      - name: PROXMOX_GPU_PCT_TRANSFER_TIMEOUT
    ini:
      - section: pct_exec
        key: transfer_timeout
  host:
    description: Name or address of the node.
    type: string
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
      - name: ansible_ssh_host
  port:
    description: Port of the node's ssh server.
    type: int
    vars:
      - name: ansible_port
      - name: ansible_ssh_port
    env:
      - name: ANSIBLE_REMOTE_PORT
    ini:
      - section: defaults
        key: remote_port
    keyword:
      - name: port
  remote_user:
    description:
      - The login on the node. Any other than root has to be allowed C(lxc-attach) or C(pct) through sudo without a password.
      - Modules see the container's root as their user, whatever this says.
    type: string
    vars:
      - name: ansible_user
      - name: ansible_ssh_user
    env:
      - name: ANSIBLE_REMOTE_USER
    ini:
      - section: defaults
        key: remote_user
    cli:
      - name: user
    keyword:
      - name: remote_user
  password:
    description: Password of the node's login, where no key is used.
    type: string
    vars:
      - name: ansible_password
      - name: ansible_ssh_pass
      - name: ansible_ssh_password
  password_mechanism:
    description: How the ssh client is given the password.
    type: string
    default: ssh_askpass
    choices: [ssh_askpass, sshpass, disable]
    vars:
      - name: ansible_ssh_password_mechanism
    env:
      - name: ANSIBLE_SSH_PASSWORD_MECHANISM
    ini:
      - section: ssh_connection
        key: password_mechanism
  sshpass_prompt:
    description: The password prompt to wait for, where it is not the usual one.
    type: string
    default: ''
    vars:
      - name: ansible_sshpass_prompt
    env:
      - name: ANSIBLE_SSHPASS_PROMPT
    ini:
      - section: ssh_connection
        key: sshpass_prompt
  private_key_file:
    description: Path of the private key for the node's login.
    type: string
    vars:
      - name: ansible_private_key_file
      - name: ansible_ssh_private_key_file
    env:
      - name: ANSIBLE_PRIVATE_KEY_FILE
    ini:
      - section: defaults
        key: private_key_file
    cli:
      - name: private_key_file
        option: '--private-key'
  private_key:
    description: The private key itself, in PEM format. Needs ansible-core's SSH_AGENT setting.
    type: string
    vars:
      - name: ansible_private_key
      - name: ansible_ssh_private_key
    env:
      - name: ANSIBLE_PRIVATE_KEY
  private_key_passphrase:
    description: Passphrase of O(private_key).
    type: string
    vars:
      - name: ansible_private_key_passphrase
      - name: ansible_ssh_private_key_passphrase
    env:
      - name: ANSIBLE_PRIVATE_KEY_PASSPHRASE
  pkcs11_provider:
    description: PKCS11 provider library for a smart card.
    type: string
    default: ''
    vars:
      - name: ansible_ssh_pkcs11_provider
    env:
      - name: ANSIBLE_PKCS11_PROVIDER
    ini:
      - section: ssh_connection
        key: pkcs11_provider
  host_key_checking:
    description: Whether the node's host key is checked.
    type: boolean
    default: true
    vars:
      - name: ansible_host_key_checking
      - name: ansible_ssh_host_key_checking
    env:
      - name: ANSIBLE_HOST_KEY_CHECKING
      - name: ANSIBLE_SSH_HOST_KEY_CHECKING
    ini:
      - section: defaults
        key: host_key_checking
      - section: ssh_connection
        key: host_key_checking
  ssh_args:
    description:
      - Arguments for the ssh client.
      - Unlike the ssh plugin's, the default does not compress, and it notices a dead link after a minute.
    type: string
    default: '-o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=15 -o ServerAliveCountMax=4'
    vars:
      - name: ansible_ssh_args
    env:
      - name: ANSIBLE_SSH_ARGS
    ini:
      - section: ssh_connection
        key: ssh_args
  ssh_common_args:
    description: More arguments for the ssh client, for example C(-J jumphost) or a known_hosts file.
    type: string
    default: ''
    vars:
      - name: ansible_ssh_common_args
    env:
      - name: ANSIBLE_SSH_COMMON_ARGS
    ini:
      - section: ssh_connection
        key: ssh_common_args
    cli:
      - name: ssh_common_args
  ssh_extra_args:
    description: Still more arguments for the ssh client.
    type: string
    default: ''
    vars:
      - name: ansible_ssh_extra_args
    env:
      - name: ANSIBLE_SSH_EXTRA_ARGS
    ini:
      - section: ssh_connection
        key: ssh_extra_args
    cli:
      - name: ssh_extra_args
  ssh_executable:
    description: The ssh client.
    type: string
    default: ssh
    vars:
      - name: ansible_ssh_executable
    env:
      - name: ANSIBLE_SSH_EXECUTABLE
    ini:
      - section: ssh_connection
        key: ssh_executable
  reconnection_retries:
    description:
      - How often a failed connection to the node is tried again.
      - The ssh client alone decides that a connection failed; a command that ends with 255 inside the container is never run again.
    type: integer
    default: 0
    vars:
      - name: ansible_ssh_retries
    env:
      - name: ANSIBLE_SSH_RETRIES
    ini:
      - section: connection
        key: retries
      - section: ssh_connection
        key: retries
  pipelining:
    description: Whether modules are sent through stdin, without a file in the container. On by default, unlike elsewhere.
    type: boolean
    default: true
    vars:
      - name: ansible_pipelining
      - name: ansible_ssh_pipelining
    env:
      - name: ANSIBLE_PIPELINING
      - name: ANSIBLE_SSH_PIPELINING
    ini:
      - section: defaults
        key: pipelining
      - section: connection
        key: pipelining
      - section: ssh_connection
        key: pipelining
  control_path:
    description:
      - Where the control socket is. When this is set, this plugin leaves the shared connections to the ssh client.
      - C(%(directory\)s) stands for O(control_path_dir).
    type: string
    vars:
      - name: ansible_control_path
    env:
      - name: ANSIBLE_SSH_CONTROL_PATH
    ini:
      - section: ssh_connection
        key: control_path
  control_path_dir:
    description: The folder of the control sockets.
    type: string
    default: ~/.ansible/cp
    vars:
      - name: ansible_control_path_dir
    env:
      - name: ANSIBLE_SSH_CONTROL_PATH_DIR
    ini:
      - section: ssh_connection
        key: control_path_dir
  use_tty:
    description: Part of the ssh plugin's options; a terminal is never asked for.
    type: bool
    default: false
    vars:
      - name: ansible_ssh_use_tty
  timeout:
    description: Seconds for the connection to the node, and for a privilege escalation prompt.
    type: integer
    default: 10
    vars:
      - name: ansible_ssh_timeout
    env:
      - name: ANSIBLE_TIMEOUT
      - name: ANSIBLE_SSH_TIMEOUT
    ini:
      - section: defaults
        key: timeout
      - section: ssh_connection
        key: timeout
    cli:
      - name: timeout
  verbosity:
    description: Verbosity of the ssh client.
    type: int
    default: 0
    vars:
      - name: ansible_ssh_verbosity
    env:
      - name: ANSIBLE_SSH_VERBOSITY
    ini:
      - section: ssh_connection
        key: verbosity
"""

EXAMPLES = r"""
# inventory.yml: two containers behind one node. ansible_host, ansible_port, ansible_user and the key are the node's.
---
all:
  children:
    training:
      hosts:
        trainer-a:
          pct_vmid: 200
        trainer-b:
          pct_vmid: 201
      vars:
        ansible_connection: proxmox_gpu.training.pct_exec
        ansible_host: pve1.example.org
        ansible_user: root
        ansible_ssh_private_key_file: ~/.ssh/pve

# A login that is not root needs one line in the node's /etc/sudoers.d/ansible (both commands make it root on the node):
#   ansible ALL=(root) NOPASSWD: /usr/bin/lxc-attach, /usr/bin/lxc-info, /usr/sbin/pct
# or, for pct alone (0.7 s more for each command), together with pct_method=pct:
#   ansible ALL=(root) NOPASSWD: /usr/sbin/pct

# On the node itself, without ssh:
#   ansible-playbook -i localhost, -e pct_transport=local -e pct_vmid=200 -e ansible_connection=proxmox_gpu.training.pct_exec site.yml
"""

import contextlib
import hashlib
import os
import select
import stat
import subprocess
import tempfile
import time
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_native, to_text
from ansible.plugins.connection.ssh import Connection as SshConnection
from ansible.utils.display import Display

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import (
    _pct_command,
    _pct_outcome,
    _pct_supervisor,
    _pct_transfer,
    _pct_vmid,
)

display = Display()

_BLOCK = 1 << 20


class Connection(SshConnection):
    """The node's ssh connection, with each command and file going on into one container.

    Of the parent's private parts only _build_command is used and extended (the ssh command line for a node): no public
    method gives it, and bulk data can't go through exec_command, which keeps all of it in memory.
    """

    transport = "proxmox_gpu.training.pct_exec"
    has_pipelining = True

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        if not hasattr(SshConnection, "_build_command"):
            raise AnsibleError(
                "This ansible-core's ssh plugin no longer builds its command line in _build_command; use ansible-core 2.19 to 2.22."
            )
        self._for_node = False

    # Options

    def get_option(self, option: str, hostvars: dict[str, object] | None = None) -> t.Any:
        """Return an option; to everybody but the ssh command line, the user is the container's root.

        Action plugins expand ~ and set owners for the connection's remote user; with the node's login they would make
        folders named ~login inside the container.
        """
        if option == "remote_user" and not self._for_node:
            return "root"
        if option == "ssh_executable" and self._local:
            return "/bin/sh"
        return super().get_option(option, hostvars=hostvars)

    @property
    def _local(self) -> bool:
        return super().get_option("transport") == "local"

    def _vmid(self) -> int:
        value, origin = self.get_option_and_origin("vmid")
        try:
            return _pct_vmid.parse_vmid(value, origin or "unknown")
        except _pct_vmid.VmidError as error:
            raise AnsibleError(str(error)) from None

    # Commands

    def _build_command(self, binary: str, subsystem: str, *other_args: bytes | str) -> list[bytes]:
        if self._local:
            return [b"/bin/sh", b"-c", to_bytes(other_args[-1])]
        self._for_node = True
        try:
            # -T last: a terminal asked for in ssh_args would damage output and mix stderr into it.
            return super()._build_command(binary, subsystem, "-T", *other_args)
        finally:
            self._for_node = False

    def _request(self, command: bytes, **details: t.Any) -> _pct_supervisor.Request:
        mark, end = _pct_supervisor.new_marks()
        try:
            argv = _pct_command.container_argv(command, mark)
        except ValueError as error:
            raise AnsibleError(str(error)) from None
        return _pct_supervisor.Request(
            vmid=self._vmid(),
            method=self.get_option("method"),
            argv=argv,
            mark=mark,
            end=end,
            wait=self.get_option("attach_timeout"),
            **details,
        )

    def _remote(self, request: _pct_supervisor.Request) -> str:
        remote = _pct_supervisor.remote_command(request)
        if len(remote) > _pct_supervisor.MAX_REMOTE_BYTES:
            raise AnsibleError(
                f"The command is too long for one argument ({len(remote)} bytes encoded, {_pct_supervisor.MAX_REMOTE_BYTES} allowed); "
                "put it into a script or a file."
            )
        return remote

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a shell command line in the container; return its exit status, stdout and stderr as they were."""
        prompts = sudoable and getattr(self.become, "prompt", None)
        request = self._request(
            to_bytes(cmd, errors="surrogate_or_strict"), stdin="pass" if in_data or prompts else "null"
        )
        remote = self._remote(request)
        display.vvv(f"PCT EXEC container {request.vmid}: {to_text(cmd)}", host=self._node_name())
        try:
            with self._ended_on_error(request):
                _rc, stdout, stderr = super().exec_command(remote, in_data=in_data, sudoable=sudoable)
        finally:
            self.host = self._node_name()
        stderr, report = self._judge(request, _rc, stderr)
        display.vvv(f"PCT EXEC container {request.vmid}: ended with {report.rc}", host=self._node_name())
        return report.rc, stdout, stderr

    def _node_name(self) -> str:
        return self.get_option("host") or self._play_context.remote_addr

    def _judge(self, request: _pct_supervisor.Request, rc: int, stderr: bytes) -> tuple[bytes, _pct_outcome.Report]:
        """Split the report off stderr; raise what is not the command's own end as an unreachable host."""
        stderr, report = _pct_outcome.split_report(stderr, request.end)
        if report is None:
            said = to_text(stderr).strip().splitlines()
            raise AnsibleConnectionFailure(
                f"The login on node {self._node_name()} did not run perl to enter container {request.vmid} "
                f"(exit status {rc}): {said[-1] if said else 'it said nothing'}"
            )
        failure = _pct_outcome.classify(report, request.vmid)
        if failure:
            raise AnsibleConnectionFailure(failure[1])
        if report.fell:
            display.warning(
                f"The login on node {self._node_name()} may not run lxc-attach through sudo; pct exec is used, which costs 0.7 s a command. "
                "Add /usr/bin/lxc-attach to its sudoers line, or set pct_method=pct."
            )
        return stderr, report

    @contextlib.contextmanager
    def _ended_on_error(self, request: _pct_supervisor.Request) -> t.Iterator[None]:
        """End the command inside when the task that waits for it is given up (a timeout, an interrupt, a wrong become password)."""
        try:
            yield
        except AnsibleConnectionFailure:
            raise  # The link is gone: the supervisor notices that by itself.
        except BaseException:
            with contextlib.suppress(Exception):
                super().exec_command(_pct_supervisor.stop_command(request.end), sudoable=False)
            raise

    # Files

    def put_file(self, in_path: str, out_path: str) -> None:  # type: ignore[override]
        """Stream a file of the controller into the container."""
        self._check_path(out_path)
        display.vvv(f"PCT PUT {in_path} TO {out_path}", host=self._node_name())
        try:
            source = open(to_bytes(in_path, errors="surrogate_or_strict"), "rb")
        except FileNotFoundError:
            raise AnsibleFileNotFound(f"file or module does not exist: {to_native(in_path)}") from None
        with source:
            status = os.fstat(source.fileno())
            script = _pct_transfer.put_script(
                out_path, status.st_size, stat.S_IMODE(status.st_mode) & 0o755, _pct_supervisor.new_marks()[0]
            )
            request = self._request(script)
            with self._stream(request, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
                self._feed(process, source, status.st_size)
        _stderr, rc = process.outcome()
        if rc:
            raise AnsibleError(
                f"Could not copy {to_native(in_path)} to {out_path} in container {request.vmid}: {_pct_transfer.explain(rc, to_text(_stderr))}."
            )

    def fetch_file(self, in_path: str, out_path: str) -> None:  # type: ignore[override]
        """Stream a file of the container to the controller."""
        self._check_path(in_path)
        display.vvv(f"PCT FETCH {in_path} TO {out_path}", host=self._node_name())
        request = self._request(_pct_transfer.fetch_script(in_path), stdin="null", relay=False)
        b_out = to_bytes(out_path, errors="surrogate_or_strict")
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(b_out) or b".", prefix=b".pct_exec-")
        try:
            with os.fdopen(handle, "wb") as target:
                with self._stream(request, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
                    complete, digest = self._drain(process, target)
            stderr, rc = process.outcome()
            if rc == _pct_transfer.FETCH_MISSING:
                raise AnsibleFileNotFound(f"file does not exist in container {request.vmid}: {in_path}")
            if rc:
                reason = _pct_transfer.explain(rc, to_text(stderr))
            elif not complete:
                reason = "it became shorter while it was read"
            elif digest != _pct_transfer.fetched_digest(stderr):
                reason = "it changed while it was read (its checksum differs)"
            else:
                umask = os.umask(0)
                os.umask(umask)
                os.chmod(temporary, 0o666 & ~umask)
                os.replace(temporary, b_out)
                return
            raise AnsibleError(f"Could not fetch {in_path} from container {request.vmid}: {reason}.")
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    @staticmethod
    def _check_path(path: str) -> None:
        if not path.startswith("/") or "\0" in path:
            raise AnsibleError(f"{path!r} is not an absolute path in the container; give one that begins with /.")

    @contextlib.contextmanager
    def _stream(self, request: _pct_supervisor.Request, stdin: int, stdout: int) -> t.Iterator[_Stream]:
        """Run a transfer script with the data going past memory. Leaves with the process ended."""
        command = self._stream_command(request)
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=errors)
            stream = _Stream(process, self.get_option("transfer_timeout"))
            try:
                yield stream
                stream.finish()
            except TimeoutError:
                raise AnsibleConnectionFailure(
                    f"The transfer with container {request.vmid} made no progress for {self.get_option('transfer_timeout')} s and was given up."
                ) from None
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe:
                        with contextlib.suppress(OSError):
                            pipe.close()
            errors.seek(0)
            said = errors.read()
        if process.returncode == 255 and not self._local:
            raise AnsibleConnectionFailure(
                f"The ssh link to node {self._node_name()} failed during a transfer: {to_text(said).strip()}"
            )
        stderr, report = self._judge(request, process.returncode, said)
        stream.result = (stderr, report.rc)

    def _stream_command(self, request: _pct_supervisor.Request) -> list[bytes]:
        executable = self.get_option("ssh_executable")
        self.host = self._node_name()
        command = self._build_command(executable, "ssh", self.host, self._remote(request))
        return command

    def _feed(self, process: _Stream, source: t.BinaryIO, size: int) -> None:
        digest = hashlib.sha256()
        left = size
        while left:
            block = source.read(min(_BLOCK, left))
            if not block:
                break  # It became shorter; the container's half sees that by its size.
            left -= len(block)
            digest.update(block)
            if not process.write(block):
                return
        process.write(digest.hexdigest().encode("ascii") + b"\n")

    def _drain(self, process: _Stream, target: t.BinaryIO) -> tuple[bool, str]:
        """Copy what comes out to the file; return whether all of it came, and its checksum."""
        digest = hashlib.sha256()
        header = b""
        while b"\n" not in header:
            block = process.read()
            if not block:
                return False, ""
            header += block
        first, _newline, block = header.partition(b"\n")
        left = int(first)
        while True:
            block = block[:left]
            left -= len(block)
            digest.update(block)
            target.write(block)
            if not left:
                break
            block = process.read()
            if not block:
                break
        while process.read():
            pass
        return not left, digest.hexdigest()


class _Stream:
    """A running transfer: reads and writes that give up after a time without progress."""

    def __init__(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        self._process = process
        self._timeout = timeout
        self.result: tuple[bytes, int] | None = None
        for pipe in (process.stdin, process.stdout):
            if pipe:
                os.set_blocking(pipe.fileno(), False)

    def write(self, data: bytes) -> bool:
        """Write all of data; False when the other side stopped reading (its status says why)."""
        assert self._process.stdin
        fd = self._process.stdin.fileno()
        view = memoryview(data)
        while view:
            if not select.select([], [fd], [], self._timeout)[1]:
                raise TimeoutError
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return False
        return True

    def read(self) -> bytes:
        """Return the next bytes, empty at the end."""
        assert self._process.stdout
        fd = self._process.stdout.fileno()
        while True:
            if not select.select([fd], [], [], self._timeout)[0]:
                raise TimeoutError
            try:
                return os.read(fd, _BLOCK)
            except BlockingIOError:
                continue

    def finish(self) -> None:
        """Close the input and wait for the end."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def outcome(self) -> tuple[bytes, int]:
        """Return the container's stderr and the script's exit status."""
        assert self.result is not None
        return self.result
