# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stock ssh plugin to the node with lxc-attach put in front of each command, and nothing else.

The least that entering a container for each command can cost. It tells no outcomes apart, ends nothing that it has
started, and copies through memory: a measure, not a way in.
"""

from __future__ import annotations

import os
import pathlib
import shlex

from ansible.errors import AnsibleError
from ansible.plugins.connection import ssh

DOCUMENTATION = ssh.DOCUMENTATION.replace("name: ssh", "name: bare_attach", 1)


class Connection(ssh.Connection):
    transport = "bare_attach"

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        line = f"exec lxc-attach -n {os.environ['BENCH_VMID']} --clear-env -- /bin/sh -c {shlex.quote(cmd)}"
        result: tuple[int, bytes, bytes] = super().exec_command(line, in_data=in_data, sudoable=sudoable)
        return result

    def put_file(self, in_path: str, out_path: str) -> None:
        if self.exec_command(f"cat >{shlex.quote(out_path)}", in_data=pathlib.Path(in_path).read_bytes())[0]:
            raise AnsibleError(f"{out_path} was not written")
