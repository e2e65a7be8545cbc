# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long playbook diagnose takes on 1, 10, 25 and 50 containers: ``make bench-diagnose``.

Each figure is the wall time of the whole ``ansible-playbook`` run, start-up included, as a person waits for it. The
containers are those of a testbed box (TESTBED_NAME, "bench" by default), all in one prepared state, so that every link
is looked at; the box is taken down when it was made here.

The results go to build/bench/diagnose.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests import prepared  # noqa: E402
from tests.timed_runs import box, testbed, timed, write  # noqa: E402

FIRST = 700


def run(count: int, inventory: Path, forks: int) -> float:
    """Seconds of one diagnose of this many containers. SystemExit with the output when it did not report."""
    hosts = ",".join(f"ct{FIRST + index}" for index in range(count))
    variables = json.dumps({"diagnose_fail_on": [], "diagnose_format": "json"})
    spent, done = timed(
        "ansible-playbook",
        f"--inventory={inventory}",
        f"--limit={hosts}",
        f"--forks={forks}",
        f"--extra-vars={variables}",
        "proxmox_gpu.training.diagnose",
        timeout=600,
    )
    if done.returncode or f'"hosts": {count}' not in done.stdout:
        raise SystemExit(
            f"diagnose of {count} hosts did not report on all of them:\n{done.stdout[-4000:]}{done.stderr}"
        )
    return spent


def measure(counts: list[int], snapshot: str | None, rounds: int, forks: int) -> dict[str, Any]:
    from tests.integration import chain_cases
    from tests.integration.box import Box

    place = Box()
    start = ("--from", chain_cases.snapshot(place, snapshot)) if snapshot else ()
    last = FIRST + max(counts) - 1
    testbed("create", f"{FIRST}-{last}")
    try:
        testbed("fresh", f"{FIRST}-{last}", *start)
        inventory = place.inventory
        run(1, inventory, forks)  # warms the ssh link and Ansible's own caches, as after a first command
        rows = {count: [round(run(count, inventory, forks), 2) for _round in range(rounds)] for count in counts}
    finally:
        testbed("remove", f"{FIRST}-{last}")
    middle = {count: statistics.median(seconds) for count, seconds in rows.items()}
    return {
        "snapshot": snapshot or "bare",
        "forks": forks,
        "processors": os.cpu_count(),
        "seconds": {str(count): seconds for count, seconds in rows.items()},
        "one_host_s": middle[min(counts)],
        "fifty_hosts_s": middle[max(counts)],
        "growth": round(middle[max(counts)] / middle[min(counts)], 2),
        "a_host_more_s": round((middle[max(counts)] - middle[min(counts)]) / max(max(counts) - min(counts), 1), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time playbook diagnose on many containers of a testbed box.")
    parser.add_argument("--hosts", default="1,10,25,50", help="numbers of containers (%(default)s)")
    parser.add_argument(
        "--from", dest="snapshot", choices=[*prepared.STEPS, "finished"], help="how far the containers are (bare)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs a number, of which the median counts (%(default)s)")
    parser.add_argument("--forks", type=int, default=10, help="hosts at a time (%(default)s)")
    options = parser.parse_args()
    with box():
        found = measure(
            sorted(int(n) for n in options.hosts.split(",")), options.snapshot, options.rounds, options.forks
        )
    write("diagnose", found)
    print(f"{'hosts':>6} {'median s':>9}   runs")
    for count, seconds in found["seconds"].items():
        print(f"{count:>6} {statistics.median(seconds):>9.2f}   {' '.join(f'{one:.2f}' for one in seconds)}")
    one, most, more = (found[name] for name in ("one_host_s", "fifty_hosts_s", "a_host_more_s"))
    print(f"one host {one:.2f} s, all {most:.2f} s, a host more {more} s")


if __name__ == "__main__":
    main()
