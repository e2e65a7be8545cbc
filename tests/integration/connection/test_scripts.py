# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules: scripts that arrive through Python's stdin do the same on every way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.box import Container
from tests.integration.connection.link import Link

pytestmark = pytest.mark.timeout(600)


PAYLOADS = {
    "output": "print('héllo', 1)",
    "exit code": "import sys; sys.exit(3)",
    "exit text": "import sys; sys.exit('because')",
    "no exit code": "import sys; sys.exit(None)",
    "big exit code": "import sys; sys.exit(300)",
    "traceback": "def f():\n    raise ValueError('no')\nf()",
    "syntax": "x = = 1",
    "names": "import sys; print(sys.argv, __name__, __file__, sorted(k for k in globals()), sys.path, sys.flags)",
    "main": "import __main__, sys; print(sys.modules['__main__'] is __main__, __main__.__dict__ is globals())",
    "stdin": "import sys; print(repr(sys.stdin.read()), sys.stdin.isatty())",
    "streams": "import sys; print([(s.encoding, s.errors, s.fileno()) for s in (sys.stdin, sys.stdout, sys.stderr)])",
    "surroundings": "import os; print(sorted(os.environ.items()), os.getcwd(), os.umask(0o22), os.getuid())",
    "signals": "import signal; print([(n, str(signal.getsignal(n))) for n in sorted(signal.valid_signals())])",
    "open files": "import os; print(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))",
    "limits": "import resource as r; print([r.getrlimit(n) for n in range(16)])",
    "groups": "import os; print(os.getgroups(), os.getresuid(), os.getresgid(), os.nice(0))",
    "atexit": "import atexit; atexit.register(print, 'bye'); print('hi', end='')",
    "thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
    "future": "def f(x: undefined): pass\n",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "aborted": "import os; os.abort()",
    "os._exit": "import os; os.write(1, b'x'); os._exit(7)",
    "interrupted": "raise KeyboardInterrupt",
    "broken text": "import os; os.write(1, b'\\xff\\xfe'); os.write(2, b'\\x80')",
    "fork": "import os\npid = os.fork()\nif not pid: os._exit(5)\nprint(os.waitpid(pid, 0)[1])",
    "subprocess": "import subprocess, sys; sys.exit(subprocess.call(['sh', '-c', 'cat; echo sub; exit 9']))",
    "closed stdout": "import os; os.close(1); os.close(2); import time; time.sleep(0.3)",
    "empty": "",
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_script_does_the_same_by_fork_as_in_a_fresh_python(guest: Container, connect: Any, name: str) -> None:
    plain, resident = connect(guest.vmid, pct_runner=False), connect(guest.vmid)
    assert resident.python("import os; print(os.getppid())")[1] != b"1\n"
    source = PAYLOADS[name] or "\n"
    assert resident.python(source) == plain.python(source)


def test_scripts_take_turns_without_traces_of_each_other(guest: Container, connect: Any) -> None:
    resident = connect(guest.vmid)
    resident.python("import sys, os; sys.path.append('/x'); os.environ['X'] = '1'; os.chdir('/tmp'); import this")
    out = resident.python(
        "import sys, os; print('/x' in sys.path, 'X' in os.environ, os.getcwd(), 'this' in sys.modules)"
    )
    assert out == (0, b"False False /root False\n", b"")


def test_a_modules_environment_reaches_it(root_link: Link) -> None:
    rc, out, _err = root_link.python(
        "import os; print(os.environ['A'], os.environ['http_proxy'])", "A='x y'\"'\" http_proxy=p"
    )
    assert (rc, out) == (0, b"x y' p\n")


def test_an_environment_that_python_reads_when_it_starts_takes_the_plain_way(root_link: Link) -> None:
    out = root_link.python("import sys, os; print('/extra' in sys.path, os.environ['PYTHONPATH'])", "PYTHONPATH=/extra")
    assert out == (0, b"True /extra\n", b"")


def test_a_new_python_package_is_seen_by_the_next_module(guest: Container, connect: Any) -> None:
    resident = connect(guest.vmid)
    assert resident.python("import fresh_package")[0] == 1
    guest.run("d=/usr/local/lib/python3.11/dist-packages; mkdir -p $d && echo x=41 > $d/fresh_package.py")
    assert resident.python("import fresh_package; print(fresh_package.x)") == (0, b"41\n", b"")
    guest.run("rm /usr/local/lib/python3.11/dist-packages/fresh_package.py")
    assert resident.python("import fresh_package")[0] == 1
