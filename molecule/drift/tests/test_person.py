# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from a drift: a person is told once, accepts what is wanted, or hands it to provision."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

LOCK = "/etc/proxmox_gpu/training.lock.json"
pytestmark = pytest.mark.timeout(300)


@contextmanager
def webhook(status: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(its address, what was posted to it); it answers with status."""
    posted: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", posted
    finally:
        server.shutdown()
        server.server_close()


def test_a_person_is_told_once_by_each_way(control: Any, tmp_path: Path) -> None:
    mail, command = tmp_path / "mail", tmp_path / "command"
    sendmail = tmp_path / "sendmail"
    sendmail.write_text(f"#!/bin/sh\ncat >> {mail}\n")
    sendmail.chmod(0o755)
    ways: dict[str, Any] = {
        "drift_check_notify_command": ["/bin/sh", "-c", f"cat >> {command}"],
        "drift_check_notify_mail": "admin@example.org",
        "drift_check_notify_sendmail": str(sendmail),
    }
    # One way failed the first time, so all are tried once more; after that nothing is new.
    for status, told, posts in ((500, 1, 1), (204, 2, 1), (204, 2, 0)):
        with webhook(status) as (address, posted):
            done = control.check(tmp_path / "state", "-l", "ct685", **ways, drift_check_notify_webhook=address)
        assert done.returncode == 2, done.stdout
        assert command.read_text().count("python3 is not installed") == told
        assert mail.read_text().count("Subject: Drift check: 1 host: 1 not provisioned (ct685).") == told
        assert [one["verdict"] for one in posted] == ["not_provisioned"] * posts
    assert "To: admin@example.org" in mail.read_text()


def test_what_is_wanted_is_locked_and_the_old_lock_kept(control: Any, tmp_path: Path) -> None:
    before = control.inside(687, f"cat {LOCK}")
    done = control.check(tmp_path, "-l", "ct687", "-e", "drift_accept=true")
    assert done.returncode == 0, done.stdout
    assert json.loads(control.inside(687, f"cat {LOCK}"))["distributions"]["transformers"] == "5.99.0"
    assert control.inside(687, "cat /var/backups/proxmox_gpu/training.lock.json.*") == before


def test_a_host_that_does_not_hold_keeps_its_lock(control: Any, tmp_path: Path) -> None:
    before = control.inside(688, f"cat {LOCK}")
    done = control.check(tmp_path, "-l", "ct688", "-e", "drift_accept=true")
    assert done.returncode == 2
    assert "ct688 keeps its lock, because its chain does not hold" in done.stdout
    assert control.inside(688, f"cat {LOCK}") == before


def test_nothing_is_accepted_for_hosts_that_are_not_named(control: Any, tmp_path: Path) -> None:
    done = control.check(tmp_path, "-e", "drift_accept=true")
    assert done.returncode == 2
    assert "name them with -l" in done.stdout


def test_repair_hands_what_drifted_to_provision(control: Any, tmp_path: Path) -> None:
    done = control.check(tmp_path, "-l", "ct680,ct689", "--tags", "repair")
    assert done.returncode == 0, done.stdout
    assert "cuda-nvcc-13-0" in control.inside(689, "apt-mark showhold")
    assert "ct680 : ok=4" in " ".join(done.stdout.split())
    assert control.night(tmp_path, "-l", "ct680,ct689").returncode == 0
