# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""What runs inside the container around each command: the start mark and a clean environment of our own."""

from __future__ import annotations

import shlex

#: All that a command finds in its environment, apart from HOME.
ENVIRONMENT = {
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/sh",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}

# 1: the command; 2: how it is written (plain, or octal for %b).
# ~root asks the container's own user database (as getent would), in the shell, at no cost.
# The start mark carries the shell's pid, to end its processes, and the first process's stat line, to notice a restart.
# A mark that nobody reads ends the shell (SIGPIPE): a command that was given up in a frozen container never runs later.
_PRELUDE = """\
umask 022
h=~root
case $h in /*) ;; *) h=/root ;; esac
cd "$h" 2>/dev/null || cd /
c=$1
if [ "$2" = octal ]; then c=$(printf '%b.' "$1"); c=${c%.}; fi
read -r b </proc/1/stat
echo "@MARK@ $$ $b" >&2 || exit 1
exec env -i HOME="$h" @ENVIRONMENT@ /bin/sh -c "$c"
"""


def to_octal(data: bytes) -> bytes:
    """Write any bytes as ASCII for printf %b. pct turns what is not UTF-8 in its arguments into U+FFFD."""
    return b"".join(b"\\0%03o" % byte if byte > 126 or byte == 0x5C else b"%c" % byte for byte in data)


def container_argv(command: bytes, mark: str) -> tuple[bytes, ...]:
    """Return the argument vector to run inside the container for a shell command line (any bytes but NUL)."""
    if b"\0" in command:
        raise ValueError("The command holds a NUL byte, which no command line can carry.")
    environment = " ".join(f"{name}={value}" for name, value in ENVIRONMENT.items())
    prelude = _PRELUDE.replace("@MARK@", mark).replace("@ENVIRONMENT@", environment).encode("ascii")
    if command.isascii():
        return (b"/bin/sh", b"-c", prelude, b"pct_exec", command, b"plain")
    return (b"/bin/sh", b"-c", prelude, b"pct_exec", to_octal(command), b"octal")


def script(text: str, *args: str | bytes) -> bytes:
    """Return a command line that runs a shell script with these positional parameters."""
    quoted = [
        shlex.quote(arg.decode("utf-8", "surrogateescape") if isinstance(arg, bytes) else arg).encode(
            "utf-8", "surrogateescape"
        )
        for arg in args
    ]
    return b" ".join([b"set --", *quoted]) + b"\n" + text.encode("ascii")
