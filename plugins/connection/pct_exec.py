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
  - Reaches the node with the OpenSSH client, as ansible-core's own P(ansible.builtin.ssh#connection) plugin does
    (ControlPersist, jump
    hosts, host key checking, passwords and retries work as they do there), and enters the container there.
  - Enters with C(lxc-attach), which costs about 5 ms. C(pct exec), which ends in the same C(lxc-attach) after 700
    to 900 ms of start-up, is
    used on request, or where the node's login may not run C(lxc-attach).
  - Nothing has to be installed or to listen in the container. Only tasks that are Python modules need a python3
    there.
  - Commands run as the container's root, with an environment, working directory and umask set by this plugin;
    nothing of the node's
    environment gets in. Use C(become) for other users of the container.
  - The files of a task are streamed through the same channel, and get their name, once they are complete, by
    one rename.
  - A container that is stopped, frozen, missing or on another node is told apart from a command that fails,
    whatever that command prints.
notes:
  - The options V(host) to V(verbosity) of the ssh plugin are about the node; O(remote_user) is the node's login.
  - The node needs C(perl), which each Proxmox node has.
  - A terminal is never asked for on the node, since it would damage binary output and mix stderr into stdout.
  - M(ansible.posix.synchronize) can't go through this plugin; use M(ansible.builtin.copy) or
    M(ansible.builtin.unarchive) instead.
options:
  vmid:
    description:
      - The container's id, a whole number from V(100) to V(999999999).
      - The variable P(community.proxmox.proxmox#inventory) sets, C(proxmox_vmid), is understood as well.
        C(pct_vmid) wins.
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
  sessions_per_connection:
    description:
      - How many tasks go through one shared connection at the same time; more connections are opened as tasks need
        them.
      - The node's sshd allows 10 by default (C(MaxSessions)); one is left for ending a task that was given up.
    type: int
    default: 8
    vars:
      - name: pct_sessions_per_connection
    env:
      - name: PROXMOX_GPU_PCT_SESSIONS_PER_CONNECTION
    ini:
      - section: pct_exec
        key: sessions_per_connection
  parallel_logins:
    description:
      - How many connections to the node log in at the same time.
      - Above 10 the node's sshd drops some at random by default (C(MaxStartups)).
    type: int
    default: 4
    vars:
      - name: pct_parallel_logins
    env:
      - name: PROXMOX_GPU_PCT_PARALLEL_LOGINS
    ini:
      - section: pct_exec
        key: parallel_logins
  runner:
    description:
      - Whether a small Python process stays in the container between tasks and runs modules by fork.
      - It saves what each module otherwise pays for, the start of Python and the compilation of the module's code.
      - It is started for the first module, listens on a socket in a folder of mode 0700 that serves nobody but the
        container's root and the node, and goes after O(runner_idle).
      - Whatever it can't do (C(become), another Python, a module's environment that Python reads when it starts)
        takes the way without it.
    type: bool
    default: true
    vars:
      - name: pct_runner
    env:
      - name: PROXMOX_GPU_PCT_RUNNER
    ini:
      - section: pct_exec
        key: runner
  runner_idle:
    description: Seconds without a task after which the process of O(runner) goes.
    type: int
    default: 60
    vars:
      - name: pct_runner_idle
    env:
      - name: PROXMOX_GPU_PCT_RUNNER_IDLE
    ini:
      - section: pct_exec
        key: runner_idle
  node_addresses:
    description:
      - Where a container that is found on another node than O(host) is looked for, by the node's name. Each entry has
        C(host) and, where it is not the one of O(port), C(port).
      - P(proxmox_gpu.training.lxc_hosts#inventory) sets it, so that a play goes on when a container was
        migrated. Without an entry for the node the task is unreachable, and says where the container is.
    type: dict
    default: {}
    vars:
      - name: pct_node_addresses
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
extends_documentation_fragment:
  - proxmox_gpu.training._ssh_node
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
#   ansible-playbook -i inventory.yml -e pct_transport=local site.yml
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import stat
import subprocess
import sys
import tempfile
import typing as t

from ansible.errors import AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_native, to_text
from ansible.utils.display import Display


class _PartsFinder:
    """Finds this plugin's parts for Python's own loader, which keeps compiled code (__pycache__).

    Ansible loads a connection plugin in a new process for each task, and its loader for collections compiles every
    time: 15 ms of processor for a task.
    """

    @staticmethod
    def find_spec(
        name: str, path: t.Sequence[str] | None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _dot, part = name.rpartition(".")
        if package.endswith(".proxmox_gpu.training.plugins.plugin_utils") and part.startswith("_pct_"):
            for folder in path or ():
                place = os.path.join(folder, f"{part}.py")
                if os.path.exists(place):
                    return importlib.util.spec_from_file_location(name, place)
        return None


# A finder may be a class with find_spec alone; typeshed asks for an instance.
sys.meta_path.insert(0, _PartsFinder)  # type: ignore[arg-type]
try:
    from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import (
        _pct_stream,
        _pct_supervisor,
        _pct_transfer,
    )
    from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._pct_container import ContainerConnection
finally:
    sys.meta_path.remove(_PartsFinder)  # type: ignore[arg-type]

display = Display()

#: Up to this size a file goes to the runner as a whole, which saves a session.
_SMALL = 1 << 18


class Connection(ContainerConnection):
    """What Ansible asks of a connection, for one container."""

    # ansible.posix.synchronize refuses every connection but some, and names in its sentence the one at hand by this.
    transport = "proxmox_gpu.training.pct_exec (which has no rsync: use ansible.builtin.copy or unarchive)"
    has_pipelining = True

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a shell command line in the container; return its exit status, stdout and stderr as they were."""
        display.vvv(f"PCT EXEC container {self.vmid}: {to_text(cmd)}", host=self.node)
        command = to_bytes(cmd, errors="surrogate_or_strict")
        result = self.where_it_is(lambda: self._run_inside(command, in_data, sudoable))
        display.vvv(f"PCT EXEC container {self.vmid}: ended with {result[0]}", host=self.node)
        return result

    def _run_inside(self, command: bytes, in_data: bytes | None, sudoable: bool) -> tuple[int, bytes, bytes]:
        result = None
        if not (sudoable and self.become):
            result = self.run_resident(command, in_data)
        return result if result is not None else self.run_plain(command, in_data, sudoable)[:3]

    def reset(self) -> None:
        """Let the next task begin anew: without a runner, and with a new login."""
        residence = self.residence()
        if residence is not None:
            residence.dismiss()
        super().reset()

    # The ssh plugin's two return what ssh said, which nobody reads.

    def put_file(self, in_path: str, out_path: str) -> None:  # type: ignore[override]
        """Copy a file of the controller into the container."""
        self.where_it_is(lambda: self._put_inside(in_path, out_path))

    def _put_inside(self, in_path: str, out_path: str) -> None:
        _check_path(out_path)
        display.vvv(f"PCT PUT {in_path} TO {out_path}", host=self.node)
        with contextlib.ExitStack() as stack:
            try:
                source = stack.enter_context(open(to_bytes(in_path, errors="surrogate_or_strict"), "rb"))
            except FileNotFoundError:
                raise AnsibleFileNotFound(f"file or module does not exist: {to_native(in_path)}") from None
            status = os.fstat(source.fileno())
            mode = stat.S_IMODE(status.st_mode) & 0o755
            word = _pct_supervisor.new_marks()[0]
            script = _pct_transfer.put_script(out_path, status.st_size, mode, word)
            result = None
            if status.st_size <= _SMALL:
                result = self.run_resident(script, source.read(status.st_size))
            if result is not None:
                rc, _stdout, stderr = result
            else:
                request = self.request(script)
                with self.process_on_node(self.line(request), subprocess.PIPE, subprocess.DEVNULL) as process:
                    _pct_stream.send(process.stream, source, status.st_size)
                stderr, report = self.judge(request, process.rc, process.stderr)
                rc = report.rc
        if rc:
            raise AnsibleError(
                f"Could not copy {to_native(in_path)} to {out_path} in container {self.vmid}: "
                f"{_pct_transfer.explain(rc, to_text(stderr))}."
            )

    def fetch_file(self, in_path: str, out_path: str) -> None:  # type: ignore[override]
        """Copy a file of the container to the controller."""
        self.where_it_is(lambda: self._fetch_inside(in_path, out_path))

    def _fetch_inside(self, in_path: str, out_path: str) -> None:
        _check_path(in_path)
        display.vvv(f"PCT FETCH {in_path} TO {out_path}", host=self.node)
        request = self.request(_pct_transfer.fetch_script(in_path), stdin="null", relay=False)
        b_out = to_bytes(out_path, errors="surrogate_or_strict")
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(b_out) or b".", prefix=b".pct_exec-")
        try:
            line = self.line(request)
            with (
                os.fdopen(handle, "wb") as target,
                self.process_on_node(line, subprocess.DEVNULL, subprocess.PIPE) as process,
            ):
                complete = _pct_stream.receive(process.stream, target)
            stderr, report = self.judge(request, process.rc, process.stderr)
            rc = report.rc
            if rc == _pct_transfer.FETCH_MISSING:
                raise AnsibleFileNotFound(f"file does not exist in container {request.vmid}: {in_path}")
            if rc:
                reason = _pct_transfer.explain(rc, to_text(stderr))
            elif not complete:
                reason = "it became shorter while it was read"
            else:
                umask = os.umask(0o022)
                os.umask(umask)
                os.chmod(temporary, 0o666 & ~umask)
                os.replace(temporary, b_out)
                return
            raise AnsibleError(f"Could not fetch {in_path} from container {request.vmid}: {reason}.")
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def _check_path(path: str) -> None:
    if not path.startswith("/") or "\0" in path:
        raise AnsibleError(f"{path!r} is not an absolute path in the container; give one that begins with /.")
