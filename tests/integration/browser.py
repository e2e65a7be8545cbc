# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A headless Chromium, driven by its DevTools protocol through two pipes: no driver program, no port, no library."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAM = "chromium-headless-shell"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
    "about:blank",
)
SECONDS = 30
KEYS = {"Tab": 9, "Enter": 13}


class Browser:
    """One page of a running Chromium, and what happened in it."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._session: str | None = None
        self._answers: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while number not in self._answers:
            self._receive(end - time.monotonic(), method)
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self, seconds: float, waiting_for: str) -> None:
        ready, _write, _error = select.select([self._read], [], [], max(seconds, 0))
        block = os.read(self._read, 1 << 20) if ready else b""
        assert block, f"The browser did not answer {waiting_for}."
        *messages, self._buffer = (self._buffer + block).split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self.events.append(message)

    def open(self, page: Path, width: int = 1280, height: int = 900, scheme: str = "light", anchor: str = "") -> None:
        """Load a file as a window of this size and colour scheme shows it."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.events.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"file://{page}{anchor}")
        end = time.monotonic() + SECONDS
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.protocol") != "file:":
            assert time.monotonic() < end, f"{page} did not load"

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            words = text if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], **words)

    def screenshot(self, path: Path) -> None:
        """The whole page, however long it is."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def troubles(self) -> list[str]:
        """What the console complained of, and whatever was asked of a network."""
        found = []
        for event in self.events:
            told = event["params"]
            address = told.get("request", {}).get("url", "")
            bad = {
                "Runtime.exceptionThrown": True,
                "Log.entryAdded": told.get("entry", {}).get("level") == "error",
                "Runtime.consoleAPICalled": told.get("type") in ("error", "warning", "assert"),
                "Network.requestWillBeSent": not address.startswith(("file:", "data:", "about:")),
            }
            if bad.get(event["method"]):
                found.append(f"{event['method']}: {json.dumps(told)}")
        return found


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    ours_read, theirs_write = os.pipe()
    theirs_read, ours_write = os.pipe()

    def place() -> None:
        # Chromium reads from descriptor 3 and writes to 4; by way of high numbers, since ours may be these.
        for source, high in ((theirs_read, 103), (theirs_write, 104)):
            os.dup2(source, high)
        for high, wanted in ((103, 3), (104, 4)):
            os.dup2(high, wanted)

    process = subprocess.Popen(
        [PROGRAM, *FLAGS, f"--user-data-dir={profile}"],
        preexec_fn=place,
        close_fds=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_read)
    os.close(theirs_write)
    try:
        yield Browser(ours_read, ours_write)
    finally:
        os.close(ours_write)
        os.close(ours_read)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()
