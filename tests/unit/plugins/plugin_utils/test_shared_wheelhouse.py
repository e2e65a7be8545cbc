# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wheelhouse in a folder, and the same folder behind a plain web server."""

from __future__ import annotations

import contextlib
import functools
import http.server
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import WheelError, sha256, stamp
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import WheelKey, make_key
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _shared_wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._shared_wheelhouse import Folder, Served, shared


def key(torch: str = "2.14.1+cu130") -> WheelKey:
    return make_key("tiny", "1.0", "ab" * 32, torch, "13.0", "cp311", True, "x86_64", "glibc-2.36", ["9.0"])


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    path = tmp_path / "tiny-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("tiny/__init__.py", "x = 1\n")
        packed.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n")
        packed.writestr("tiny-1.0.dist-info/RECORD", "")
    (tmp_path / "stamped").mkdir()
    return stamp(str(path), key(), {"seconds": 360}, str(tmp_path / "stamped"))


@pytest.fixture
def folder(tmp_path: Path, wheel: str) -> Folder:
    house = shared(str(tmp_path / "house"))
    assert isinstance(house, Folder)
    house.put(key(), wheel)
    return house


@pytest.fixture
def served(folder: Folder, tmp_path: Path) -> Iterator[Served]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder.path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        house = shared(f"http://127.0.0.1:{server.server_port}/", str(tmp_path / "own"))
        assert isinstance(house, Served)
        yield house
        server.shutdown()


def test_a_folder_gives_what_was_put_there(folder: Folder, tmp_path: Path) -> None:
    assert folder.get(key(), str(tmp_path))
    assert folder.get(key("2.13.0"), str(tmp_path)) is None
    assert folder.source_sha256("tiny", "1.0") == "ab" * 32
    assert folder.earlier_seconds(key()) == 360


def test_a_web_server_gives_the_same(served: Served, wheel: str, tmp_path: Path) -> None:
    (tmp_path / "got").mkdir()
    got = served.get(key(), str(tmp_path / "got"))
    assert got
    assert sha256(got) == sha256(wheel)
    assert served.source_sha256("tiny", "1.0") == "ab" * 32


def test_what_it_does_not_have_is_no_fault(served: Served, tmp_path: Path) -> None:
    assert served.get(key("2.13.0"), str(tmp_path)) is None
    assert served.source_sha256("tiny", "9.9") is None


def test_a_wheel_damaged_on_the_server_is_refused(served: Served, folder: Folder, tmp_path: Path) -> None:
    (path,) = Path(folder.path).glob("*/*.whl")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(WheelError, match=r"^http://127.0.0.1:.*/tiny-.*\.whl does not have the checksum"):
        served.get(key(), str(tmp_path))


def answering(answer: Callable[[socket.socket], object]) -> str:
    """The address, with a login, of a server that answers like this whatever it is asked, until the test ends."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _peer = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                answer(connection)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://joe:secret@127.0.0.1:{listening.getsockname()[1]}/wheels"


def saying(text: str) -> Callable[[socket.socket], object]:
    return lambda connection: connection.sendall(text.encode())


def drip(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
    for _second in range(100):
        connection.sendall(b" ")
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (saying("hello\r\n\r\n"), "cannot be had: hello"),
        (saying("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), "is no manifest"),
        (saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"), "cannot be had: IncompleteRead"),
        (saying("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"), "is no manifest"),
        (saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"), "names no wheel"),
        (saying("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"), "cannot be had: the server answers 401"),
        (saying("HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n"), "cannot be had: the server answers 503"),
        (lambda connection: None, "cannot be had: Remote end closed"),
        (lambda connection: time.sleep(20), "cannot be had: timed out"),
        (drip, "cannot be had: it was not there after 1 seconds"),
    ],
)
def test_a_server_that_answers_wrongly_or_never_is_one_sentence_without_its_login(
    answer: Callable[[socket.socket], object], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_shared_wheelhouse, "TIMEOUT", 1)
    with pytest.raises(WheelError) as raised:
        shared(answering(answer), str(tmp_path / "own")).get(key(), str(tmp_path))
    assert str(raised.value).startswith("http://127.0.0.1:")
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/wheels", "http://127.0.0.1:port/wheels", "http://a b/wheels"])
def test_a_server_that_is_not_there_is_said(address: str, tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=f"{address}/.* cannot be had: "):
        shared(address, str(tmp_path / "own")).get(key(), str(tmp_path))


def test_a_server_that_did_not_answer_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shared_wheelhouse, "TIMEOUT", 1)
    house = shared(answering(lambda connection: time.sleep(20)), str(tmp_path / "own"))
    started = time.monotonic()
    for _question in range(5):
        with pytest.raises(WheelError, match="timed out"):
            house.get(key(), str(tmp_path))
        with pytest.raises(WheelError, match="timed out"):
            house.source_sha256("tiny", "1.0")
    assert time.monotonic() - started < 5


def test_what_is_neither_a_folder_nor_a_web_server_is_refused() -> None:
    with pytest.raises(WheelError, match=r"^ftp://example.org/x is neither a folder nor"):
        shared("ftp://joe:secret@example.org/x")


def test_what_the_server_lacks_is_put_into_the_own_folder(served: Served, folder: Folder, wheel: str) -> None:
    assert served.wants(key())
    served.put(key(), wheel)
    assert not served.wants(key())
    next(Path(folder.path).glob("*/*.whl")).unlink()
    assert str(served.get(key(), "")).startswith(served.own.path)


@pytest.mark.parametrize("record", ["{", "[]", "{}", '{"sha256": 1}', '{"sha256": "AB"}'])
def test_a_checksum_of_sources_that_is_none_is_as_if_it_was_not_there(
    record: str, served: Served, folder: Folder
) -> None:
    path = Path(folder.path, _wheelhouse.source_path("tiny", "1.0"))
    path.write_text(record)
    assert folder.source_sha256("tiny", "1.0") is None
    if record != "{":
        assert served.source_sha256("tiny", "1.0") is None


def test_a_manifest_that_names_a_way_out_stays_inside(served: Served, folder: Folder, tmp_path: Path) -> None:
    manifest = Path(folder.path, _wheelhouse.manifest_path(key()))
    manifest.write_text('{"wheel": "../../etc/passwd", "sha256": "00"}')
    with pytest.raises(WheelError):
        served.get(key(), str(tmp_path))
    assert not (tmp_path.parent / "etc").exists()
