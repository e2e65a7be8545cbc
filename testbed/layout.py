# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a box keeps its things: every path, name and identity, derived from the checkout and TESTBED_NAME.

Nothing here touches the disk. A box is identified by the path of its state folder, so that two checkouts, or two
names in one checkout, never share a port, an LXC path (whose command sockets are machine-wide) or a cgroup.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import TestbedError

CHECKOUT = Path(__file__).resolve().parent.parent
NODE_NAMES = ("pve1", "pve2")
CGROUP_ROOT = "proxmox_gpu_testbed"


@dataclass(frozen=True)
class NodeLayout:
    """One node of the box: its files outside, and the fixed places where its own namespace sees them."""

    box: Layout
    name: str

    @property
    def folder(self) -> Path:
        return self.box.state / "nodes" / self.name

    @property
    def inside(self) -> Path:
        """This node's folder as its namespace sees it (the checkout's own path may be hidden there by the homes)."""
        return self.box.inside / "nodes" / self.name

    @property
    def lxc(self) -> Path:
        return self.folder / "lxc"

    @property
    def lxc_inside(self) -> Path:
        return self.inside / "lxc"

    @property
    def sshd_port_key(self) -> str:
        return f"sshd {self.name}"

    @property
    def pve_containers(self) -> Path:
        """Folder of the ID.conf files of this node."""
        return self.box.pve / "nodes" / self.name / "lxc"

    @property
    def cgroup(self) -> str:
        """cgroup path, below each hierarchy's root. lxc puts containers below it, see `init_cgroup`."""
        return f"{self.box.cgroup}/{self.name}"

    @property
    def init_cgroup(self) -> str:
        """Where the node's init lives. lxc starts from the cgroup of process 1, and takes a last ``init.scope`` off."""
        return f"{self.cgroup}/init.scope"


@dataclass(frozen=True)
class Layout:
    """Paths of one box. ``state`` is absolute; ``cache`` is shared by all boxes of the user."""

    state: Path
    cache: Path
    checkout: Path = CHECKOUT

    @property
    def identity(self) -> str:
        """Eight hex digits that stand for this box in paths, cgroups and ports."""
        return hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    @property
    def inside(self) -> Path:
        """The state folder as seen in the nodes' namespaces: short, and without the checkout's characters."""
        return Path("/run/testbed") / self.identity

    @property
    def cgroup(self) -> str:
        return f"{CGROUP_ROOT}/{self.identity}"

    @property
    def pve(self) -> Path:
        """What the nodes see as /etc/pve (one cluster, so one folder)."""
        return self.state / "pve"

    @property
    def client(self) -> Path:
        """Key, known_hosts and ssh configuration for clients of the box."""
        return self.state / "client"

    @property
    def snapshots(self) -> Path:
        return self.state / "snapshots"

    @property
    def cuda_repository(self) -> Path:
        return self.state / "cuda_repository"

    @property
    def web_log(self) -> Path:
        """One JSON object a request to the CUDA repository; faults are read from ``web.log.faults`` beside it."""
        return self.state / "web.log"

    @property
    def control_path(self) -> Path:
        """ControlMaster sockets of clients: a short path, because a unix socket's is limited to 108 bytes."""
        return Path("/run") / f"proxmox_gpu_testbed-{self.identity}"

    @property
    def nodes(self) -> tuple[NodeLayout, ...]:
        return tuple(NodeLayout(self, name) for name in NODE_NAMES)

    def node(self, name: str) -> NodeLayout:
        """The node of a name. Raises TestbedError when the box has none of that name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise TestbedError(f"The testbed has no node {name!r} (its nodes: {', '.join(NODE_NAMES)}).")

    @property
    def first_port(self) -> int:
        """Where this box starts to look for free ports: below the ephemeral range (32768 and up)."""
        return 20000 + int(self.identity, 16) % 9000


def layout(environment: dict[str, str] | None = None, checkout: Path = CHECKOUT) -> Layout:
    """The box of this checkout: TESTBED_NAME tells several apart, TESTBED_CACHE moves the cache."""
    env = os.environ if environment is None else environment
    name = env.get("TESTBED_NAME") or "box"
    if not name.replace("_", "").replace("-", "").isalnum():
        raise TestbedError(f"TESTBED_NAME is {name!r}: use letters, digits, - and _ only.")
    base = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME") or "/root", ".cache")
    cache = Path(env.get("TESTBED_CACHE") or os.path.join(base, "proxmox_gpu_testbed"))
    return Layout(state=checkout / "build" / "testbed" / name, cache=cache, checkout=checkout)
