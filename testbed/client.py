# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client of the box needs: a key, known_hosts, an ssh configuration, and the ansible inventory."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

from testbed import containers, files, machine, state
from testbed.layout import Layout
from testbed.refusals import os_release


def ensure_key(box: Layout) -> str:
    """Make the client's key once; returns the public half."""
    box.client.mkdir(parents=True, exist_ok=True)
    key = box.client / "id_ed25519"
    if not key.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "client of a testbed", "-f", str(key)],
            check=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
    return (box.client / "id_ed25519.pub").read_text()


def write_known_hosts(box: Layout) -> None:
    """Host keys of the nodes, and of containers with an sshd of their own (they share their node's key)."""
    ports = state.load_ports(box)
    lines = []
    for node in box.nodes:
        key = " ".join((node.folder / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2])
        own = [
            ports[f"container sshd {vmid}"]
            for vmid in containers.known_ids(node)
            if containers.own(node, vmid)["sshd_port"]
        ]
        lines += [f"[127.0.0.1]:{port} {key}" for port in (ports[node.sshd_port_key], *own)]
    files.write(box.client / "known_hosts", "\n".join(lines) + "\n")


def ssh_options(box: Layout) -> list[str]:
    """Options by which any OpenSSH client reaches the box, whatever the user's own configuration says."""
    return [
        "-F", "none",
        "-i", str(box.client / "id_ed25519"),
        "-o", "IdentitiesOnly=yes",
        "-o", f'UserKnownHostsFile="{box.client / "known_hosts"}"',  # in quotes, as ssh would take several
        "-o", "GlobalKnownHostsFile=/dev/null",
        "-o", "StrictHostKeyChecking=yes",
        "-o", "BatchMode=yes",
    ]  # fmt: skip


def write_ssh_config(box: Layout) -> None:
    """``ssh -F client/ssh_config pve1``: nodes by name, containers with an sshd of their own as ``ssh210``."""
    ports = state.load_ports(box)
    hosts = {}
    for node in box.nodes:
        hosts[node.name] = ports[node.sshd_port_key]
        for vmid in containers.known_ids(node):
            if containers.own(node, vmid)["sshd_port"]:
                hosts[f"ssh{vmid}"] = ports[f"container sshd {vmid}"]
    lines = [f"Host {name}\n    Port {port}" for name, port in hosts.items()]
    lines += [
        "Host *",
        "    HostName 127.0.0.1",
        "    User root",
        f'    IdentityFile "{box.client / "id_ed25519"}"',
        "    IdentitiesOnly yes",
        f'    UserKnownHostsFile "{box.client / "known_hosts"}"',
        "    GlobalKnownHostsFile /dev/null",
        "    StrictHostKeyChecking yes",
        "    BatchMode yes",
        f'    ControlPath "{box.control_path}/%C"',
    ]
    files.write(box.client / "ssh_config", "\n".join(lines) + "\n")


def ssh_command(box: Layout, user: str = "root", node: str | None = None) -> list[str]:
    """The ssh command line of a node, the first one unless named."""
    port = state.load_ports(box)[(box.node(node) if node else box.nodes[0]).sshd_port_key]
    return ["ssh", *ssh_options(box), "-p", str(port), f"{user}@127.0.0.1"]


def product_variables(box: Layout, description: dict[str, object]) -> dict[str, object]:
    """The collection's own variables that hand the machine's way to pip, and the CUDA repository, to containers."""
    pip = description["pip"]
    assert isinstance(pip, dict)
    variables: dict[str, object] = {
        "bootstrap_http_proxy": description["http_proxy"],
        "bootstrap_https_proxy": description["https_proxy"],
        "bootstrap_no_proxy": description["no_proxy"],
        "bootstrap_ca_certificates": [str(file) for file in sorted((box.client / "ca_certificates").glob("*.crt"))],
        "torch_environment_index_url": pip.get("index-url"),
        "torch_environment_extra_index_urls": pip.get("extra-index-url", []),
        "torch_environment_find_links": pip.get("find-links", []),
    }
    manifest = json.loads((box.cuda_repository / "manifest.json").read_text())
    port = state.load_ports(box)["web"]
    system = f"{os_release()['ID']}{os_release()['VERSION_ID']}"
    repository = manifest["repositories"].get(f"{system}/{cuda_architecture()}", {})
    variables["cuda_repository_mirror"] = f"http://127.0.0.1:{port}/compute/cuda/repos"
    variables["cuda_repository_key_fingerprints"] = [manifest["fingerprint"]]
    variables["cuda_repository_keyring_sha256"] = repository.get("keyring_sha256")
    return {name: value for name, value in variables.items() if value not in (None, [], "")}


def cuda_architecture() -> str:
    """NVIDIA's name for the machine's architecture."""
    return {"x86_64": "x86_64", "aarch64": "sbsa"}.get(os.uname().machine, os.uname().machine)


def write_certificates(box: Layout, description: dict[str, object]) -> None:
    """One file for each certificate that this machine trusts beyond Debian's own."""
    folder = box.client / "ca_certificates"
    folder.mkdir(exist_ok=True)
    found = machine.private_certificates(Path(str(description["ca_bundle"]))) if description["ca_bundle"] else []
    wanted = {folder / f"machine-{number}.crt": pem + "\n" for number, pem in enumerate(found)}
    for path, pem in wanted.items():
        files.write(path, pem)
    for path in set(folder.iterdir()) - set(wanted):
        path.unlink()


def inventory(box: Layout, description: dict[str, object]) -> dict[str, object]:
    """The box for ansible: containers by id through the node, the node itself, containers with an sshd of their own."""
    ports = state.load_ports(box)
    common = {
        "ansible_host": "127.0.0.1",
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(box.client / "id_ed25519"),
        "ansible_ssh_common_args": shlex.join([*ssh_options(box)[:2], *ssh_options(box)[4:]]),
        "ansible_control_path_dir": str(box.control_path),
    }
    by_id: dict[str, dict[str, object]] = {}
    by_ssh = {}
    for node in box.nodes:
        for vmid in containers.known_ids(node):
            by_id[f"ct{vmid}"] = {"pct_vmid": int(vmid)}
            if node.name != box.nodes[0].name:
                by_id[f"ct{vmid}"]["ansible_port"] = ports[node.sshd_port_key]
            if port := containers.own(node, vmid)["sshd_port"]:
                by_ssh[f"ssh{vmid}"] = {"ansible_port": port}
    through_pct = {
        "ansible_connection": "proxmox_gpu.training.pct_exec",
        "ansible_port": ports[box.nodes[0].sshd_port_key],
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    return {
        "all": {
            "vars": common,
            "children": {
                "training": {"vars": {**through_pct, **product_variables(box, description)}, "hosts": by_id},
                "containers_by_ssh": {"vars": {"ansible_connection": "ssh"}, "hosts": by_ssh},
                "nodes": {"hosts": {node.name: {"ansible_port": ports[node.sshd_port_key]} for node in box.nodes}},
            },
        }
    }


def write_inventory(box: Layout) -> None:
    """``inventory.yml`` (JSON, which is YAML) and ``machine.json``."""
    description = machine.describe()
    write_certificates(box, description)
    write_known_hosts(box)
    write_ssh_config(box)
    box.control_path.mkdir(mode=0o700, exist_ok=True)
    files.write(box.state / "machine.json", json.dumps(description, indent=2) + "\n")
    header = "# Written by the testbed: a node in a box. Its pct is a stand-in.\n---\n"
    files.write(box.state / "inventory.yml", header + json.dumps(inventory(box, description), indent=2) + "\n")
