# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Run a program with a time limit, and stop its children with it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence


def run_limited(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    directory: str = "/",
    kept_open: Sequence[int] = (),
) -> tuple[int | None, str]:
    """(exit status, stdout and stderr together); the status is None if the time was over.

    ``kept_open``: file descriptors that the program inherits. OSError if it cannot be started.
    """
    # AnsibleModule.run_command knows no time limit.
    with subprocess.Popen(  # pylint: disable=ansible-bad-function
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd=directory,
        start_new_session=True,
        pass_fds=tuple(kept_open),
    ) as process:
        try:
            output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0].decode(errors="replace")
    return process.returncode, output.decode(errors="replace")
