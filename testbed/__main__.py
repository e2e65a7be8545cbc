# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's commands: ``python3 -m testbed up|down|status|...`` from the repository root, as root, on Debian."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys

from testbed import base_root, client, containers, down, migration, namespaces, refusals, services, state, up
from testbed.api_standin import server
from testbed.containers import Wish
from testbed.errors import TestbedError
from testbed.layout import NODE_NAMES, Layout, layout

FIRST_NUMBERED = 210


def log(message: str) -> None:
    print(f"testbed: {message}", file=sys.stderr, flush=True)


def ids_of(text: str) -> list[str]:
    """``"200,220-229"`` → the ids as strings, in order."""
    found: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise argparse.ArgumentTypeError(f"{text!r} is no list of container ids such as 200,220-229")
        found += [str(number) for number in range(int(first), int(last or first) + 1)]
    if any(int(vmid) < 100 for vmid in found):
        raise argparse.ArgumentTypeError("Proxmox counts its containers from 100 on")
    return found


def command_up(box: Layout, options: argparse.Namespace) -> int:
    wish = Wish(sshd=options.sshd)
    numbered = range(FIRST_NUMBERED, FIRST_NUMBERED + options.containers)
    wishes = dict.fromkeys([*(str(number) for number in numbered), *options.ids], wish)
    up.up(box, wishes, log)
    return command_status(box, options)


def command_down(box: Layout, options: argparse.Namespace) -> None:
    ended = down.down(box)
    log(f"{box.state.name} is gone ({ended} processes ended)")


def command_status(box: Layout, options: argparse.Namespace) -> int:
    """Exit code 0 says that the box is up."""
    status = status_of(box)
    print(json.dumps(status, indent=2) if getattr(options, "json", False) else "\n".join(status_lines(status)))
    return 0 if status["up"] else 1


def status_of(box: Layout) -> dict[str, object]:
    """State of the box: ``up`` only when the node runs, sshd answers and each container is as declared."""
    ports = state.load_ports(box)
    shown = {}
    nodes = []
    for node in box.nodes:
        running = containers.running_ids(node)
        for vmid in containers.known_ids(node):
            declared = bool(containers.own(node, vmid)["running"])
            shown[vmid] = {"running": vmid in running, "declared": declared, "node": node.name}
        runs = namespaces.init_pid(node) is not None
        port = ports.get(node.sshd_port_key)
        sshd = runs and services.sshd_runs(node, port or 0)
        nodes.append({"name": node.name, "runs": runs, "sshd": sshd, "port": port})
    answering = all(node["sshd"] for node in nodes)
    web = "web" in ports and services.listens(f"{box.cgroup}/web", ports["web"])
    api = {node.name: ports.get(server.port_key(node)) for node in box.nodes}
    api_up = all(port and services.listens(f"{box.cgroup}/api", port) for port in api.values())
    as_declared = all(one["running"] == one["declared"] for one in shown.values())
    return {
        "name": box.state.name,
        "state": str(box.state),
        "exists": box.state.exists(),
        "up": bool(answering and web and api_up and shown and as_declared),
        "node": nodes[0],
        "nodes": nodes,
        "web": {"port": ports.get("web"), "answers": web},
        "api": {"ports": api, "answers": api_up},
        "containers": shown,
        "snapshots": sorted(path.parent.name for path in box.snapshots.glob("*/snapshot.json")),
        "inventory": str(box.state / "inventory.yml"),
        "ssh": shlex.join(client.ssh_command(box)) if nodes[0]["sshd"] else None,
    }


def status_lines(status: dict[str, object]) -> list[str]:
    nodes, web, api, shown = status["nodes"], status["web"], status["api"], status["containers"]
    assert isinstance(nodes, list) and isinstance(web, dict) and isinstance(api, dict) and isinstance(shown, dict)
    if not nodes[0]["runs"] and not shown:
        return [f"box {status['name']}: down"]
    running = [vmid for vmid, one in shown.items() if one["running"]]
    stopped = [vmid for vmid, one in shown.items() if not one["running"]]
    answers = {True: "answers", False: "does not answer"}
    return [
        f"box {status['name']}: {'up' if status['up'] else 'HALF UP (testbed up repairs it)'}",
        *(f"  node       {node['name']}, sshd {answers[node['sshd']]} on 127.0.0.1:{node['port']}" for node in nodes),
        f"  API        {answers[api['answers']]} on {', '.join(f'127.0.0.1:{port}' for port in api['ports'].values())}",
        f"  web        {answers[web['answers']]} on 127.0.0.1:{web['port']}",
        f"  running    {' '.join(running) or 'none'}",
        f"  stopped    {' '.join(stopped) or 'none'}",
        f"  inventory  {status['inventory']}",
        f"  ssh        {status['ssh']}",
    ]


def command_exec(box: Layout, options: argparse.Namespace) -> None:
    """Replace this process by a command in the node, or in a container of it."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    where = box.nodes[0] if options.where == "node" else None
    if options.where in NODE_NAMES:
        where = box.node(options.where)
    if where is None:
        where = containers.node_of(box, options.where)
        command = ["lxc-attach", "-n", options.where, "--clear-env", "--", *(command or ["/bin/sh"])]
    argv = namespaces.enter_command(where, command or ["/bin/bash"])
    os.execvpe(argv[0], argv, {**namespaces.ENVIRONMENT, "TERM": os.environ.get("TERM", "dumb")})


def _wish(box: Layout, options: argparse.Namespace) -> Wish:
    layers = containers.snapshot_layers(box.nodes[0], options.snapshot) if options.snapshot else []
    network = "empty" if options.no_network else "none"
    return Wish(
        running=not options.stopped,
        network=network,
        sshd=options.sshd,
        memory=options.memory,
        cores=options.cores,
        layers=layers,
    )


def command_create(box: Layout, options: argparse.Namespace) -> None:
    node = box.node(options.node)
    with state.locked(box):
        up.make(node, {vmid: _wish(box, options) for vmid in options.ids}, log)
        containers.start(node, [vmid for vmid in options.ids if not options.stopped])
        client.write_inventory(box)


def command_fresh(box: Layout, options: argparse.Namespace) -> None:
    with state.locked(box):
        base = base_root.ensure(box.cache, "sshd" if options.sshd else "bare", log)
        for vmid in options.ids:
            node = containers.node_of(box, vmid)
            containers.fresh(node, vmid, _wish(box, options), base, up.local_folders(node))
        client.write_inventory(box)


def command_snapshot(box: Layout, options: argparse.Namespace) -> None:
    with state.locked(box):
        containers.snapshot(containers.node_of(box, options.id), options.id, options.name)


def command_remove(box: Layout, options: argparse.Namespace) -> None:
    with state.locked(box):
        for node in box.nodes:
            here = set(containers.known_ids(node))
            containers.remove(node, [vmid for vmid in options.ids if vmid in here])
        client.write_inventory(box)


def command_migrate(box: Layout, options: argparse.Namespace) -> None:
    with state.locked(box):
        migration.migrate(box, options.id, box.node(options.node))
        client.write_inventory(box)


def command_standin(box: Layout, options: argparse.Namespace) -> None:
    up.write_standin_settings(box, options.startup, options.imitate)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python3 -m testbed", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, run: object, text: str) -> argparse.ArgumentParser:
        one = verbs.add_parser(name, help=text, description=text)
        one.set_defaults(run=run)
        return one

    one = verb("up", command_up, "start the box, or repair it")
    one.add_argument(
        "--containers", type=int, default=0, metavar="N", help=f"N more containers, from id {FIRST_NUMBERED} on"
    )
    one.add_argument("--ids", type=ids_of, default=[], metavar="IDS", help="more containers by id, such as 220-229,300")
    one.add_argument("--sshd", action="store_true", help="the additional containers run an sshd of their own")
    verb("down", command_down, "remove everything")
    one = verb("status", command_status, "what runs")
    one.add_argument("--json", action="store_true")
    one = verb("exec", command_exec, "run a command in the node, or in a container without a login")
    one.add_argument("where", metavar="node|node, pve1, pve2 or ID")
    one.add_argument("command", nargs=argparse.REMAINDER)
    for name, run, text in (
        ("create", command_create, "make containers"),
        ("fresh", command_fresh, "put containers back to their bare state, or to a snapshot"),
    ):
        one = verb(name, run, text)
        one.add_argument("ids", type=ids_of)
        one.add_argument("--from", dest="snapshot", metavar="NAME", help="start from this snapshot")
        one.add_argument("--no-network", action="store_true", help="no network at all")
        one.add_argument("--sshd", action="store_true", help="with an sshd of its own")
        one.add_argument("--stopped", action="store_true")
        one.add_argument("--memory", type=int, metavar="MIB")
        one.add_argument("--cores", type=int)
    verbs.choices["create"].add_argument("--node", choices=NODE_NAMES, default=NODE_NAMES[0], help="where to make them")
    one = verb("migrate", command_migrate, "move a container to the other node, as a restart migration does")
    one.add_argument("id")
    one.add_argument("node", choices=NODE_NAMES)
    one = verb("snapshot", command_snapshot, "keep a container's state under a name")
    one.add_argument("id")
    one.add_argument("name")
    one = verb("remove", command_remove, "remove containers")
    one.add_argument("ids", type=ids_of)
    one = verb("standin", command_standin, "how the pct stand-in behaves")
    one.add_argument("--startup", type=float, default=0.7, help="its start-up cost in seconds")
    one.add_argument("--imitate", default="6.1.10", metavar="VERSION", help="version of pve-container that it imitates")
    return top


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        refusals.refuse_without_root()
        if options.verb not in ("status", "down"):
            refusals.refuse_wrong_machine()
        return options.run(layout(), options) or 0
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader (head, say) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
