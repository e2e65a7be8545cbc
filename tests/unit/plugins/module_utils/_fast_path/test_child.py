# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The child: launch conditions, what it prints, time limits, and every way not to answer."""

from __future__ import annotations

import json
import os
import pwd
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import child

SYSTEM = "/usr/bin/python3"
CENSUS = {"action": "census", "family": "mamba2"}
# A stand-in for the training interpreter: it gets the arguments that a real one would get.
STAND_IN = """#!{python}
import json, os, signal, subprocess, sys, time
answer = os.fdopen(int(sys.argv[sys.argv.index("--answer-fd") + 1]), "w")
request = json.load(sys.stdin)
{body}
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Any:
    def make(body: str) -> str:
        path = tmp_path / "python"
        path.write_text(STAND_IN.format(python=sys.executable, body=body))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def test_a_real_interpreter_answers_through_the_archive() -> None:
    found = child.run(sys.executable, CENSUS, 50)
    assert (found["state"], found["family"], found["total"]) == ("ok", "mamba2", 8)


def test_what_libraries_print_does_not_spoil_the_answer(stand_in: Any) -> None:
    python = stand_in(
        "print('{\"state\": \"ok\"}' * 100); sys.stderr.write('noise'); json.dump({'state': 'absent'}, answer)"
    )
    assert child.run(python, CENSUS, 30) == {"state": "absent"}


def test_more_output_than_a_pipe_holds_does_not_hang(stand_in: Any) -> None:
    python = stand_in("sys.stdout.write('x' * 3_000_000); sys.stdout.flush(); json.dump({'n': 1}, answer)")
    assert child.run(python, CENSUS, 30) == {"n": 1}


def test_a_large_answer_arrives_whole(stand_in: Any) -> None:
    python = stand_in("json.dump({'text': 'y' * 2_000_000}, answer)")
    assert len(child.run(python, CENSUS, 30)["text"]) == 2_000_000


def test_a_grandchild_that_keeps_stdout_open_does_not_hold_us(stand_in: Any) -> None:
    python = stand_in("subprocess.Popen(['sleep', '30']); json.dump({'n': 1}, answer)")
    started = time.monotonic()
    assert child.run(python, CENSUS, 25) == {"n": 1}
    assert time.monotonic() - started < 15


def test_a_hang_ends_at_the_limit_with_its_children(stand_in: Any, tmp_path: Path) -> None:
    python = stand_in(
        f"p = subprocess.Popen(['sleep', '60']); open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid)); "
        "print('importing torch', flush=True); time.sleep(60)"
    )
    started = time.monotonic()
    found = child.run(python, CENSUS, 1.5)
    assert time.monotonic() - started < 15
    assert found["error"] == f"The check in {python} did not end within 1.5 seconds and was stopped."
    assert "importing torch" in found["output"]
    pid = int((tmp_path / "pid").read_text())
    for _attempt in range(50):
        if not Path(f"/proc/{pid}/stat").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the child's own child still runs")


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended with signal 11 and no answer: it printed nothing"),
        (
            "print('Killed by a test', flush=True); os._exit(7)",
            "ended with exit status 7 and no answer: Killed by a test",
        ),
        ("raise SystemExit('cannot open shared object file')", "no answer: cannot open shared object file"),
        ("answer.write('{\"state\":'); answer.close()", "ended with exit status 0 and no answer"),
    ],
)
def test_no_answer_is_one_sentence(stand_in: Any, body: str, how: str) -> None:
    assert how in child.run(stand_in(body), CENSUS, 30)["error"]


def test_no_interpreter(tmp_path: Path) -> None:
    missing = str(tmp_path / "bin" / "python")
    assert (
        child.run(missing, CENSUS, 5)["error"] == f"The training interpreter {missing} is not there or cannot be run."
    )


def test_not_a_program(tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    assert f"{path} cannot be started as this user" in child.run(str(path), CENSUS, 5)["error"]


def test_a_user_that_does_not_exist() -> None:
    found = child.run(sys.executable, CENSUS, 5, user="no_such_trainer")
    assert found["error"] == "The training user 'no_such_trainer' does not exist on this machine."


ENVIRONMENT = "json.dump(dict(os.environ), answer)"


def test_the_environment_is_the_jobs_and_not_ours(
    stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD_OF_OURS", "yes")
    one, two = tmp_path / "one.env", tmp_path / "two.env"
    one.write_text("A=1\nB=one\nHF_HUB_OFFLINE=0\n")
    two.write_text('# comment\nexport B="two words"\n')
    found = child.run(stand_in(ENVIRONMENT), CENSUS, 30, None, {"C": 3, "A": "mine"}, [str(one), str(two)])
    assert (found["A"], found["B"], found["C"]) == ("mine", "two words", "3")
    assert "LD_PRELOAD_OF_OURS" not in found
    assert found["HOME"] == pwd.getpwuid(os.geteuid()).pw_dir
    assert found["PATH"].startswith(f"{tmp_path}:")
    assert found["HF_HUB_OFFLINE"] == found["TRANSFORMERS_OFFLINE"] == "1"


def test_an_environment_file_that_is_missing_is_a_sentence(tmp_path: Path) -> None:
    path = str(tmp_path / "gone.env")
    found = child.run(sys.executable, CENSUS, 5, environment_files=[path])
    assert found["error"] == f"The environment file {path} cannot be read: No such file or directory."


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(not os.access(SYSTEM, os.X_OK), reason="needs an interpreter that everybody may run")
def test_as_another_user(stand_in: Any, tmp_path: Path) -> None:
    """Also from a place that only root can read: the archive travels in memory, so that no file must be readable."""
    body = "json.dump({'uid': os.getuid(), 'groups': os.getgroups(), 'home': os.environ['HOME']}, answer)"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        python = Path(folder, "python")
        python.write_text(STAND_IN.format(python=SYSTEM, body=body))
        python.chmod(0o755)
        found = child.run(str(python), CENSUS, 30, user="nobody")
    nobody = pwd.getpwnam("nobody")
    assert (found["uid"], found["home"]) == (nobody.pw_uid, nobody.pw_dir)
    assert 0 not in found["groups"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(not os.access(SYSTEM, os.X_OK), reason="needs an interpreter that everybody may run")
def test_another_user_reads_the_archive() -> None:
    assert child.run(SYSTEM, CENSUS, 50, user="nobody")["family"] == "mamba2"


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)
VALUES = st.text(
    st.characters(codec="ascii", exclude_characters="\n\r\"'\x0b\x0c\x1c\x1d\x1e\x85", exclude_categories=["Cc"])
)


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from(["{}={}", "export {}={}", '{}="{}"', "  {} = '{}'"]))
def test_environment_files_are_read_back(values: dict[str, str], form: str) -> None:
    text = "\n".join(form.format(k, v) for k, v in values.items())
    wanted = values if '"' in form or "'" in form else {k: v.strip() for k, v in values.items()}
    assert child.read_environment_file(f"# c\n; c\n\nnot an assignment\n{text}\n") == wanted


def test_the_answer_is_json_as_python_writes_it(stand_in: Any) -> None:
    assert child.run(stand_in("answer.write(json.dumps({'x': None}))"), CENSUS, 30) == json.loads('{"x": null}')
