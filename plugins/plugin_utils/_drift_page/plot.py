# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""Places in a plot of fast-path ratios over nights: values to coordinates, and the lines to read them by. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 960, 210
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 26

Series = Sequence[float | None]


def plot(
    dates: Sequence[str], line: Series, low: Series | None = None, high: Series | None = None
) -> dict[str, Any] | None:
    """{line, dots, band, ticks, days} in the coordinates of a WIDTH x HEIGHT picture; None without a value."""
    known = [value for series in (line, low or (), high or ()) for value in series if value is not None]
    if not known:
        return None
    top = _ceiling(max(known))

    def x(index: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (index / (len(dates) - 1) if len(dates) > 1 else 1), 1)

    def y(value: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top), 1)

    def places(series: Series) -> list[tuple[float, float]]:
        return [(x(index), y(value)) for index, value in enumerate(series) if value is not None]

    band = places(low or ()) + places(high or ())[::-1]
    shown = sorted({0, (len(dates) - 1) // 2, len(dates) - 1})
    return {
        "line": _points(places(line)),
        "dots": places(line),
        "band": _points(band),
        "ticks": [(y(value), f"{value:g}×") for value in (0, top / 2, top)],
        "days": [(x(index), dates[index][5:]) for index in shown],
        "last": next((value for value in reversed(line) if value is not None), None),
    }


def of_host(host: Mapping[str, Any]) -> dict[str, Any] | None:
    return plot([night["date"] for night in host["nights"]], [night["ratio"] for night in host["nights"]])


def of_fleet(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """The median of all hosts, in a band from the slowest to the fastest."""
    dates = [night["date"] for night in report["nights"]]
    found: dict[str, list[float]] = {date: [] for date in dates}
    for host in report["hosts"]:
        for night in host["nights"]:
            if night["ratio"] is not None and night["date"] in found:
                found[night["date"]].append(night["ratio"])
    columns = [found[date] for date in dates]
    low, middle, high = ([make(one) if one else None for one in columns] for make in (min, statistics.median, max))
    return plot(dates, middle, low, high)


def _ceiling(value: float) -> float:
    """A round number that is not below a value."""
    unit = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(step * unit for step in (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10) if step * unit >= value)


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in places)
