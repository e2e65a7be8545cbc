# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a node's namespace to life: run as ``python3 -m testbed.node_init`` by `up`, once a node.

The process moves into the node's cgroup, unshares, forks; the child (number 1 of the new process-id namespace) lays
the node's files over the machine's and then becomes a small shell that only reaps. The parent ends when the child is
ready, with what went wrong as its output if it is not.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from testbed import cgroups, namespaces, node_files
from testbed.errors import TestbedError
from testbed.layout import Layout, NodeLayout

REAPER = "trap : TERM HUP INT; while :; do sleep 2147483647 & wait $!; done"
CODE_INSIDE = Path("/run/testbed/code")
CACHE_INSIDE = Path("/run/testbed/cache")
FOLDERS_INSIDE = Path("/run/testbed/folders")
LOCAL_INSIDE = Path("/run/testbed/local")  # what /etc/pve/local points to


def start(node: NodeLayout, local_folders: list[str]) -> None:
    """Start the node's init and wait until its mounts stand. Returns in the caller; the init keeps running."""
    request = {
        "state": str(node.box.state),
        "cache": str(node.box.cache),
        "checkout": str(node.box.checkout),
        "node": node.name,
        "local_folders": local_folders,
    }
    result = subprocess.run(
        [sys.executable, "-m", "testbed.node_init"],
        cwd=node.box.checkout,
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**namespaces.ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip().splitlines()[-1:]
        raise TestbedError(f"The node {node.name} did not start: {' '.join(said)}")


def mount(*arguments: str) -> None:
    result = subprocess.run(["mount", *arguments], capture_output=True, text=True, timeout=30, check=False)
    if result.returncode != 0:
        raise TestbedError(f"`mount {' '.join(arguments)}` failed: {result.stderr.strip()}")


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    target.mkdir(parents=True, exist_ok=True)
    mount("--bind", str(source), str(target))
    if read_only:
        mount("-o", "remount,bind,ro", str(target))


def own_devices() -> None:
    """A /dev of the node's own with the machine's entries, so that what a test makes there stays in the node."""
    draft = Path("/run/testbed/dev")
    draft.mkdir()
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(draft))
    for entry in sorted(Path("/dev").iterdir()):
        target = draft / entry.name
        if entry.is_symlink():
            target.symlink_to(os.readlink(entry))
        elif entry.is_dir():
            target.mkdir()
            mount("--rbind", str(entry), str(target))
        elif entry.is_char_device() or entry.is_block_device():
            status = entry.stat()
            os.mknod(target, status.st_mode, status.st_rdev)
            os.chmod(target, status.st_mode & 0o7777)
            os.chown(target, status.st_uid, status.st_gid)
    mount("--move", str(draft), "/dev")


def lay_out(node: NodeLayout, local_folders: list[str]) -> None:
    """The node's mounts. /run first: it carries the box's own folder, from where the rest is taken."""
    mount("--make-rprivate", "/")
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for folder in ("lock", "lxc", "sshd", "user"):
        Path("/run", folder).mkdir()
    bind(node.box.state, node.box.inside)
    bind(node.box.cache, CACHE_INSIDE, read_only=True)
    bind(node.box.checkout / "testbed", CODE_INSIDE / "testbed", read_only=True)
    for number, folder in enumerate(local_folders):
        bind(Path(folder), FOLDERS_INSIDE / str(number), read_only=True)
    own_devices()
    for name, target in node_files.OVERLAID:
        layers = f"lowerdir={target},upperdir={node.inside / name},workdir={node.inside / 'work' / name}"
        mount("-t", "overlay", "overlay", "-o", layers, target)
    bind(node.box.inside / "pve", Path("/etc/pve"))
    bind(node.lxc_inside, Path("/var/lib/lxc"))
    for name, target in (("log", "/var/log"), ("home", "/home"), ("tmp", "/tmp"), ("root", "/root")):
        bind(node.inside / name, Path(target))
    Path("/run/lock/lxc").mkdir()
    LOCAL_INSIDE.symlink_to(f"/etc/pve/nodes/{node.name}")
    socket.sethostname(node.name)


def main() -> int:
    request = json.load(sys.stdin)
    box = Layout(Path(request["state"]), Path(request["cache"]), Path(request["checkout"]))
    node = next(node for node in box.nodes if node.name == request["node"])
    cgroups.joiner(node.init_cgroup)()
    reader, writer = os.pipe()
    try:
        namespaces.unshare()
    except TestbedError as error:
        print(error, file=sys.stderr)
        return 1
    if os.fork():
        os.close(writer)
        with os.fdopen(reader) as pipe:
            problem = pipe.read()
        print(problem, file=sys.stderr)
        return 1 if problem else 0
    os.close(reader)
    os.setsid()
    os.chdir("/")
    try:
        lay_out(node, request["local_folders"])
        log = os.open("/var/log/init.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.execve("/bin/sh", [f"testbed-{box.identity}-{node.name}", "-c", REAPER], namespaces.ENVIRONMENT)
    except (TestbedError, OSError) as error:
        os.write(writer, str(error).encode())
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
