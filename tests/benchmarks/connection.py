# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""pct_exec beside the other ways into a container, on the same work in one run: ``make bench-connection``.

Contestants: ours with the resident runner and without it; the stock ssh plugin into the container's own sshd;
community.proxmox.proxmox_pct_remote; Mitogen's mitogen_lxc through the node, with Mitogen's own strategy; and what is
no way in but the least that one through lxc-attach can cost, the stock ssh plugin to the node with lxc-attach in front
of each command. Each has an environment of its own, all the same ansible-core release, with pipelining, and each run
begins without an open connection or resident process. The node is the testbed's box; its pct is a stand-in with the
real one's measured start-up of 0.7 s.

The whole takes about 45 minutes. It can be had in pieces: ``ARGUMENTS="playbook --rounds 2"`` measures one work anew,
``--more`` adds rounds to what is there. Every single time is kept in build/bench/connection_times.json; the figures
are medians over them, in build/bench/connection.json (a flat object; ratios are ours divided by theirs,
copy500_vs_raw is our throughput divided by that of `ssh node lxc-attach cat`), with a plot of the fleet's growth in
build/bench/connection_fleet.svg.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("TESTBED_NAME", "bench_connection")

from testbed import client  # noqa: E402
from tests import prepared  # noqa: E402
from tests.benchmarks import ways  # noqa: E402
from tests.integration.box import CHECKOUT, Box  # noqa: E402
from tests.integration.connection.link import Link  # noqa: E402

SIZES = (1, 2, 5, 10, 20, 50)
MEGABYTE = 1 << 20
RETRIES = ("ssh_retry", "mux_client", "Session open refused", "Connection reset", "Connection closed by")

COMMAND = "    - ansible.builtin.command: echo {0}\n"
STAT = "    - ansible.builtin.stat: {{path: /etc/passwd}}\n"
COPY = '    - ansible.builtin.copy: {{content: "file {0}\\n", dest: /root/bench{0}, mode: "0644"}}\n'
SLURP = "    - ansible.builtin.slurp: {{src: /etc/passwd}}\n"
TASKS = [COMMAND, COMMAND, STAT, COPY, COMMAND, COMMAND, STAT, SLURP, COMMAND, COMMAND]
TASKS += [STAT, COPY, COMMAND, COMMAND, STAT, COPY, SLURP, STAT, COMMAND, COMMAND]

#: Every value that was measured: by the work, and by what it is of.
Times = dict[str, dict[str, list[float]]]


def play(*tasks: str) -> str:
    return "- hosts: all\n  gather_facts: false\n  tasks:\n" + "".join(tasks)


TWENTY = play(*(task.format(number) for number, task in enumerate(TASKS)))
SETUP = play("    - ansible.builtin.setup:\n")
FIVE = play(*(COMMAND.format(number) for number in range(5)))


class Bench:
    """The works: each public method does one round, of the number given (from 0), of one."""

    def __init__(self, box: Box, remote_rounds: int) -> None:
        self.box = box
        self.who = ways.contestants()
        self.remote_rounds = remote_rounds
        self.times: dict[str, list[float]] = {}  # of the work that is being done

    def note(self, what: str, value: float) -> None:
        self.times.setdefault(what, []).append(round(value, 4))
        print(f"  {what}: {value:.2f}", flush=True)

    def take_turns(self, work: str, text: str, number: int) -> None:
        for name, one in self.who.items():
            if name == ways.BARE and work != "playbook":
                continue
            if name != ways.REMOTE or number < self.remote_rounds:
                self.note(f"{work}_seconds: {name}", one.run(text)[0])

    def playbook(self, number: int) -> None:
        """Twenty small tasks."""
        self.take_turns("playbook", TWENTY, number)

    def setup(self, number: int) -> None:
        """Facts."""
        self.take_turns("setup", SETUP, number)

    def copy50(self, number: int) -> None:
        """50 MB in and out."""
        self._copy(50)

    def copy500(self, number: int) -> None:
        """500 MB in and out."""
        self._copy(500)

    def play50(self, number: int) -> None:
        """The modules copy and fetch with 50 MB."""
        self._play_copy(50, number)

    def play500(self, number: int) -> None:
        """The modules copy and fetch with 500 MB."""
        self._play_copy(500, number)

    def growth(self, number: int) -> None:
        """Five tasks in 1 to 50 containers behind one node."""
        for size in SIZES:
            limit = ",".join(f"ct{vmid}" for vmid in ways.FLEET[:size])
            seconds, _output = self.who[ways.OURS].run(FIVE, "--forks", "50", limit=limit)
            self.note(f"growth_seconds: {size:2}", seconds)

    def fleet(self, number: int) -> None:
        """Five tasks in 50 containers: who was not reached, and what was tried twice."""
        limit = ",".join(f"ct{vmid}" for vmid in ways.FLEET)
        seconds, output = self.who[ways.OURS].run(FIVE, "--forks", "50", "-vvv", limit=limit, check=False)
        self.note("fleet_seconds", seconds)
        self.note("fleet_unreachable", len(ways.FLEET) - ways.reached(output))
        self.note("fleet_retries", sum(output.count(word) for word in RETRIES))

    def _copy(self, size: int) -> None:
        with random_file(size) as source:
            raw = raw_seconds(self.box, str(source.with_name("control")), source)
            own = own_seconds(self.box, source)
            for number, what in enumerate((f"copy{size}_seconds", f"fetch{size}_seconds")):
                self.note(f"{what}: raw", raw[number])
                self.note(f"{what}: {ways.OURS}", own[number])
            self.note(f"copy{size}_peak_mb", own[2])
            ways.close_masters(source.parent)

    def _play_copy(self, size: int, number: int) -> None:
        with random_file(size) as source:
            self.take_turns(
                f"play{size}",
                play(
                    f"    - ansible.builtin.copy: {{src: {source}, dest: /root/task, mode: '0644'}}\n",
                    f"    - ansible.builtin.fetch: {{src: /root/task, dest: {source.parent}/task, flat: true}}\n",
                    "    - ansible.builtin.file: {path: /root/task, state: absent}\n",
                ),
                number,
            )


@contextmanager
def random_file(size: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pctf", dir="/tmp") as folder:
        source = Path(folder, "source")
        with open(source, "wb") as file:
            for _ in range(size):
                file.write(os.urandom(MEGABYTE))
        yield source


def raw_seconds(box: Box, control: str, source: Path) -> tuple[float, float]:
    """`ssh node lxc-attach cat` with ssh's defaults and an open connection, in and out."""
    base = client.ssh_command(box.layout, "root")
    base[1:1] = ["-o", f"ControlPath={control}", "-o", "ControlMaster=auto", "-o", "ControlPersist=60s"]
    inside = f"lxc-attach -n {ways.VMID} --clear-env -- sh -c"
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
            link = Link(box, ways.VMID, str(source.parent))
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


# --- figures


def figures_of(times: Times) -> dict[str, float]:
    """The flat object: medians, and the ratios that they make. What was not measured is not in it."""
    every = {what: values for work in times.values() for what, values in work.items()}
    figures = {what: statistics.median(values) for what, values in every.items()}
    for what, values in every.items():
        if what in ("fleet_unreachable", "fleet_retries"):
            figures[what] = sum(values)
            figures["fleet_runs"] = len(values)
        elif what.endswith("_peak_mb"):
            figures[what] = max(values)

    def ratio(name: str, one: str, other: str) -> None:
        if one in figures and other in figures:
            figures[name] = figures[one] / figures[other]

    for name, rival in (("ssh", ways.SSH), ("pct_remote", ways.REMOTE), ("mitogen", ways.MITOGEN)):
        ratio(f"playbook_vs_{name}", f"playbook_seconds: {ways.OURS}", f"playbook_seconds: {rival}")
        ratio(f"playbook_plain_vs_{name}", f"playbook_seconds: {ways.PLAIN}", f"playbook_seconds: {rival}")
    ratio("playbook_plain_vs_bare", f"playbook_seconds: {ways.PLAIN}", f"playbook_seconds: {ways.BARE}")
    ratio("playbook_bare_vs_ssh", f"playbook_seconds: {ways.BARE}", f"playbook_seconds: {ways.SSH}")
    for what in ("copy50", "copy500", "fetch50", "fetch500"):
        ratio(f"{what}_vs_raw", f"{what}_seconds: raw", f"{what}_seconds: {ways.OURS}")
    ratio("fleet_wall_vs_one", f"growth_seconds: {SIZES[-1]}", f"growth_seconds: {1:2}")
    return {name: round(value, 4) for name, value in figures.items()}


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


# --- the program


@contextmanager
def box_is_up(fleet: bool) -> Iterator[Box]:
    """The box with what the works need; it and the containers are gone afterwards where they were not there before."""
    box = Box()
    was_up = box.is_up()
    made = [ways.VMID, *(ways.FLEET if fleet else ())]
    box.testbed("up")
    try:
        ways.prepare(box)
        if fleet:
            box.testbed("create", ",".join(ways.FLEET))
            box.testbed("fresh", ",".join(ways.FLEET), "--from", prepared.snapshot("python"))
        yield box
    finally:
        if was_up or os.environ.get("KEEP_TESTBED"):
            box.testbed("remove", ",".join(made))
        else:
            box.testbed("down")


def write(times: Times) -> dict[str, float]:
    figures = figures_of(times)
    for name, content in (("connection_times", times), ("connection", figures)):
        (ways.BENCH / f"{name}.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    growth = {size: figures[f"growth_seconds: {size:2}"] for size in SIZES if f"growth_seconds: {size:2}" in figures}
    if growth:
        (ways.BENCH / "connection_fleet.svg").write_text(drawing(growth))
    return figures


def main() -> None:
    rounds = dict.fromkeys(("playbook", "setup", "copy50", "copy500", "play50", "play500", "growth"), 5) | {"fleet": 20}
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"all, or some of {', '.join(rounds)}")
    parser.add_argument("--rounds", type=int, help="rounds of each work; otherwise 5, and 20 of fleet")
    parser.add_argument(
        "--remote-rounds", type=int, default=99, help="at most so many of proxmox_pct_remote: 2 minutes each"
    )
    parser.add_argument("--more", action="store_true", help="add to the times of earlier runs")
    options = parser.parse_args()
    if unknown := set(options.works) - set(rounds):
        parser.error(f"there is no {', '.join(sorted(unknown))}; works are {', '.join(rounds)}")
    works = options.works or list(rounds)
    ways.BENCH.mkdir(parents=True, exist_ok=True)
    kept = ways.BENCH / "connection_times.json"
    times: Times = json.loads(kept.read_text()) if kept.exists() and (options.works or options.more) else {}
    if not options.more:
        times = {work: values for work, values in times.items() if work not in works}
    init_plugin_loader([str(CHECKOUT / "build" / "tree")])
    with box_is_up(fleet=bool({"growth", "fleet"} & set(works))) as box:
        bench = Bench(box, options.remote_rounds)
        for work in works:
            bench.times = times.setdefault(work, {})
            run: Callable[[int], None] = getattr(bench, work)
            count = options.rounds or rounds[work]
            for number in range(count):
                print(f"{work} (round {number + 1} of {count}): {run.__doc__}", flush=True)
                run(number)
                write(times)
    figures = write(times)
    width = max(map(len, figures))
    print("\nThe node's pct is a stand-in with the real one's start-up cost.\n")
    for name, value in sorted(figures.items()):
        print(f"{name:{width}}  {value:10.3f}")
    print(f"\n{(ways.BENCH / 'connection.json').relative_to(CHECKOUT)}")


if __name__ == "__main__":
    main()
