# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the inventory of 500 containers takes, and how many requests: ``make bench-inventory``.

The time is that of ``ansible-inventory --list`` as a person waits for it, by a token over verified https, against the
testbed's stand-in of the Proxmox API. Each request is held up for 25 ms there, so that requests one after the other
would take 13 s for the waiting alone. Every container's configuration is read. The results go to
build/bench/inventory.json.
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

from tests.timed_runs import box, timed, write  # noqa: E402

REQUEST_S = 0.025


def run(source: Path) -> tuple[float, dict[str, Any]]:
    """Seconds, and what ansible-inventory listed. SystemExit with its words when it failed."""
    spent, done = timed("ansible-inventory", "-i", str(source), "--list", timeout=300)
    if done.returncode:
        raise SystemExit(f"ansible-inventory failed:\n{done.stderr}")
    return spent, json.loads(done.stdout)


def measure(count: int, rounds: int) -> dict[str, Any]:
    from testbed import state
    from testbed.api_standin import settings
    from testbed.layout import layout
    from tests.integration.api import source_text

    place = layout()
    path, log = place.state / "api.json", place.state / "api.log"
    settings.change(path, crowd=count, slow={".": REQUEST_S})
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "lxc_hosts.yml")
            source.write_text(source_text(place, state.load_ports(place)))
            seconds, requests = [], []
            for _round in range(rounds):
                log.write_text("")
                spent, listed = run(source)
                seconds.append(round(spent, 2))
                requests.append(len(log.read_text().splitlines()))
            own = sum(name.startswith("ct") for name in listed["_meta"]["hostvars"])
            found = len(listed["_meta"]["hostvars"]) - own
            with_gpu = len(listed["gpu"]["hosts"])
    finally:
        settings.change(path, crowd=None, slow=None)
    if found != count:
        raise SystemExit(f"{found} of {count} containers were listed.")
    return {
        "containers": count,
        "with_gpu": with_gpu,
        "held_up_s": REQUEST_S,
        "processors": os.cpu_count(),
        "seconds": seconds,
        "wall_s": statistics.median(seconds),
        "requests_for_500": max(requests) - own,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the inventory of many containers against the API stand-in.")
    parser.add_argument("--containers", type=int, default=500, help="how many (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs, of which the median counts (%(default)s)")
    options = parser.parse_args()
    with box():
        found = measure(options.containers, options.rounds)
    write("inventory", found)
    print(
        f"{found['containers']} containers, every configuration read: {found['requests_for_500']} requests, "
        f"{found['wall_s']:.2f} s (runs: {' '.join(f'{one:.2f}' for one in found['seconds'])})"
    )


if __name__ == "__main__":
    main()
