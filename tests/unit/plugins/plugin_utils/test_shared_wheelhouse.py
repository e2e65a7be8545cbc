# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wheelhouse in a folder, and the same folder behind a plain web server."""

from __future__ import annotations

import functools
import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import WheelError, sha256, stamp
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import WheelKey, make_key
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
def served(folder: Folder) -> Iterator[Served]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder.path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        house = shared(f"http://127.0.0.1:{server.server_port}/")
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
    with pytest.raises(WheelError, match="does not have the checksum"):
        served.get(key(), str(tmp_path))


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=r"127\.0\.0\.1:9/.* cannot be used"):
        shared("http://127.0.0.1:9/wheels").get(key(), str(tmp_path))


def test_a_manifest_that_names_a_way_out_stays_inside(served: Served, folder: Folder, tmp_path: Path) -> None:
    manifest = Path(folder.path, _wheelhouse.manifest_path(key()))
    manifest.write_text('{"wheel": "../../etc/passwd", "sha256": "00"}')
    with pytest.raises(WheelError):
        served.get(key(), str(tmp_path))
    assert not (tmp_path.parent / "etc").exists()
