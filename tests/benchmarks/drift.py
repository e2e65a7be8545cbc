# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a night's check takes on 1, 10, 50 and 100 containers, against ``provision --check``: ``make bench-drift``.

Each figure is the wall time of the whole command, start-up and reports included. The containers are copies of one
provisioned container of a testbed box (TESTBED_NAME, "bench" by default), so that every link is looked at and compared;
each run has to find all of them ok. The box is taken down when it was made here.

The results go to build/bench/drift.json: hundred_hosts_s, vs_check_mode (how many times as long the same hosts take in
check mode), and the growth from one to the most hosts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.timed_runs import box, testbed, timed, write  # noqa: E402

FIRST = 700
DRIFT, CHECK = "proxmox_gpu.training.drift_check", "proxmox_gpu.training.provision"


def run(playbook: str, count: int, inventory: Path, forks: int, variables: dict[str, Any]) -> float:
    """Seconds of one run on this many containers. SystemExit with its output when it was not a good one."""
    with tempfile.TemporaryDirectory(prefix="bench-drift-") as state:
        spent, done = timed(
            "ansible-playbook",
            f"--inventory={inventory}",
            f"--limit={','.join(f'ct{FIRST + index}' for index in range(count))}",
            f"--forks={forks}",
            f"--extra-vars={json.dumps({**variables, 'drift_check_path': state, 'provision_format': 'json'})}",
            *(["--check"] if playbook == CHECK else []),
            playbook,
        )
        if playbook == DRIFT:
            report = Path(state, "report.json")
            good = report.exists() and json.loads(report.read_text())["counts"]["ok"] == count
        else:
            good = f'"hosts": {count}' in done.stdout
    if done.returncode or not good:
        raise SystemExit(f"{playbook} on {count} hosts was no good run:\n{done.stdout[-4000:]}{done.stderr}")
    return round(spent, 2)


def measure(counts: list[int], rounds: int, forks: int) -> dict[str, Any]:
    from tests.integration import chain_cases
    from tests.integration.box import Box

    place = Box()
    snapshot = chain_cases.snapshot(place, "finished")
    most, last = max(counts), FIRST + max(counts) - 1
    testbed("create", f"{FIRST}-{last}")
    try:
        testbed("fresh", f"{FIRST}-{last}", "--from", snapshot)
        settings = (place.inventory, forks, chain_cases.WISHES)
        run(DRIFT, 1, *settings)  # warms the ssh link and Ansible's own caches, as after a first command
        rows = {count: [run(DRIFT, count, *settings) for _round in range(rounds)] for count in counts}
        check = {count: run(CHECK, count, *settings) for count in sorted({min(counts), most})}
    finally:
        testbed("remove", f"{FIRST}-{last}")
    middle = {count: statistics.median(seconds) for count, seconds in rows.items()}
    return {
        "forks": forks,
        "processors": os.cpu_count(),
        "seconds": {str(count): seconds for count, seconds in rows.items()},
        "check_mode_s": {str(count): seconds for count, seconds in check.items()},
        "one_host_s": middle[min(counts)],
        "hundred_hosts_s": middle.get(100),
        "growth": round(middle[most] / middle[min(counts)], 2),
        "a_host_more_s": round((middle[most] - middle[min(counts)]) / max(most - min(counts), 1), 3),
        "vs_check_mode": round(check[most] / middle[most], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the drift check on many containers of a testbed box.")
    parser.add_argument("--hosts", default="1,10,50,100", help="numbers of containers (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="runs a number, of which the median counts (%(default)s)")
    parser.add_argument("--forks", type=int, default=10, help="hosts at a time (%(default)s)")
    options = parser.parse_args()
    with box():
        found = measure(sorted(int(n) for n in options.hosts.split(",")), options.rounds, options.forks)
    write("drift", found)
    print(f"{'hosts':>6} {'drift_check s':>14} {'provision --check s':>20}   runs")
    for count, seconds in found["seconds"].items():
        other = found["check_mode_s"].get(count)
        shown = f"{other:.2f}" if other else ""
        print(f"{count:>6} {statistics.median(seconds):>14.2f} {shown:>20}   {' '.join(f'{s:.2f}' for s in seconds)}")
    print(f"a host more {found['a_host_more_s']} s; check mode takes {found['vs_check_mode']} times as long")


if __name__ == "__main__":
    main()
