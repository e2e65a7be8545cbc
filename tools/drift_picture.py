# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/images/drift_page.png, the drift check's page over twelve hosts: ``python tools/drift_picture.py``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PICTURE = CHECKOUT / "docs" / "images" / "drift_page.png"


def main() -> None:
    sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "build" / "tree")]
    from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _drift_page
    from tests.integration.browser import browser
    from tests.unit.plugins.module_utils._drift import nights

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        page.write_text(_drift_page.page(nights.twelve()), encoding="utf-8")
        with browser(Path(folder, "profile")) as chromium:
            chromium.open(page)
            PICTURE.parent.mkdir(parents=True, exist_ok=True)
            chromium.screenshot(PICTURE)


if __name__ == "__main__":
    main()
