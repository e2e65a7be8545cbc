# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers of a node: made, started, reset, snapshot and removed as overlays, a second each at most.

A container's folder in the node's LXC path holds ``upper`` (all its changes), ``testbed.json`` (see lxc_config) and
the generated ``config``; its Proxmox configuration is the ID.conf of /etc/pve. A snapshot is a former ``upper`` that
became a read-only layer, so taking one copies nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from testbed import cgroups, files, lxc_config, namespaces, node_init, pve_files, state
from testbed.errors import TestbedError
from testbed.layout import Layout, NodeLayout


@dataclass(frozen=True)
class Wish:
    """How a container shall be made. ``memory`` is in MiB: None is three quarters of the machine's; ``cores``: all."""

    running: bool = True
    network: str = "none"  # lxc.net.0.type: none shares the machine's network, empty has none at all
    sshd: bool = False
    memory: int | None = None
    cores: int | None = None
    layers: list[str] = field(default_factory=list)  # of a snapshot, newest first, its base at the end; else the base


def known_ids(node: NodeLayout) -> list[str]:
    """Containers that the testbed made on this node, by number."""
    return sorted((file.parent.name for file in node.lxc.glob("*/testbed.json")), key=int)


def node_of(box: Layout, vmid: str) -> NodeLayout:
    """The node that a container is on; the first one for a container that is not there."""
    found = [node for node in box.nodes if (node.lxc / vmid / "testbed.json").exists()]
    return found[0] if found else box.nodes[0]


def own(node: NodeLayout, vmid: str) -> dict[str, object]:
    try:
        return lxc_config.read_own(node.lxc / vmid)
    except FileNotFoundError:
        raise TestbedError(
            f"There is no container {vmid} in this testbed: `python3 -m testbed create {vmid}`."
        ) from None


def running_ids(node: NodeLayout) -> set[str]:
    """Ids of the running containers, read from their command sockets, without a process for each."""
    start = f"@{node.lxc_inside}/"
    sockets = Path("/proc/net/unix").read_text().splitlines()
    names = (line.rsplit(" ", 1)[-1] for line in sockets)
    return {
        name[len(start) : -len("/command")] for name in names if name.startswith(start) and name.endswith("/command")
    }


def create(node: NodeLayout, vmid: str, wish: Wish, base: Path, local_folders: list[str]) -> None:
    """Make a container that does not run yet. ``base`` is its root file system in the cache."""
    folder = node.lxc / vmid
    layers = wish.layers or [str(node_init.CACHE_INSIDE / base.name)]
    mounts = [{"from": str(node_init.FOLDERS_INSIDE / str(n)), "to": path} for n, path in enumerate(local_folders)]
    port = state.port_for(node.box, f"container sshd {vmid}") if wish.sshd else None
    record = {
        "folder": str(node.lxc_inside / vmid),
        "layers": layers,
        "network": wish.network,
        "mounts": mounts,
        "running": wish.running,
        "sshd_port": port,
    }
    _fill_upper(node, vmid, port)
    conf = {
        "arch": "amd64",
        "cores": str(wish.cores or os.cpu_count() or 1),
        "features": "nesting=1",
        "hostname": f"ct{vmid}",
        "memory": str(wish.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 3 // 4),
        "ostype": "debian",
        "rootfs": f"local:{vmid}/vm-{vmid}-disk-0.raw,size=64G",
        "swap": "0",
    }
    if wish.network != "empty":
        conf["net0"] = "name=eth0,bridge=vmbr0,ip=dhcp,type=veth"  # what Proxmox would show; the box shares its network
    node.pve_containers.mkdir(parents=True, exist_ok=True)
    pve_files.write_file(node.pve_containers / f"{vmid}.conf", pve_files.format_conf(conf))
    files.write(folder / "testbed.json", json.dumps(record, indent=2) + "\n")


def _fill_upper(node: NodeLayout, vmid: str, sshd_port: int | None) -> None:
    """A fresh upper folder: empty but for what Proxmox itself writes into a container."""
    upper = node.lxc / vmid / "upper"
    for old in (upper, node.lxc / vmid / "olwork"):
        if old.exists():
            shutil.rmtree(old)
    (upper / "etc").mkdir(parents=True)
    upper.chmod(0o755)
    (upper / "etc/hostname").write_text(f"ct{vmid}\n")
    (upper / "etc/hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 ct{vmid}\n")
    (upper / "etc/resolv.conf").write_text((node.folder / "etc/resolv.conf").read_text())
    if sshd_port is not None:
        _configure_sshd(node, upper, sshd_port)


def _configure_sshd(node: NodeLayout, upper: Path, port: int) -> None:
    """sshd of a container, for comparisons: the node's host key and client key, a port of its own (shared network)."""
    folder = upper / "etc/ssh"
    (folder / "sshd_config.d").mkdir(parents=True)
    (folder / "sshd_config.d/testbed.conf").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nPermitRootLogin prohibit-password\n"
        "HostKey /etc/ssh/ssh_host_ed25519_key\nUsePAM no\n"
    )
    for name in ("ssh_host_ed25519_key", "ssh_host_ed25519_key.pub"):
        shutil.copy2(node.folder / "etc/ssh" / name, folder / name)
    home = upper / "root"
    (home / ".ssh").mkdir(parents=True)
    for place in (home, home / ".ssh"):
        place.chmod(0o700)
    shutil.copy(node.folder / "root/.ssh/authorized_keys", home / ".ssh/authorized_keys")


def start(node: NodeLayout, vmids: Iterable[str]) -> None:
    """Start those that do not run, several at a time."""
    running = running_ids(node)
    wanted = [vmid for vmid in vmids if vmid not in running]
    for vmid in wanted:
        for left_over in (
            "lxc",
            "monitor",
        ):  # of a container whose monitor was killed: it runs on, and cannot be reached
            cgroups.end(f"{node.cgroup}/{left_over}/{vmid}")
        write_lxc_config(node, vmid)
        (node.lxc / vmid / "upper").mkdir(exist_ok=True)  # missing when a snapshot was cut off
    if not wanted:
        return
    command = "lxc-start -n {} -d -o " + f"{node.lxc_inside}/{{}}/lxc.log -l WARN"
    namespaces.run_in_node(
        node, ["xargs", "-r", "-P", "4", "-I{}", *command.split()], stdin="\n".join(wanted), timeout=300, check=False
    )
    failed = [vmid for vmid in wanted if vmid not in running_ids(node)]
    if failed:
        log = node.lxc / failed[0] / "lxc.log"
        said = [line for line in log.read_text().splitlines() if " ERROR " in line][:1] if log.exists() else []
        raise TestbedError(
            f"Containers {', '.join(failed)} did not start: {' '.join(said) or 'no message'} (see {log})."
        )


def write_lxc_config(node: NodeLayout, vmid: str) -> None:
    text = (node.pve_containers / f"{vmid}.conf").read_text()
    generated = lxc_config.lxc_config(vmid, pve_files.parse_conf(text), pve_files.raw_lxc_lines(text), own(node, vmid))
    (node.lxc / vmid / "config").write_text(generated)


def stop(node: NodeLayout, vmids: Iterable[str]) -> None:
    """Kill those that run (frozen ones are thawed first) and wait until they are gone."""
    running = running_ids(node)
    wanted = [vmid for vmid in vmids if vmid in running]
    if wanted:
        script = 'lxc-unfreeze -n "$1" 2>/dev/null; lxc-stop -k -n "$1"'
        namespaces.run_in_node(
            node,
            ["xargs", "-r", "-P", "4", "-I{}", "sh", "-c", script, "stop", "{}"],
            stdin="\n".join(wanted),
            timeout=120,
            check=False,
        )
    if left := sorted(set(wanted) & running_ids(node)):
        raise TestbedError(f"Containers {', '.join(left)} do not stop.")


def remove(node: NodeLayout, vmids: Iterable[str]) -> None:
    wanted = list(vmids)
    stop(node, wanted)
    for vmid in wanted:
        (node.pve_containers / f"{vmid}.conf").unlink(missing_ok=True)
        state.forget_port(node.box, f"container sshd {vmid}")
        discard(node, node.lxc / vmid)
    pve_files.refresh_vmlist(node.box.pve)


def discard(node: NodeLayout, folder: Path) -> None:
    """Get a folder out of the way at once; its files (a torch environment has gigabytes) go in the background."""
    if not folder.exists():
        return
    trash = node.folder / "trash"
    trash.mkdir(exist_ok=True)
    number = 0
    while (trash / f"{folder.parent.name}-{folder.name}-{number}").exists():
        number += 1
    folder.rename(trash / f"{folder.parent.name}-{folder.name}-{number}")
    subprocess.Popen(
        ["rm", "-rf", "--one-file-system", *map(str, trash.iterdir())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=cgroups.joiner(f"{node.cgroup}/services"),
    )


def fresh(node: NodeLayout, vmid: str, wish: Wish, base: Path, local_folders: list[str]) -> None:
    """Put a container back to its bare state (or a snapshot's, by ``wish.layers``), running or not as wished."""
    stop(node, [vmid])
    discard(node, node.lxc / vmid / "upper")
    create(node, vmid, wish, base, local_folders)
    pve_files.refresh_vmlist(node.box.pve)
    if wish.running:
        start(node, [vmid])


def snapshot(node: NodeLayout, vmid: str, name: str) -> None:
    """Keep a container's present state under a name. Its upper folder becomes a layer, so nothing is copied."""
    if not name.replace("_", "").replace("-", "").isalnum():
        raise TestbedError(f"The snapshot's name is {name!r}: use letters, digits, - and _ only.")
    folder = node.lxc / vmid
    record = own(node, vmid)
    target = node.box.snapshots / name
    if target.exists():
        raise TestbedError(f"There is a snapshot {name!r} in this testbed already: choose another name.")
    was_running = vmid in running_ids(node)
    stop(node, [vmid])
    target.mkdir(parents=True)
    (folder / "upper").rename(target / "layer")
    layers = record["layers"]
    assert isinstance(layers, list)
    record["layers"] = [str(node.box.inside / "snapshots" / name / "layer"), *layers]
    (target / "snapshot.json").write_text(json.dumps({"of": vmid, "layers": record["layers"]}, indent=2) + "\n")
    (folder / "upper").mkdir()
    shutil.copystat(target / "layer", folder / "upper")
    files.write(folder / "testbed.json", json.dumps(record, indent=2) + "\n")
    if was_running:
        start(node, [vmid])


def snapshot_layers(node: NodeLayout, name: str) -> list[str]:
    """Layers of a snapshot as the node sees them, newest first, the base last."""
    try:
        layers: list[str] = json.loads((node.box.snapshots / name / "snapshot.json").read_text())["layers"]
    except FileNotFoundError:
        have = sorted(path.name for path in node.box.snapshots.glob("*")) or ["none"]
        raise TestbedError(f"There is no snapshot {name!r} in this testbed (there: {', '.join(have)}).") from None
    return layers
