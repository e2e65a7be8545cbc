# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""pct_exec beside the other ways into a container, on the same work in one run: ``make bench-connection``.

Contestants: ours with the resident runner and without it; the stock ssh plugin into the container's own sshd;
community.proxmox.proxmox_pct_remote; Mitogen's mitogen_lxc through the node, with Mitogen's own strategy. All run on
the same ansible-core release, with pipelining, and each run begins without an open connection or resident process.
The node is the testbed's box; its pct is a stand-in with the real one's measured start-up of 0.7 s.

Writes build/bench/connection.json (a flat object; ratios are ours divided by theirs, copy500_vs_raw is our throughput
divided by that of `ssh node lxc-attach cat`) and build/bench/connection_fleet.svg, and prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from ansible.plugins.loader import init_plugin_loader

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))
os.environ.setdefault("TESTBED_NAME", "bench_connection")

from testbed import client  # noqa: E402
from tests import prepared  # noqa: E402
from tests.integration.box import Box  # noqa: E402
from tests.integration.connection_link import Link  # noqa: E402

BENCH = CHECKOUT / "build" / "bench"
RIVALS = BENCH / "rivals"
RIVAL_PACKAGES = ("ansible==14.5.0", "mitogen==0.3.54", "paramiko==5.1.0")
VMID = "330"
FLEET = [str(number) for number in range(400, 450)]
SIZES = (1, 2, 5, 10, 20, 50)
MEGABYTE = 1 << 20
RETRIES = ("ssh_retry", "mux_client", "Session open refused", "Connection reset", "Connection closed by")

COMMAND = "    - ansible.builtin.command: echo {0}\n"
STAT = "    - ansible.builtin.stat: {{path: /etc/passwd}}\n"
COPY = '    - ansible.builtin.copy: {{content: "file {0}\\n", dest: /root/bench{0}, mode: "0644"}}\n'
SLURP = "    - ansible.builtin.slurp: {{src: /etc/passwd}}\n"
TASKS = [COMMAND, COMMAND, STAT, COPY, COMMAND, COMMAND, STAT, SLURP, COMMAND, COMMAND]
TASKS += [STAT, COPY, COMMAND, COMMAND, STAT, COPY, SLURP, STAT, COMMAND, COMMAND]


def play(*tasks: str) -> str:
    return "- hosts: all\n  gather_facts: false\n  tasks:\n" + "".join(tasks)


TWENTY = play(*(task.format(number) for number, task in enumerate(TASKS)))
SETUP = play("    - ansible.builtin.setup:\n")
FIVE = play(*(COMMAND.format(number) for number in range(5)))


class Contestant:
    """A way in: an inventory host, an environment's commands, variables and environment variables."""

    def __init__(self, host: str, commands: Path, rounds: int = 99, environment: dict[str, str] | None = None) -> None:
        self.host = host
        self.commands = commands
        self.rounds = rounds  # at most: some take minutes
        self.environment = environment or {}

    def run(self, text: str, *arguments: str, limit: str = "") -> tuple[float, str]:
        """Play it from nothing; return seconds and output. A play that does not succeed ends the benchmark."""
        with tempfile.TemporaryDirectory(prefix="pctb", dir="/tmp") as folder:
            sockets = Path(folder, "c")
            path = Path(folder, "play.yml")
            path.write_text(text)
            command = [str(self.commands / "ansible-playbook"), "-i", str(BENCH / "inventory.json")]
            command += ["-l", limit or self.host, "-e", f"ansible_control_path_dir={sockets}", *arguments, str(path)]
            environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
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
        if result.returncode:
            sys.exit(f"{' '.join(command)}: {result.stdout[-3000:]}")
        return seconds, result.stdout


def close_masters(folder: Path) -> None:
    for path in folder.glob("*") if folder.exists() else ():
        if path.is_socket():
            subprocess.run(["ssh", "-S", str(path), "-O", "exit", "x"], capture_output=True, check=False)


def install_rivals() -> None:
    done = RIVALS / "installed"
    wanted = "\n".join(RIVAL_PACKAGES)
    if done.exists() and done.read_text() == wanted:
        return
    print("Installing the other contestants into build/bench/rivals ...", flush=True)
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--clear", str(RIVALS)], check=True)
    subprocess.run([str(RIVALS / "bin" / "pip"), "install", "--quiet", *RIVAL_PACKAGES], check=True)
    done.write_text(wanted)


@contextmanager
def box_is_up() -> Iterator[Box]:
    box = Box()
    was_up = box.is_up()
    box.testbed("up")
    try:
        yield box
    finally:
        if not was_up and not os.environ.get("KEEP_TESTBED"):
            box.testbed("down")


def prepare(box: Box) -> None:
    """One container with python3 and an sshd of its own."""
    box.testbed("create", VMID, "--sshd")
    box.testbed("fresh", VMID, "--sshd")
    variables = {"prepared_roles": ["bootstrap"], "pct_runner": False}
    box.run_playbook(CHECKOUT / "tests/prepared.yml", limit=f"ct{VMID}", extra_vars=variables).ok()


def write_inventory(box: Box) -> None:
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
        "inside": {"ansible_connection": "ssh", "ansible_port": inside},
        "remote": {**remote, **to_node},
        "through": {"ansible_connection": "mitogen_lxc", "ansible_host": VMID, "mitogen_via": "node"},
        "node": {"ansible_connection": "ssh", **to_node},
        **{f"ct{vmid}": {**ours, "pct_vmid": int(vmid)} for vmid in FLEET},
    }
    (BENCH / "inventory.json").write_text(json.dumps({"all": {"vars": common, "hosts": hosts}}))
    (BENCH / "ansible.cfg").touch()


def contestants() -> dict[str, Contestant]:
    own, others = Path(sys.executable).parent, RIVALS / "bin"
    strategies = next((RIVALS / "lib").glob("python3.*")) / "site-packages/ansible_mitogen/plugins/strategy"
    mitogen = {"ANSIBLE_STRATEGY": "mitogen_linear", "ANSIBLE_STRATEGY_PLUGINS": str(strategies)}
    return {
        "pct_exec": Contestant("ours", own),
        "pct_exec without runner": Contestant("plain", own),
        "ssh into the container": Contestant("inside", own),
        "mitogen_lxc": Contestant("through", others, environment=mitogen),
        "proxmox_pct_remote": Contestant("remote", others, rounds=2),
    }


def measure(who: dict[str, Contestant], text: str, rounds: int) -> dict[str, float]:
    """The median of some rounds, the contestants taking turns."""
    times: dict[str, list[float]] = {name: [] for name in who}
    for number in range(rounds):
        for name, one in who.items():
            if number < one.rounds:
                times[name].append(one.run(text)[0])
                print(f"  {name}: {times[name][-1]:.2f} s", flush=True)
    return {name: statistics.median(values) for name, values in times.items()}


def measure_playbook(who: dict[str, Contestant], rounds: int) -> dict[str, float]:
    seconds = measure(who, TWENTY, rounds)
    ours, plain, ssh = (seconds[name] for name in ("pct_exec", "pct_exec without runner", "ssh into the container"))
    return {
        **{f"playbook_seconds: {name}": value for name, value in seconds.items()},
        "playbook_vs_ssh": ours / ssh,
        "playbook_plain_vs_ssh": plain / ssh,
        "playbook_vs_pct_remote": ours / seconds["proxmox_pct_remote"],
        "playbook_plain_vs_pct_remote": plain / seconds["proxmox_pct_remote"],
        "playbook_vs_mitogen": ours / seconds["mitogen_lxc"],
    }


# --- files


def raw_seconds(box: Box, control: str, source: Path) -> tuple[float, float]:
    """`ssh node lxc-attach cat` with ssh's defaults and an open connection, in and out."""
    base = client.ssh_command(box.layout, "root")
    base[1:1] = ["-o", f"ControlPath={control}", "-o", "ControlMaster=auto", "-o", "ControlPersist=60s"]
    inside = f"lxc-attach -n {VMID} --clear-env -- sh -c"
    subprocess.run([*base, "true"], check=True, stdin=subprocess.DEVNULL)
    started = time.monotonic()
    with open(source, "rb") as file:
        subprocess.run([*base, f"{inside} 'cat >/root/raw'"], stdin=file, check=True)
    put = time.monotonic() - started
    started = time.monotonic()
    with open(source.with_name("raw"), "wb") as file:
        subprocess.run([*base, f"{inside} 'cat /root/raw'"], stdin=subprocess.DEVNULL, stdout=file, check=True)
    fetched = time.monotonic() - started
    subprocess.run([*base, f"{inside} 'rm /root/raw'"], check=True, stdin=subprocess.DEVNULL)
    return put, fetched


def own_seconds(box: Box, source: Path) -> tuple[float, float, float]:
    """put_file and fetch_file in a process of its own; their seconds and its peak memory in MB."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            link = Link(box, VMID, str(source.parent))
            link.out("true")
            started = time.monotonic()
            link.put(source, "/root/transfer")
            put = time.monotonic() - started
            started = time.monotonic()
            link.fetch("/root/transfer", source.with_name("back"))
            fetched = time.monotonic() - started
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            os.write(writer, json.dumps([put, fetched, peak]).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    if os.waitpid(pid, 0)[1]:
        sys.exit("the transfer failed")
    with os.fdopen(reader, "rb") as file:
        put, fetched, peak = json.loads(file.read())
    return put, fetched, peak


def measure_files(box: Box, who: dict[str, Contestant], rounds: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="pctf", dir="/tmp") as folder:
        source = Path(folder, "source")
        for size in (50, 500):
            with open(source, "wb") as file:
                for _ in range(size):
                    file.write(os.urandom(MEGABYTE))
            raw, own = [], []
            for _ in range(rounds):
                raw.append(raw_seconds(box, str(Path(folder, "raw-control")), source))
                own.append(own_seconds(box, source))
                print(f"  {size} MB: raw {raw[-1][0]:.2f} {raw[-1][1]:.2f} s, ours {own[-1][0]:.2f} {own[-1][1]:.2f} s")
            for name, index in (("copy", 0), ("fetch", 1)):
                theirs, ours = (statistics.median(times[index] for times in both) for both in (raw, own))
                figures[f"{name}{size}_seconds: raw"] = theirs
                figures[f"{name}{size}_seconds: pct_exec"] = ours
                figures[f"{name}{size}_vs_raw"] = theirs / ours
            figures[f"copy{size}_peak_mb"] = max(peak for _put, _fetched, peak in own)
            text = play(
                f"    - ansible.builtin.copy: {{src: {source}, dest: /root/task, mode: '0644'}}\n",
                f"    - ansible.builtin.fetch: {{src: /root/task, dest: {folder}/task, flat: true}}\n",
                "    - ansible.builtin.file: {path: /root/task, state: absent}\n",
            )
            for name, seconds in measure(who, text, 1).items():
                figures[f"play_copy_fetch{size}_seconds: {name}"] = seconds
        close_masters(Path(folder))
    return figures


# --- many containers behind one node


def measure_fleet(box: Box, ours: Contestant, rounds: int) -> dict[str, float]:
    box.testbed("create", ",".join(FLEET))
    box.testbed("fresh", ",".join(FLEET), "--from", prepared.snapshot("python"))
    figures: dict[str, float] = {"fleet_unreachable": 0, "fleet_retries": 0}
    growth = {}
    for size in SIZES:
        limit = ",".join(f"ct{vmid}" for vmid in FLEET[:size])
        growth[size] = statistics.median(ours.run(FIVE, "--forks", "50", limit=limit)[0] for _ in range(3))
        figures[f"fleet_seconds: {size:2}"] = growth[size]
        print(f"  {size} containers: {growth[size]:.2f} s", flush=True)
    for number in range(rounds):
        seconds, output = ours.run(FIVE, "--forks", "50", "-vvv", limit=",".join(f"ct{vmid}" for vmid in FLEET))
        recap = [line for line in output.splitlines() if "unreachable=" in line]
        figures["fleet_unreachable"] += len(FLEET) - sum("unreachable=0" in line for line in recap)
        figures["fleet_retries"] += sum(output.count(word) for word in RETRIES)
        print(f"  run {number + 1} of {rounds}: {seconds:.2f} s", flush=True)
    figures["fleet_wall_vs_one"] = growth[SIZES[-1]] / growth[1]
    (BENCH / "connection_fleet.svg").write_text(drawing(growth))
    box.testbed("remove", ",".join(FLEET))
    return figures


def drawing(growth: dict[int, float]) -> str:
    """Wall time over the number of containers, as an SVG."""
    top = max(growth.values())
    points = {size: (60 + size * 9, 260 - seconds / top * 220) for size, seconds in growth.items()}
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y in points.values())
    marks = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3"/>'
        f'<text x="{x:.0f}" y="{y - 8:.0f}">{size}: {growth[size]:.1f} s</text>'
        for size, (x, y) in points.items()
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="620" height="300" font-family="sans-serif" font-size="11">'
        '<text x="60" y="20">Seconds for five tasks at forks 50, by the number of containers behind one node</text>'
        f'<path d="M60 30V260H560" fill="none" stroke="#888"/><polyline points="{line}" fill="none" stroke="#06c"/>'
        f"{marks}</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement")
    parser.add_argument("--fleet-rounds", type=int, default=20)
    parser.add_argument("--only", choices=["playbook", "files", "setup", "fleet"], action="append")
    options = parser.parse_args()
    parts = options.only or ["playbook", "setup", "files", "fleet"]
    BENCH.mkdir(parents=True, exist_ok=True)
    install_rivals()
    init_plugin_loader([str(CHECKOUT / "build" / "tree")])
    result = BENCH / "connection.json"
    figures: dict[str, float] = json.loads(result.read_text()) if options.only and result.exists() else {}
    with box_is_up() as box:
        prepare(box)
        write_inventory(box)
        who = contestants()
        for part in parts:
            print(part, flush=True)
            if part == "playbook":
                figures |= measure_playbook(who, options.rounds)
            elif part == "setup":
                seconds = measure(who, SETUP, min(3, options.rounds))
                figures |= {f"setup_seconds: {name}": value for name, value in seconds.items()}
            elif part == "files":
                figures |= measure_files(box, who, options.rounds)
            else:
                figures |= measure_fleet(box, who["pct_exec"], options.fleet_rounds)
        box.testbed("remove", VMID)
    figures = {name: round(value, 4) for name, value in figures.items()}
    result.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    width = max(map(len, figures))
    print("\nThe node's pct is a stand-in with the real one's start-up cost.\n")
    for name, value in sorted(figures.items()):
        print(f"{name:{width}}  {value:10.3f}")
    print(f"\n{result.relative_to(CHECKOUT)}")


if __name__ == "__main__":
    main()
