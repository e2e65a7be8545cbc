# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command arrives in a container, and its status and output come back, with the resident runner and without it."""

from __future__ import annotations

import concurrent.futures
import hashlib
import signal
import time
from typing import Any

import pytest
from ansible.errors import AnsibleError

from tests.integration.connection.link import Link

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 126, 127, 128, 137, 254, 255])
def test_every_exit_code_is_the_commands_own(link: Link, code: int) -> None:
    assert link.sh(f"echo out; echo err >&2; exit {code}") == (code, b"out\n", b"err\n")


@pytest.mark.parametrize("name", ["KILL", "TERM", "ABRT", "SEGV"])
def test_a_command_that_dies_of_a_signal_ends_as_in_a_shell(link: Link, name: str) -> None:
    assert link.sh(f"kill -{name} $$")[0] == 128 + getattr(signal, f"SIG{name}")


def test_a_missing_command_is_the_shells_business(link: Link) -> None:
    rc, _out, err = link.sh("/nosuch")
    assert rc == 127
    assert b"not found" in err


def test_output_is_exact_even_where_it_is_not_text(link: Link) -> None:
    code = "import os; os.write(1, bytes(range(256))*3); os.write(2, bytes(range(255, -1, -1)))"
    assert link.sh(f"python3 -c '{code}'") == (0, bytes(range(256)) * 3, bytes(range(255, -1, -1)))


def test_stdin_is_exact(link: Link) -> None:
    data = bytes(range(256)) * 4096 * 5
    out = link.out("sha256sum", data)
    assert out.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_without_stdin_a_command_reads_its_end_at_once(link: Link) -> None:
    started = time.monotonic()
    assert link.out("cat; echo end") == b"end\n"
    assert time.monotonic() - started < 20


def test_megabytes_on_both_outputs_at_once(link: Link) -> None:
    size = 5 * 1024 * 1024
    rc, out, err = link.sh(f"head -c {size} /dev/zero >&2 & head -c {size} /dev/zero; wait")
    assert (rc, len(out), len(err)) == (0, size, size)


def test_a_child_that_holds_stdout_does_not_hold_the_task(link: Link) -> None:
    started = time.monotonic()
    rc, out, _err = link.sh("sleep 30 & echo done")
    assert (rc, out) == (0, b"done\n")
    assert time.monotonic() - started < 20


def test_what_looks_like_our_own_marks_is_only_output(link: Link) -> None:
    forged = "pct_exec-end-0123456789abcdef0123456789abcdef\nrc=30\nstarted=31\nend"
    assert link.sh(f"printf %s '{forged}' >&2; exit 4") == (4, b"", forged.encode())


def test_a_command_of_many_kilobytes(link: Link) -> None:
    text = "x" * 60_000
    assert link.out(f"printf %s {text} | wc -c").split() == [b"60000"]


@pytest.mark.parametrize("length", [100_000, 200_000])
def test_a_command_beyond_the_limit_is_a_clear_error(root_link: Link, length: int) -> None:
    """The runner takes more than the node's login shell does, and what it can't start goes the plain way."""
    if root_link.plugin.get_option("runner") and length < 1 << 17:
        assert root_link.sh("#" + "x" * length) == (0, b"", b"")
        return
    with pytest.raises(AnsibleError, match="too long for a command line"):
        root_link.sh("x" * length)


def test_a_command_that_says_nothing_for_90_seconds(root_link: Link) -> None:
    assert root_link.sh("sleep 90; echo done") == (0, b"done\n", b"")


def test_twenty_at_once(root_link: Link, connect: Any) -> None:
    runner = root_link.plugin.get_option("runner")
    some = [connect(root_link.vmid, pct_runner=runner) for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda pair: pair[1].sh(f"sleep 0.5; echo {pair[0]}"), enumerate(some)))
    assert results == [(0, f"{number}\n".encode(), b"") for number in range(20)]
