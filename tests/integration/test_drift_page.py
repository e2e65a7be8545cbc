# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drift check's page in a real Chromium, from a file: phone and desk, light and dark, by keys, read aloud."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import fleet
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _drift_page
from tests.integration.browser import Browser, browser
from tests.unit.plugins.module_utils._drift import nights

HOST = "#host-pve2-train07"
WIDTHS = {"phone": 390, "desktop": 1280}
every_view = pytest.mark.parametrize(
    ("width", "scheme", "anchor"),
    [(width, scheme, anchor) for width in WIDTHS.values() for scheme in ("light", "dark") for anchor in ("", HOST)],
)

#: Texts with too little contrast (WCAG 2.2, AA): each visible piece of text against the first opaque ground behind it.
CONTRAST = """
(() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length === 3 ? [...n, 1] : n; };
  const part = c => { c /= 255; return c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const light = c => .2126 * part(c[0]) + .7152 * part(c[1]) + .0722 * part(c[2]);
  const ground = one => { for (; one; one = one.parentElement) {
    const c = parse(getComputedStyle(one).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement, text = walk.currentNode.data.trim(), style = getComputedStyle(one);
    if (!text || !one.checkVisibility() || one.closest('.sr, .skip')) continue;
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ink = one.namespaceURI.endsWith('svg') ? style.fill : style.color;
    const [a, b] = [light(parse(ink)), light(ground(one))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < (large ? 3 : 4.5)) found.push(`${text.slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return found;
})()
"""
#: Elements that stick out of the window, but for what lies in a region that scrolls.
TOO_WIDE = """
[...document.querySelectorAll('body *')]
  .filter(one => one.checkVisibility() && !one.closest('.scroll, .sr, .skip, .signs'))
  .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
  .map(one => one.tagName + '.' + one.className)
"""


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return nights.twelve()


@pytest.fixture(scope="module")
def page(report: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(_drift_page.page(report), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@every_view
def test_no_complaint_and_no_network(chromium: Browser, page: Path, width: int, scheme: str, anchor: str) -> None:
    chromium.open(page, width, scheme=scheme, anchor=anchor)
    assert chromium.troubles() == []


@every_view
def test_everything_fits(chromium: Browser, page: Path, width: int, scheme: str, anchor: str) -> None:
    chromium.open(page, width, scheme=scheme, anchor=anchor)
    assert chromium.evaluate("document.scrollingElement.scrollWidth") <= width
    assert chromium.evaluate(TOO_WIDE) == []


@every_view
def test_every_text_can_be_read(chromium: Browser, page: Path, width: int, scheme: str, anchor: str) -> None:
    chromium.open(page, width, scheme=scheme, anchor=anchor)
    assert chromium.evaluate(CONTRAST) == []


def test_dark_is_dark(chromium: Browser, page: Path) -> None:
    shown = []
    for scheme in ("light", "dark"):
        chromium.open(page, scheme=scheme)
        shown.append(chromium.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shown == ["rgb(244, 246, 248)", "rgb(14, 19, 25)"]


def test_a_host_is_opened_and_left_by_keys(chromium: Browser, page: Path) -> None:
    chromium.open(page)
    for _press in range(60):
        chromium.press("Tab")
        if chromium.evaluate("document.activeElement.closest('th') && document.activeElement.hash") == HOST:
            break
    assert chromium.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    chromium.press("Enter")
    shown = (
        "[...document.querySelectorAll('article, #overview')].filter(one => one.checkVisibility()).map(one => one.id)"
    )
    assert chromium.evaluate(shown) == [HOST[1:]]
    chromium.evaluate("document.querySelector('article:target .back a').focus()")
    chromium.press("Enter")
    assert chromium.evaluate(shown) == ["overview"]


def test_a_host_shows_evidence_and_remedy(chromium: Browser, page: Path, report: dict[str, Any]) -> None:
    chromium.open(page, anchor=HOST)
    text = chromium.evaluate("document.querySelector('article:target').innerText")
    [host] = [one for one in report["hosts"] if one["name"] == "pve2-train07"]
    assert len(host["lines"]) == 3
    for line in host["lines"]:
        for name in ("what", "is", "evidence", "remedy"):
            assert line[name] in text


def test_the_grid_reads_aloud(chromium: Browser, page: Path, report: dict[str, Any]) -> None:
    chromium.open(page)
    nodes = [node for node in chromium.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
    named = [(node["role"]["value"], (node.get("name") or {}).get("value", "")) for node in nodes]
    assert [name for role, name in named if role == "rowheader"] == [host["name"] for host in report["hosts"]]
    headers = ["host", "result", *fleet.LINKS, "ratio"]
    assert [name for role, name in named if role == "columnheader"] == headers
    cells = [name for role, name in named if role in ("cell", "gridcell")]
    assert len(cells) == len(report["hosts"]) * (len(headers) - 1)
    assert all(cells)
    assert [role for role, _name in named if role in ("banner", "main", "contentinfo")] == [
        "banner",
        "main",
        "contentinfo",
    ]
    assert all(name for role, name in named if role in ("image", "img", "region", "link"))


def test_it_needs_no_script_and_no_other_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for word in ("<script", "http-equiv", '<link rel="stylesheet', "@import", "url(", " src="):
        assert word not in text


def test_a_name_from_the_inventory_is_only_a_text(chromium: Browser, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>\"'&"
    found = nights.judged(host=name)
    path = tmp_path / "odd.html"
    path.write_text(_drift_page.page(fleet.document([found], [], nights.NOW)), encoding="utf-8")
    chromium.open(path)
    assert chromium.evaluate("document.querySelectorAll('img').length") == 0
    assert chromium.evaluate("document.querySelector('.grid tbody th').innerText") == name
    assert chromium.troubles() == []
