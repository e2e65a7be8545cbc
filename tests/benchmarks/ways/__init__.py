# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways into a container that ``make bench-connection`` compares, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from tests.integration.box import CHECKOUT, Box

BENCH = CHECKOUT / "build" / "bench"
RIVALS = BENCH / "rivals"
VMID = "330"
FLEET = [str(number) for number in range(400, 450)]

OURS, PLAIN, BARE, SSH, MITOGEN, REMOTE = (
    "pct_exec",
    "pct_exec without runner",
    "lxc-attach by ssh alone",
    "ssh into the container",
    "mitogen_lxc",
    "proxmox_pct_remote",
)
# One ansible-core release for all of them: the one that ansible 14.5.0 brings.
CORE = "ansible-core==2.21.5"
PACKAGES = {
    SSH: (CORE,),
    MITOGEN: (CORE, "mitogen==0.3.54"),
    REMOTE: ("ansible==14.5.0", CORE, "paramiko==5.1.0"),
}


class Contestant:
    """A way in: an inventory host, an environment's commands, and what its configuration adds."""

    def __init__(self, host: str, commands: Path, environment: dict[str, str] | None = None) -> None:
        self.host = host
        self.commands = commands
        self.environment = environment or {}

    def run(self, text: str, *arguments: str, limit: str = "", check: bool = True) -> tuple[float, str]:
        """Play it from nothing; return seconds and output. With check, a host that did not do it all ends the run."""
        with tempfile.TemporaryDirectory(prefix="pctb", dir="/tmp") as folder:
            sockets = Path(folder, "c")
            path = Path(folder, "play.yml")
            path.write_text(text)
            command = [str(self.commands / "ansible-playbook"), "-i", str(BENCH / "inventory.json")]
            command += ["-l", limit or self.host, "-e", f"ansible_control_path_dir={sockets}", *arguments, str(path)]
            environment = {
                name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))
            }
            environment |= {
                "ANSIBLE_CONFIG": str(BENCH / "ansible.cfg"),
                "ANSIBLE_DEPRECATION_WARNINGS": "false",
                "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "tree"),
                **self.environment,
            }
            started = time.monotonic()
            result = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=900,
                check=False,
            )
            seconds = time.monotonic() - started
            close_masters(sockets)
        if check and (result.returncode or reached(result.stdout) != len((limit or self.host).split(","))):
            sys.exit(f"{' '.join(command)}: {result.stdout[-3000:]}")
        return seconds, result.stdout


def reached(output: str) -> int:
    """Return how many hosts a play's recap names without failure."""
    return sum("unreachable=0" in line and "failed=0" in line for line in output.splitlines())


def close_masters(folder: Path) -> None:
    """End the shared connections whose control sockets lie in a folder."""
    for path in folder.glob("*") if folder.exists() else ():
        if path.is_socket():
            subprocess.run(["ssh", "-S", str(path), "-O", "exit", "x"], capture_output=True, check=False)


def contestants() -> dict[str, Contestant]:
    """All of them, those that are not ours installed where they are not yet."""
    own = Path(sys.executable).parent
    rival = {name: _installed(name) for name in PACKAGES}
    strategies = next((rival[MITOGEN] / "lib").glob("python3.*")) / "site-packages/ansible_mitogen/plugins/strategy"
    stock = {"ANSIBLE_STRATEGY": "mitogen_linear", "ANSIBLE_STRATEGY_PLUGINS": str(strategies)}
    plugins = Path(__file__).with_name("connection_plugins")
    bare = {"ANSIBLE_CONNECTION_PLUGINS": str(plugins), "BENCH_VMID": VMID}
    return {
        OURS: Contestant("ours", own),
        PLAIN: Contestant("plain", own),
        BARE: Contestant("bare", own, bare),
        SSH: Contestant("inside", rival[SSH] / "bin"),
        MITOGEN: Contestant("through", rival[MITOGEN] / "bin", stock),
        REMOTE: Contestant("remote", rival[REMOTE] / "bin"),
    }


def _installed(name: str) -> Path:
    folder = RIVALS / name.replace(" ", "_")
    done = folder / "installed"
    wanted = "\n".join(PACKAGES[name])
    if not done.exists() or done.read_text() != wanted:
        print(f"Installing {wanted.replace(chr(10), ', ')} for {name} ...", flush=True)
        subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", *PACKAGES[name]], check=True)
        done.write_text(wanted)
    return folder


def prepare(box: Box) -> None:
    """Make one container with python3 and an sshd of its own, and the inventory of all ways to it."""
    box.testbed("create", VMID, "--sshd")
    box.testbed("fresh", VMID, "--sshd")
    variables = {"prepared_roles": ["bootstrap"], "pct_runner": False}
    box.run_playbook(CHECKOUT / "tests/prepared.yml", limit=f"ct{VMID}", extra_vars=variables).ok()
    known = yaml.safe_load(box.inventory.read_text())["all"]
    to_node = {"ansible_port": known["children"]["training"]["vars"]["ansible_port"]}
    inside = known["children"]["containers_by_ssh"]["hosts"][f"ssh{VMID}"]["ansible_port"]
    common = {**known["vars"], "ansible_python_interpreter": "/usr/bin/python3", "ansible_pipelining": True}
    ours = {"ansible_connection": "proxmox_gpu.training.pct_exec", **to_node}
    remote = {
        "ansible_connection": "community.proxmox.proxmox_pct_remote",
        "proxmox_vmid": int(VMID),
        "ansible_paramiko_private_key_file": common["ansible_ssh_private_key_file"],
        "ansible_paramiko_host_key_checking": False,
    }
    hosts: dict[str, dict[str, object]] = {
        "ours": {**ours, "pct_vmid": int(VMID)},
        "plain": {**ours, "pct_vmid": int(VMID), "pct_runner": False},
        "bare": {"ansible_connection": "bare_attach", **to_node},
        "inside": {"ansible_connection": "ssh", "ansible_port": inside},
        "remote": {**remote, **to_node},
        "through": {"ansible_connection": "mitogen_lxc", "ansible_host": VMID, "mitogen_via": "node"},
        "node": {"ansible_connection": "ssh", **to_node},
        **{f"ct{vmid}": {**ours, "pct_vmid": int(vmid)} for vmid in FLEET},
    }
    (BENCH / "inventory.json").write_text(json.dumps({"all": {"vars": common, "hosts": hosts}}))
    (BENCH / "ansible.cfg").touch()
