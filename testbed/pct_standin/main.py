# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry of the pct stand-in: its start-up cost, its arguments, then one command.

Modelled on pve-container 6.1.10. The real one takes 0.7 to 0.9 s of Perl start-up for each call, so this sleeps.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from testbed.pct_standin import change, lifecycle, run_command, show, transfer
from testbed.pct_standin.arguments import BadParameters, Command, decode, original_environment, parse, usage
from testbed.pct_standin.node import Died, Node

COMMANDS = [
    Command("config", ("vmid",), {"current": "boolean", "snapshot": "string"}, show.config),
    Command("exec", ("vmid", "extra-args"), {"keep-env": "boolean"}, run_command.run),
    Command("list", (), {}, show.listing),
    Command("pull", ("vmid", "path", "destination"), transfer.OPTIONS, transfer.pull),
    Command("push", ("vmid", "file", "destination"), transfer.OPTIONS, transfer.push),
    Command("set", ("vmid",), change.OPTIONS, change.set_options),
    Command("shutdown", ("vmid",), {"timeout": "integer", "forceStop": "boolean"}, lifecycle.stop),
    Command("start", ("vmid",), {"skiplock": "boolean", "debug": "boolean"}, lifecycle.start),
    Command("status", ("vmid",), {"verbose": "boolean"}, show.status),
    Command("stop", ("vmid",), {"skiplock": "boolean"}, lifecycle.stop),
    Command("unlock", ("vmid",), {}, change.unlock),
]


def main(arguments: list[str], state: str) -> int:
    """Run one pct command line; returns the exit code (``exec`` replaces the process). ``state``: the box's folder."""
    environment = original_environment()
    node = Node(Path(state), os.uname().nodename)
    time.sleep(node.startup)
    if os.geteuid() != 0:
        return fail("please run as root", 255)
    words = [decode(os.fsencode(word), environment) for word in arguments]
    if not words:
        return fail("ERROR: no command specified\n" + usage(COMMANDS), 255)
    command = next((one for one in COMMANDS if one.name == words[0]), None)
    if command is None:
        return fail(f"ERROR: unknown command 'pct {words[0]}'\n" + usage(COMMANDS), 255)
    if command.name == "exec" and node.version < (5, 0, 9):
        command = Command("exec", command.positional, {}, command.run)  # older than --keep-env
    try:
        return command.run(node, parse(command, words[1:]), environment)
    except BadParameters as problem:
        return fail(f"{problem}\npct {command.name} {command.synopsis}", 2)
    except Died as problem:
        return fail(str(problem), problem.code)


def fail(sentence: str, code: int) -> int:
    sys.stdout.flush()
    print(sentence, file=sys.stderr)
    return code
