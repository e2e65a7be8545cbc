# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The report on a fleet as one document, from tonight's verdicts and the nights before. Pure.

Every form of the report is made from this document alone; docs/schemas/drift-1.json describes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from .._chain.links import LINKS
from . import history
from .verdict import DRIFT, EXIT, OK, UNKNOWN_RESULT, worst

SCHEMA = 1
NIGHTS = 30
#: Results from worst to harmless: what a reader must see first.
ORDER = ("drift", "unknown", "not_provisioned", "ok")
Judged = Mapping[str, Any]


def document(
    hosts: Sequence[Judged], records: list[history.Record], now: float, zone: tzinfo | None = None
) -> dict[str, Any]:
    """The report.

    :param records: the history without tonight.
    :param zone: whose days the nights are; by default this machine's.
    """
    before = {one["host"]: _last(records, one["host"]) for one in hosts}
    since = dict(records[-1].get("open") or {}) if records else {}
    told = [_host(one, records, since, before[one["host"]], now, zone) for one in hosts]
    counts = {result: sum(one["result"] == result for one in told) for result in EXIT}
    verdict = worst(one["result"] for one in told) if told else UNKNOWN_RESULT
    return {
        "kind": "proxmox_gpu.drift",
        "schema": SCHEMA,
        "generated": _stamp(now, zone),
        "previous": _stamp(records[-1]["when"], zone) if records else None,
        "verdict": verdict,
        "exit": EXIT[verdict],
        "counts": counts,
        "links": list(LINKS),
        "hosts": sorted(told, key=lambda one: (ORDER.index(one["result"]), one["name"])),
        "changes": [change for one in told for change in _changes(one, before[one["name"]])],
        "nights": _nights(records, {"when": now, "verdict": verdict, "counts": counts}, zone),
    }


def record(report: Mapping[str, Any], records: list[history.Record], now: float) -> history.Record:
    """What the history keeps of a report.

    ``open``: since when each line is seen, also of those for which nobody could look tonight.
    """
    hosts = {one["name"]: one for one in report["hosts"]}
    unclear = {name for name, one in hosts.items() if any(line["kind"] == UNKNOWN_RESULT for line in one["lines"])}
    last = records[-1] if records else {"open": {}}
    carried = {
        key: item
        for key, item in (last.get("open") or {}).items()
        if item["host"] not in hosts or item["host"] in unclear
    }
    seen = {
        line["key"]: {"host": name, "since": _seconds(line["since"])}
        for name, one in hosts.items()
        for line in one["lines"]
    }
    return {
        "schema": history.SCHEMA,
        "when": now,
        "verdict": report["verdict"],
        "counts": report["counts"],
        "hosts": {
            name: {"result": one["result"], "ratio": one["ratio"], "lines": [_kept(line) for line in one["lines"]]}
            for name, one in hosts.items()
        },
        "open": {**carried, **seen},
    }


def news(report: Mapping[str, Any], told: Iterable[str], still_open: Iterable[str]) -> dict[str, Any]:
    """What a person is to be told: lines that nobody was told of, and whether some that were told are gone."""
    known = set(told)
    lines = [{"host": one["name"], **line} for one in report["hosts"] for line in one["lines"]]
    appeared = [line for line in lines if line["key"] not in known]
    gone = sorted(known - set(still_open))
    return {"changed": bool(appeared or gone), "appeared": appeared, "gone": len(gone)}


def _kept(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("key", "kind", "link", "what", "was", "is")}


def _last(records: list[history.Record], host: str) -> Mapping[str, Any] | None:
    """What the newest earlier run said of a host; None where none looked at it."""
    return next((one["hosts"][host] for one in reversed(records) if host in one["hosts"]), None)


def _host(
    one: Judged, records: list[history.Record], since: Mapping[str, Any], before: Any, now: float, zone: tzinfo | None
) -> dict[str, Any]:
    known = {line["key"] for line in (before or {}).get("lines") or []}
    lines = [
        {
            **line,
            "since": _stamp((since.get(line["key"]) or {}).get("since", now), zone),
            "new": line["key"] not in known,
        }
        for line in one["lines"]
    ]
    mine = [(record["when"], record["hosts"][one["host"]]) for record in records if one["host"] in record["hosts"]]
    mine.append((now, one))
    nights = {_day(when, zone): {"result": found["result"], "ratio": found.get("ratio")} for when, found in mine}
    latest = sorted(nights.items())[-NIGHTS:]
    kept = ("result", "links", "ratio", "proven", "fast_layers", "layers", "cost", "set")
    return {
        "name": one["host"],
        **{name: one.get(name) for name in kept},
        "lines": lines,
        "nights": [{"date": date, **night} for date, night in latest],
    }


def _changes(one: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """What came and what went since the run before, each with its line."""
    if before is None:
        return []
    old = {line["key"]: line for line in before["lines"]}
    new = {line["key"]: line for line in one["lines"]}
    came = [
        {"host": one["name"], "change": "appeared", "line": _kept(line)} for key, line in new.items() if key not in old
    ]
    # A line that nobody could look for tonight has not gone.
    looked = not any(line["kind"] == UNKNOWN_RESULT for line in one["lines"])
    went = [
        {"host": one["name"], "change": "gone", "line": _kept(line)}
        for key, line in old.items()
        if key not in new and (looked or line["kind"] != DRIFT)
    ]
    return came + went


def _nights(records: list[history.Record], tonight: Mapping[str, Any], zone: tzinfo | None) -> list[dict[str, Any]]:
    """The fleet's last nights: of several runs on one day the last one counts."""
    found: dict[str, dict[str, Any]] = {}
    for one in [*records, tonight]:
        date = _day(one["when"], zone)
        found[date] = {"date": date, "verdict": one["verdict"], "counts": one["counts"]}
    return [found[date] for date in sorted(found)][-NIGHTS:]


def _stamp(when: float, zone: tzinfo | None) -> str:
    moment = datetime.fromtimestamp(float(when), zone)
    return (moment if zone else moment.astimezone()).isoformat(timespec="seconds")


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _day(when: float, zone: tzinfo | None) -> str:
    return _stamp(when, zone)[:10]


def headline(report: Mapping[str, Any]) -> str:
    """One sentence on the fleet: "12 hosts: 2 drifted (ct201, ct204), 1 unknown (ct209), 9 ok."."""
    names = {result: [one["name"] for one in report["hosts"] if one["result"] == result] for result in EXIT}
    total = len(report["hosts"])
    if not total:
        return "No host was looked at."
    if report["verdict"] == OK:
        return f"All {total} hosts are as they were locked." if total > 1 else "The host is as it was locked."
    words = {"drift": "drifted", "unknown": "unknown", "not_provisioned": "not provisioned", "ok": "ok"}
    parts = [
        f"{len(names[result])} {words[result]}{'' if result == OK else f' ({_few(names[result])})'}"
        for result in ORDER
        if names[result]
    ]
    return f"{total} host{'s' if total > 1 else ''}: {', '.join(parts)}."


def _few(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
