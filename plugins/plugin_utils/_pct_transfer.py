# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""Files through the command channel: the container's half as shell scripts, and what their exit status means.

A file going in grows under a temporary name in the destination's folder and gets its name by one rename, after its size
was found right. A file coming out is its size and a newline, then its bytes.

There is no checksum here: ssh checks each byte on its way, so what can happen is that some are missing, and the size
tells. Ansible's own copy, template and fetch compare checksums of both ends besides. A SHA-256 of ours on each end
halved the throughput.
"""

from __future__ import annotations

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _pct_command

# 1: destination, 2: size, 3: octal mode of a new file, 4: a word for the temporary name
_PUT = """\
d=$1
if [ -L "$d" ]; then d=$(readlink -fn -- "$d" && echo .) || exit 48; d=${d%.}; fi
[ ! -d "$d" ] || exit 41
p=${d%/*}
[ -d "${p:-/}" ] || exit 42
t=$p/.$4
trap 'rm -f -- "$t"' EXIT
trap 'exit 43' HUP INT TERM PIPE
umask 077
set -C
cat >"$t" || exit 44
[ "$(wc -c <"$t")" -eq "$2" ] || exit 45
if [ -e "$d" ] && [ ! -f "$d" ]; then set +C; cat -- "$t" >"$d" || exit 47; exit 0; fi
if [ -e "$d" ]; then chown -- "$(stat -c %u:%g -- "$d")" "$t" && chmod -- "$(stat -c %a -- "$d")" "$t" || exit 47
else chmod -- "$3" "$t" || exit 47; fi
mv -f -- "$t" "$d" || exit 47
"""

# 1: source. What has no size (a file of /proc) is read once into a copy, whose size is known.
_FETCH = """\
f=$1
[ -e "$f" ] || exit 51
[ ! -d "$f" ] || exit 52
if [ ! -s "$f" ]; then
umask 077
t=$(mktemp) || exit 54
trap 'rm -f -- "$t"' EXIT
cat -- "$f" >"$t" || exit 53
f=$t
fi
n=$(wc -c <"$f") || exit 53
n=$((n))
echo $n
[ $n -eq 0 ] || head -c $n -- "$f" || exit 53
"""

_MEANING = {
    41: "it is a directory",
    42: "its folder does not exist",
    43: "the transfer was interrupted",
    44: "writing failed",
    45: "the bytes that arrived are not as many as were sent",
    47: "it could not be put in place",
    48: "it is a symbolic link that leads nowhere",
    51: "it does not exist",
    52: "it is a directory",
    53: "reading failed",
    54: "no temporary file could be made in the container",
}
FETCH_MISSING = 51


def put_script(destination: str, size: int, mode: int, word: str) -> bytes:
    """Return the command line that receives a file. word must be unguessable and fit a file name."""
    return _pct_command.script(_PUT, destination, str(size), f"{mode:04o}", word)


def fetch_script(source: str) -> bytes:
    """Return the command line that sends a file."""
    return _pct_command.script(_FETCH, source)


def explain(rc: int, stderr: str) -> str:
    """Return why a transfer script ended with rc, with the tool's own last words where it had some."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    reason = _MEANING.get(rc, f"the container's shell ended with status {rc}")
    return f"{reason} ({lines[-1]})" if lines else reason
