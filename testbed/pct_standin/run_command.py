# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``pct exec`` of the stand-in: the checks, then lxc-attach in place of this process, as the real one does."""

from __future__ import annotations

import os

from testbed.pct_standin.arguments import Parameters
from testbed.pct_standin.node import Died, Node

PATH = b"/sbin:/bin:/usr/sbin:/usr/bin"  # what every Proxmox command sets


def run(node: Node, parameters: Parameters, environment: dict[bytes, bytes]) -> int:
    vmid = str(parameters["vmid"])
    node.conf(vmid)
    words = parameters["extra-args"]
    assert isinstance(words, list)
    if not words:
        raise Died("missing command at /usr/share/perl5/PVE/CLI/pct.pm line 236.")
    if not node.is_running(vmid):
        raise Died(f"container '{vmid}' not running!")
    kept = {key: value for key, value in environment.items() if key not in (b"SSL_CERT_FILE", b"SSL_CERT_DIR")}
    kept[b"PATH"] = PATH
    command = [b"lxc-attach", b"-n", vmid.encode()]
    if node.version >= (5, 0, 9):
        command.append(b"--keep-env" if parameters.get("keep-env", True) else b"--clear-env")
    os.execve("/usr/bin/lxc-attach", [*command, b"--", *(word.encode() for word in words)], kept)
