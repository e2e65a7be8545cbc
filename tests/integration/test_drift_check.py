# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook drift_check over hosts that nobody can reach: they are one line each, and a person is told once of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
# Nothing listens at port 1, so ssh says so at once.
INVENTORY = "[all:vars]\nansible_host=127.0.0.1\nansible_port=1\n[all]\nct1\nct2\n"
pytestmark = pytest.mark.timeout(300)


def check(folder: Path, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    inventory = folder / "hosts.ini"
    inventory.write_text(INVENTORY)
    values = json.dumps({"drift_check_path": str(folder / "state"), **variables})
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), "-e", values, *arguments]
    return subprocess.run(
        [*command, "proxmox_gpu.training.drift_check"],
        cwd=CHECKOUT,
        env={**os.environ, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


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


def test_a_person_is_told_once_by_each_way(tmp_path: Path) -> None:
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
            done = check(tmp_path, "-l", "ct1", **ways, drift_check_notify_webhook=address)
        assert done.returncode == 2, done.stdout
        assert command.read_text().count("Connection refused") == told
        assert mail.read_text().count("Subject: Drift check: 1 host: 1 unknown (ct1).") == told
        assert [one["verdict"] for one in posted] == ["unknown"] * posts
    assert "To: admin@example.org" in mail.read_text()


def test_unreachable_hosts_are_one_line_each_and_stop_nobody(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.returncode == 2
    assert "2 hosts: 2 unknown (ct1, ct2)." in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if "Connection refused" in line] == ["ct1", "ct2"]
    assert "ignored=0" in done.stdout
    report = json.loads((tmp_path / "state" / "report.json").read_text())
    assert [len(host["lines"]) for host in report["hosts"]] == [1, 1]


def test_a_variable_that_cannot_be_rendered_makes_a_host_unknown(tmp_path: Path) -> None:
    done = check(tmp_path, "-l", "ct1", torch_environment_path="{{ no_such_variable }}")
    assert "1 host: 1 unknown (ct1)." in done.stdout
    assert "no_such_variable" in done.stdout


def test_check_mode_keeps_nothing(tmp_path: Path) -> None:
    done = check(tmp_path, "-l", "ct1", "--check")
    assert "1 unknown (ct1)" in done.stdout
    assert not (tmp_path / "state").exists()


def test_nothing_is_accepted_for_hosts_that_are_not_named(tmp_path: Path) -> None:
    done = check(tmp_path, drift_accept=True)
    assert done.returncode == 2
    assert "name them with -l" in done.stdout
