# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What arrives in a container and what comes back, with the resident runner and without it."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound

from testbed import state
from tests import prepared
from tests.integration.box import CHECKOUT, Box, Container
from tests.integration.connection_link import Link, links

VMID = 310
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def guest(box: Box) -> Iterator[Container]:
    container = box.container(VMID)
    yield container.fresh("--from", prepared.snapshot("python"))
    box.testbed("remove", str(VMID))


@pytest.fixture(scope="module")
def connect(box: Box) -> Iterator[Any]:
    with links(box) as link:
        yield link


WAYS: dict[str, dict[str, object]] = {
    "resident": {},
    "plain": {"pct_runner": False},
    "operator": {"ansible_user": "operator"},
    "operator, plain": {"ansible_user": "operator", "pct_runner": False},
    "pct": {"ansible_user": "ansible", "pct_method": "pct", "pct_runner": False},
}


@pytest.fixture(scope="module", params=WAYS)
def link(request: pytest.FixtureRequest, guest: Container, connect: Any) -> Link:
    """A connection to the guest; with the runner, one that is already running."""
    one: Link = connect(guest.vmid, **WAYS[request.param])
    if one.plugin.get_option("runner"):
        assert one.python("pass")[0] == 0
        assert one.resident
    return one


@pytest.fixture(scope="module", params=["resident", "plain"])
def root_link(request: pytest.FixtureRequest, guest: Container, connect: Any) -> Link:
    one: Link = connect(guest.vmid, **WAYS[request.param])
    one.python("pass")
    return one


# --- commands


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


# --- surroundings


def test_the_environment_is_ours_alone(link: Link) -> None:
    lines = set(link.out("env").decode().splitlines())
    assert lines == {
        "HOME=/root",
        "USER=root",
        "LOGNAME=root",
        "SHELL=/bin/sh",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG=C.UTF-8",
        "TERM=dumb",
        "PWD=/root",  # the shell's own
    }


def test_who_where_and_with_which_umask(link: Link) -> None:
    assert link.out("id -u; pwd; umask; echo ~").split() == [b"0", b"/root", b"0022", b"/root"]


def test_home_is_the_containers_and_not_the_logins(box: Box, connect: Any) -> None:
    container = box.container(VMID + 1).fresh()
    try:
        container.run("mkdir /srv/home && sed -i 's#^root:.*#root:x:0:0:root:/srv/home:/bin/sh#' /etc/passwd")
        assert connect(container.vmid, pct_runner=False).out("echo $HOME; pwd").split() == [b"/srv/home"] * 2
    finally:
        box.testbed("remove", container.vmid)


@pytest.mark.parametrize("vmid", [VMID, str(VMID)])
def test_the_id_may_be_a_number_or_a_string(guest: Container, connect: Any, vmid: int | str) -> None:
    assert connect(vmid).out("hostname").strip().decode() == guest.run("hostname").strip()


def test_the_inventorys_other_variable_is_understood(guest: Container, connect: Any) -> None:
    one = connect(guest.vmid)
    one.plugin.set_options(var_options={"proxmox_vmid": VMID})
    assert one.plugin.vmid == VMID


@pytest.mark.parametrize("bad", ["220; touch /tmp/pct_exec_injected", "$(id)", "abc", "99", 0, True, "2 20", "１２３"])
def test_an_id_with_anything_but_digits_is_refused_by_name(guest: Container, connect: Any, bad: object) -> None:
    with pytest.raises(AnsibleError, match=r"from .*pct_vmid.*is not a container id"):
        connect(bad).sh("true")


def test_no_id_is_a_clear_error(guest: Container, connect: Any) -> None:
    with pytest.raises(AnsibleError, match="No container id"):
        connect("").sh("true")


# --- Python payloads: the same on every way


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


def test_the_runner_is_for_root_alone(guest: Container, connect: Any) -> None:
    resident = connect(guest.vmid)
    resident.python("pass")
    folders = guest.run("ls -d /run/pct_exec-*").split()
    assert folders
    for folder in folders:
        assert guest.run(f"stat -c '%U %a' {folder}") == "root 700\n"
    attempt = "import socket, glob; s = socket.socket(socket.AF_UNIX); s.connect(FOLDER + '/s')"
    command = f'python3 -c "{attempt.replace("FOLDER", repr(folders[0]))}"'
    refused = guest.attach(f"su -s /bin/sh nobody -c {shlex.quote(command)}")
    assert "PermissionError" in refused.stderr


@pytest.fixture
def alone(box: Box) -> Iterator[Link]:
    """A connection with the runner, to a container that no other test uses."""
    container = box.container(VMID + 1).fresh("--from", prepared.snapshot("python"))
    with links(box) as link:
        yield link(container.vmid, pct_runner_idle=2)
    box.testbed("remove", container.vmid)


def runner_goes(box: Box, vmid: str) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if box.attach(vmid, "ls -d /run/pct_exec-* || grep -l ^/usr/bin/python3 /proc/[0-9]*/cmdline").returncode:
            return True
        time.sleep(0.3)
    return False


def test_reset_makes_the_runner_go(box: Box, alone: Link) -> None:
    alone.plugin.set_option("runner_idle", 300)
    alone.python("pass")
    before = alone.resident
    alone.plugin.reset()
    assert (before, alone.resident) == (True, False)
    assert runner_goes(box, alone.vmid)
    assert alone.python("print(1)") == (0, b"1\n", b"")


def test_the_runner_goes_when_nothing_is_asked(box: Box, alone: Link) -> None:
    alone.python("pass")
    assert runner_goes(box, alone.vmid)
    assert alone.python("print(2)") == (0, b"2\n", b"")


def test_an_upgraded_python_is_never_run_by_the_old_one(box: Box, alone: Link) -> None:
    first = alone.python("import os; print(os.getppid())")
    box.attach(alone.vmid, "cp -p /usr/bin/python3.11 /usr/bin/p && mv /usr/bin/p /usr/bin/python3.11")
    second = alone.python("import os; print(os.getppid())")
    assert (first[0], second[0]) == (0, 0)
    assert runner_goes(box, alone.vmid)


def test_a_runner_that_was_killed_is_replaced(box: Box, alone: Link) -> None:
    alone.python("pass")
    box.attach(alone.vmid, "kill -9 $(grep -l '^python3\\|/usr/bin/python3' /proc/[0-9]*/cmdline | cut -d/ -f3)")
    assert alone.python("print(3)") == (0, b"3\n", b"")
    assert alone.out("echo 4") == b"4\n"


def test_a_runner_that_answers_no_more_is_passed_by(box: Box, alone: Link) -> None:
    alone.python("pass")
    box.attach(alone.vmid, "kill -STOP $(grep -l '^/usr/bin/python3' /proc/[0-9]*/cmdline | cut -d/ -f3)")
    started = time.monotonic()
    assert alone.python("print(5)") == (0, b"5\n", b"")
    assert alone.out("echo 6") == b"6\n"
    assert time.monotonic() - started < 40


def test_another_python_takes_the_plain_way(box: Box, alone: Link) -> None:
    alone.python("pass")
    box.attach(alone.vmid, "cp /usr/bin/python3.11 /usr/local/bin/mypython")
    command = "/bin/sh -c /usr/local/bin/mypython"
    assert alone.plugin.exec_command(command, b"import sys; print(sys.executable)")[1] == b"/usr/local/bin/mypython\n"


def test_a_container_without_python_is_reached_all_the_same(box: Box) -> None:
    container = box.container(VMID + 1).fresh()
    try:
        with links(box) as link:
            one = link(container.vmid)
            assert one.python("print(1)")[0] == 127
            assert one.out("echo raw") == b"raw\n"
    finally:
        box.testbed("remove", container.vmid)


def test_a_folder_for_the_socket_that_cannot_be_written_takes_the_plain_way(box: Box, alone: Link) -> None:
    box.attach(alone.vmid, "mount -t tmpfs -o ro none /run; mount -t tmpfs -o ro none /tmp")
    assert alone.python("print(7)") == (0, b"7\n", b"")


# --- files


@pytest.mark.parametrize("size", [0, 1, 65, 4096, 1_000_003, 7 * 1024 * 1024])
def test_a_file_goes_in_and_comes_out(link: Link, guest: Container, tmp_path: Path, size: int) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(size))
    name = f'/root/it\'s a "file" $HOME ünï *{size}'
    link.put(source, name)
    link.fetch(name, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert guest.attach("ls -A /root | grep pct_exec").stdout == ""


def test_a_new_file_has_the_sources_mode_within_the_umask(root_link: Link, guest: Container, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    for mode, expected in ((0o600, "600"), (0o777, "755"), (0o644, "644"), (0o4755, "755")):
        source.chmod(mode)
        guest.run("rm -f /tmp/mode")
        root_link.put(source, "/tmp/mode")
        assert guest.run("stat -c %a /tmp/mode").strip() == expected


def test_an_old_file_keeps_its_owner_and_mode(root_link: Link, guest: Container, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    guest.run("rm -f /tmp/old; echo old > /tmp/old; chown 33:8 /tmp/old; chmod 640 /tmp/old")
    root_link.put(tmp_path / "source", "/tmp/old")
    assert guest.run("cat /tmp/old; stat -c '%u:%g %a' /tmp/old") == "new33:8 640\n"


def test_a_symbolic_link_is_followed(root_link: Link, guest: Container, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    guest.run("rm -rf /tmp/l /tmp/t; mkdir /tmp/t; echo old > /tmp/t/real; ln -s t/real /tmp/l")
    root_link.put(tmp_path / "source", "/tmp/l")
    assert guest.run("cat /tmp/t/real; readlink /tmp/l") == "newt/real\n"


def test_a_device_is_written_and_not_replaced(root_link: Link, guest: Container, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    root_link.put(tmp_path / "source", "/dev/null")
    assert guest.run("stat -c %F /dev/null").strip() == "character special file"


@pytest.mark.parametrize(
    ("destination", "reason"),
    [("/etc", "it is a directory"), ("/nosuch/x", "its folder does not exist"), ("/proc/sys/x", "writing failed")],
)
def test_a_copy_that_cannot_be_is_one_sentence(root_link: Link, tmp_path: Path, destination: str, reason: str) -> None:
    (tmp_path / "source").write_bytes(b"new")
    with pytest.raises(AnsibleError, match=f"Could not copy .* to {destination} in container {VMID}: {reason}"):
        root_link.put(tmp_path / "source", destination)


def test_what_is_missing_here_or_there(root_link: Link, tmp_path: Path) -> None:
    with pytest.raises(AnsibleFileNotFound):
        root_link.put(tmp_path / "nosuch", "/tmp/x")
    with pytest.raises(AnsibleFileNotFound):
        root_link.fetch("/nosuch", tmp_path / "x")
    with pytest.raises(AnsibleError, match="it is a directory"):
        root_link.fetch("/etc", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["~/x", "relative", "", "~root/.ansible/x"])
def test_a_path_that_is_not_absolute_is_refused(root_link: Link, tmp_path: Path, path: str) -> None:
    (tmp_path / "source").write_bytes(b"x")
    with pytest.raises(AnsibleError, match="not an absolute path"):
        root_link.put(tmp_path / "source", path)
    with pytest.raises(AnsibleError, match="not an absolute path"):
        root_link.fetch(path, tmp_path / "x")


def test_a_file_without_a_size_is_read_to_its_end(root_link: Link, guest: Container, tmp_path: Path) -> None:
    root_link.fetch("/proc/version", tmp_path / "version")
    assert (tmp_path / "version").read_text() == guest.run("cat /proc/version")


def test_a_file_that_grows_is_fetched_as_it_was_at_the_start(root_link: Link, guest: Container, tmp_path: Path) -> None:
    guest.run("rm -f /tmp/log; for i in $(seq 2000); do echo line $i; done > /tmp/log")
    guest.run("(for i in $(seq 50); do echo more; sleep 0.02; done) >> /tmp/log 2>&1 </dev/null &")
    root_link.fetch("/tmp/log", tmp_path / "log")
    assert (tmp_path / "log").read_text().startswith("line 1\n")


# --- logins


def test_a_login_without_lxc_attach_falls_back_to_pct_once_and_says_so(
    box: Box, guest: Container, connect: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    with links(box) as link:
        one = link(guest.vmid, ansible_user="ansible", pct_runner=False)
        capfd.readouterr()
        assert one.out("id -u") == b"0\n"
        assert "pct exec is used" in " ".join(capfd.readouterr().err.split())
        assert one.out("id -u") == b"0\n"
        assert "pct exec" not in capfd.readouterr().err


@pytest.fixture
def no_sudo(box: Box) -> Iterator[None]:
    """The login named operator, without any sudo rule."""
    box.node("sh", "-c", "cp -p /etc/sudoers /etc/sudoers.kept; sed -i '/^operator /d' /etc/sudoers")
    yield
    box.node("sh", "-c", "mv /etc/sudoers.kept /etc/sudoers")


def test_a_login_without_sudo_is_told_what_to_add(guest: Container, connect: Any, no_sudo: None) -> None:
    with pytest.raises(AnsibleConnectionFailure, match="may not run pct through sudo .* add the sudoers line"):
        connect(guest.vmid, ansible_user="operator", pct_runner=False).sh("true")


def test_through_a_jump_host(box: Box, guest: Container, connect: Any, tmp_path: Path) -> None:
    config = tmp_path / "config"
    folder = box.layout.client
    config.write_text(
        f"IdentityFile {folder}/id_ed25519\nIdentitiesOnly yes\nBatchMode yes\nStrictHostKeyChecking yes\n"
        f"UserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile /dev/null\n"
    )
    port = state.load_ports(box.layout)[box.layout.node("pve2").sshd_port_key]
    link = connect(guest.vmid, ansible_ssh_common_args=f"-F {config} -J root@127.0.0.1:{port}")
    assert link.python("print(1)") == (0, b"1\n", b"")
    assert link.resident
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"-F {config} -J root@127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(AnsibleConnectionFailure, match="via ssh"):
            connect(guest.vmid, ansible_ssh_common_args=nowhere).sh("true")


LOCAL = """\
import sys
from ansible.plugins.loader import connection_loader, init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible.playbook.play_context import PlayContext
for runner in (True, False):
    link = connection_loader.get("proxmox_gpu.training.pct_exec", PlayContext())
    link.set_options(var_options={"pct_vmid": sys.argv[2], "pct_transport": "local", "pct_runner": runner,
        "ansible_ssh_executable": "/nosuch/ssh", "ansible_control_path_dir": "/tmp/pct-local", "ansible_port": 1})
    print(link.exec_command("/bin/sh -c 'hostname; id -u; exit 255'"))
    print(link.exec_command("/bin/sh -c /usr/bin/python3", b"print(6 * 7)"))
    link.put_file("/etc/hostname", "/tmp/local")
    link.fetch_file("/tmp/local", "/tmp/pct-local/back")
    print(open("/tmp/pct-local/back").read() == open("/etc/hostname").read())
    link.reset()
"""


@pytest.fixture
def controller(box: Box) -> Iterator[tuple[str, str]]:
    """ansible-core and the collection in the home of the node's root: a Python that runs them, and their folder."""
    packages = next((CHECKOUT / ".venv-core219" / "lib").glob("python3.*")) / "site-packages"
    python = "/usr/bin/" + packages.parent.name
    if box.node(python, "--version").returncode:
        pytest.skip(f"the node has no {python}, which could use the ansible-core at hand")
    folder = box.layout.nodes[0].folder / "root" / "controller"
    ignored = shutil.ignore_patterns("__pycache__", "ansible_test", "pip", "tests")
    shutil.copytree(packages, folder, ignore=ignored)
    collection = folder / "ansible_collections" / "proxmox_gpu" / "training"
    shutil.copytree(CHECKOUT / "plugins", collection / "plugins", ignore=ignored)
    yield python, "/root/controller"
    shutil.rmtree(folder)


def test_on_the_node_itself_no_ssh_is_needed(box: Box, guest: Container, controller: tuple[str, str]) -> None:
    python, folder = controller
    result = box.node(python, "-c", LOCAL, folder, guest.vmid, environment={"PYTHONPATH": folder})
    name = guest.run("hostname").strip()
    expected = f"(255, b'{name}\\n0\\n', b'')\n(0, b'42\\n', b'')\nTrue\n"
    assert result.stdout == expected * 2, result.stderr
