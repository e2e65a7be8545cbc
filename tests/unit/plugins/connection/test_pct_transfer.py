# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container's half of a transfer, run by the shells at hand."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _pct_stream, _pct_transfer

SHELLS = [[name] for name in ("dash", "bash") if shutil.which(name)]
SHELLS += [["busybox", "sh"]] if shutil.which("busybox") else []
shells = pytest.mark.parametrize("shell", SHELLS, ids="-".join)


def put(shell: list[str], path: Path, data: bytes, sent: bytes | None = None, mode: int = 0o644) -> tuple[int, str]:
    script = _pct_transfer.put_script(str(path), len(data), mode, "word")
    result = subprocess.run(
        [*shell, "-c", script], input=data if sent is None else sent, capture_output=True, check=False
    )
    return result.returncode, result.stderr.decode()


@shells
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    name=st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40),
    data=st.binary(max_size=3000),
)
def test_any_name_and_content(shell: list[str], tmp_path: Path, name: str, data: bytes) -> None:
    if name in (".", ".."):
        return
    path = tmp_path / name
    assert put(shell, path, data) == (0, "")
    assert path.read_bytes() == data
    fetched = subprocess.run([*shell, "-c", _pct_transfer.fetch_script(str(path))], capture_output=True, check=True)
    assert fetched.stdout == f"{len(data)}\n".encode() + data
    assert fetched.stderr == b""
    path.unlink()
    assert list(tmp_path.iterdir()) == []


@shells
@pytest.mark.parametrize("sent", [b"hell", b"", b"hello more"])
def test_what_arrives_cut_off_never_gets_the_name(shell: list[str], tmp_path: Path, sent: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    assert put(shell, path, b"hello", sent)[0] == 45
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@shells
def test_a_full_disk_leaves_the_old_file(shell: list[str], tmp_path: Path) -> None:
    script = _pct_transfer.put_script(str(tmp_path / "file"), 100_000, 0o644, "word")
    (tmp_path / "file").write_bytes(b"old")
    limited = b"ulimit -f 8; trap '' XFSZ; " + script
    result = subprocess.run([*shell, "-c", limited], input=b"x" * 100_000, capture_output=True, check=False)
    assert result.returncode == 44
    assert "writing failed" in _pct_transfer.explain(44, result.stderr.decode())
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [b"old"]


@shells
def test_an_interrupted_transfer_leaves_nothing(shell: list[str], tmp_path: Path) -> None:
    script = _pct_transfer.put_script(str(tmp_path / "file"), 100, 0o644, "word")
    process = subprocess.Popen([*shell, "-c", script], stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin
    process.stdin.write(b"x")
    process.stdin.flush()
    while not any(entry.stat().st_size for entry in tmp_path.iterdir()):
        time.sleep(0.01)
    os.killpg(process.pid, 15)
    assert process.wait(10) != 0
    process.stdin.close()
    assert list(tmp_path.iterdir()) == []


def test_reasons_are_sentences_parts() -> None:
    assert _pct_transfer.explain(41, "") == "it is a directory"
    assert _pct_transfer.explain(44, "cat: No space left on device\n").endswith("(cat: No space left on device)")
    assert "status 99" in _pct_transfer.explain(99, "")


def reading(data: bytes) -> _pct_stream.Stream:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return _pct_stream.Stream(subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE), 10)


@given(st.binary(max_size=200), st.integers(-20, 20))
@settings(max_examples=20)
def test_receiving_tells_whole_from_cut_off(data: bytes, difference: int) -> None:
    target = io.BytesIO()
    announced = max(0, len(data) + difference)
    complete = _pct_stream.receive(reading(f"{announced}\n".encode() + data), target)
    assert complete == (announced <= len(data))
    if complete:
        assert target.getvalue() == data[:announced]


def test_nothing_received_is_not_complete() -> None:
    assert _pct_stream.receive(reading(b""), io.BytesIO()) is False


def test_a_reader_that_stops_is_noticed(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stream = _pct_stream.Stream(process, 0.3)
    try:
        (tmp_path / "file").write_bytes(bytes(5 << 20))
        with pytest.raises(_pct_stream.Stalled), open(tmp_path / "file", "rb") as source:
            _pct_stream.send(stream, source, 5 << 20)
        with pytest.raises(_pct_stream.Stalled):
            stream.read()
    finally:
        process.kill()
        process.communicate()
