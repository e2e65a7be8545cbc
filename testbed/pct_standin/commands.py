# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations
import os, json, time, sys
from pathlib import Path
def run(arguments):
    settings = json.loads(next(Path("/run/testbed").glob("*/standin.json")).read_text())
    time.sleep(settings["PCT_STANDIN_STARTUP"])
    verb, rest = arguments[0], arguments[1:]
    if verb == "exec":
        vmid = rest[0]; cmd = rest[rest.index("--")+1:]
        if not Path(f"/etc/pve/nodes/{os.uname().nodename}/lxc/{vmid}.conf").exists():
            print(f"Configuration file 'nodes/{os.uname().nodename}/lxc/{vmid}.conf' does not exist", file=sys.stderr); return 2
        os.environ["PATH"]="/sbin:/bin:/usr/sbin:/usr/bin"
        os.execvp("lxc-attach", ["lxc-attach","-n",vmid,"--keep-env","--",*cmd])
    return 1
