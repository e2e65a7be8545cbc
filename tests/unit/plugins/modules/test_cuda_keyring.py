# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The key comes out of a real package, from disk or over HTTP, and only if it is the right one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.proxmox_gpu.training.plugins.module_utils._openpgp import fingerprints
from ansible_collections.proxmox_gpu.training.plugins.modules import cuda_keyring

KEY = (Path(__file__).parents[1] / "module_utils" / "fixtures" / "openpgp" / "key.asc").read_bytes()
FINGERPRINT = fingerprints(KEY)[0]
OTHER = "EB693B3035CD5710E231E123A4B469963BF863CC"
NAME = "cuda-keyring_1.1-1_all.deb"

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is needed to make a package")


def make_deb(folder: Path, key_path: str = "usr/share/keyrings/cuda-archive-keyring.gpg") -> bytes:
    """A package as NVIDIA's: a key, a list file, a pin file, and a script that must never run."""
    root = folder / "package"
    files = {
        key_path: KEY,
        "etc/apt/sources.list.d/cuda-debian12-x86_64.list": b"deb http://a/ /\n",
        "etc/apt/preferences.d/cuda-repository-pin-600": b"Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n",
        "DEBIAN/control": b"Package: cuda-keyring\nVersion: 1.1-1\nArchitecture: all\nMaintainer: x\nDescription: x\n",
        "DEBIAN/postinst": b"#!/bin/sh\ntouch /tmp/cuda-keyring-postinst-ran\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    (root / "DEBIAN").chmod(0o755)
    (root / "DEBIAN/postinst").chmod(0o755)
    subprocess.run(["dpkg-deb", "-b", str(root), str(folder / NAME)], check=True, capture_output=True, timeout=50)
    return (folder / NAME).read_bytes()


class Keyring:
    """Runs of the module with a package on disk."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.deb, self.path, self._capsys = root / NAME, root / "keyrings" / "cuda.gpg", capsys
        self.sha256 = hashlib.sha256(make_deb(root)).hexdigest()

    def run(self, status: int = 0, **arguments: Any) -> dict[str, Any]:
        source = {} if "url" in arguments else {"deb": str(self.deb)}
        wanted = {**source, "sha256": self.sha256, "fingerprints": [FINGERPRINT], "path": str(self.path), **arguments}
        with patch_module_args(wanted), pytest.raises(SystemExit) as ended:
            cuda_keyring.main()
        assert ended.value.code == status
        if status:
            assert not self.path.exists(), "nothing may be installed after a refusal"
        return json.loads(self._capsys.readouterr().out)


@pytest.fixture
def keyring(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Keyring:
    return Keyring(tmp_path, capsys)


def test_the_key_alone_is_installed(keyring: Keyring) -> None:
    done = keyring.run(_ansible_diff=True)
    assert (done["changed"], done["fingerprints"]) == (True, [FINGERPRINT])
    assert done["diff"]["after"] == FINGERPRINT + "\n"
    assert keyring.path.read_bytes() == KEY
    assert os.stat(keyring.path).st_mode & 0o777 == 0o644, "apt reads it as the user _apt"
    assert not Path("/tmp/cuda-keyring-postinst-ran").exists()
    assert keyring.run()["changed"] is False


def test_check_mode_touches_nothing_and_needs_no_network(keyring: Keyring) -> None:
    done = keyring.run(url="http://no-such-host.invalid/x.deb", _ansible_check_mode=True)
    assert done["changed"] is True
    assert not keyring.path.exists()


def test_a_key_that_is_there_needs_no_package(keyring: Keyring) -> None:
    keyring.run()
    keyring.deb.unlink()
    assert keyring.run(fingerprints=[f"0x{FINGERPRINT.lower()}", OTHER])["changed"] is False


@pytest.mark.parametrize("content", [b"", b"<html>", b"\x00\x00\x00\x20\x01\x01\x00\x02KBXf"])
def test_a_keyring_that_apt_cannot_use_is_replaced(keyring: Keyring, content: bytes) -> None:
    keyring.path.parent.mkdir()
    keyring.path.write_bytes(content)
    assert keyring.run()["changed"] is True
    assert keyring.path.read_bytes() == KEY


def test_another_checksum_is_refused(keyring: Keyring) -> None:
    message = keyring.run(status=1, sha256="0" * 64)["msg"]
    assert keyring.sha256 in message
    assert "cuda_repository_keyring_sha256" in message


def test_another_key_is_refused(keyring: Keyring) -> None:
    message = keyring.run(status=1, fingerprints=[OTHER])["msg"]
    assert FINGERPRINT in message
    assert OTHER in message


def test_what_is_no_package_is_refused(keyring: Keyring) -> None:
    keyring.deb.write_bytes(b"<html>login</html>")
    message = keyring.run(status=1, sha256=hashlib.sha256(b"<html>login</html>").hexdigest())["msg"]
    assert "is no Debian package" in message


def test_another_package_is_refused(keyring: Keyring, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "package")
    other = make_deb(tmp_path, "usr/share/keyrings/other.gpg")
    assert "is not NVIDIA's cuda-keyring" in keyring.run(status=1, sha256=hashlib.sha256(other).hexdigest())["msg"]


def test_a_missing_package_is_named(keyring: Keyring) -> None:
    keyring.deb.unlink()
    assert keyring.run(status=1)["msg"] == f"there is no file {keyring.deb} on the target"


# --- over HTTP --------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(keyring: Keyring) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = int(self.path.split("/")[1]) if self.path.split("/")[1].isdigit() else 200
            self.send_response(status)
            self.end_headers()
            if status == 200:
                self.wfile.write(keyring.deb.read_bytes())

        def log_message(self, *_arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def closed_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_it_is_downloaded(keyring: Keyring, server: str) -> None:
    assert keyring.run(url=f"{server}/{NAME}")["changed"] is True
    assert keyring.path.read_bytes() == KEY


@pytest.mark.parametrize(
    ("status", "transient", "words"),
    [
        (404, False, ["there is no keyring package at", "cuda_repository_mirror", "cuda_repository_keyring_version"]),
        (403, False, ["was refused (403 Forbidden)", "cuda_repository_proxy"]),
        (503, True, ["was refused (503 Service Unavailable)", "retry later"]),
    ],
)
def test_a_server_that_refuses(keyring: Keyring, server: str, status: int, transient: bool, words: list[str]) -> None:
    failed = keyring.run(status=1, url=f"{server}/{status}/{NAME}")
    assert failed["transient"] is transient
    for word in [*words, f"{server}/{status}/{NAME}"]:
        assert word in failed["msg"]


def test_a_server_that_does_not_listen(keyring: Keyring, closed_port: int) -> None:
    failed = keyring.run(status=1, url=f"http://127.0.0.1:{closed_port}/{NAME}")
    assert failed["transient"] is True
    assert f"http://127.0.0.1:{closed_port}/{NAME} cannot be reached (Connection refused)" in failed["msg"]
    assert "cuda_repository_keyring_deb" in failed["msg"]


def test_a_server_that_says_nothing(keyring: Keyring) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        failed = keyring.run(status=1, url=f"http://127.0.0.1:{port}/{NAME}", timeout=1)
    assert "cannot be reached (no answer in time)" in failed["msg"]


def test_a_server_without_tls(keyring: Keyring, server: str) -> None:
    message = keyring.run(status=1, url=f"{server.replace('http', 'https')}/{NAME}")["msg"]
    assert message.startswith(f"TLS to {server[7:]} failed (")
    assert "bootstrap_ca_certificates" in message


def test_a_proxy_that_refuses(keyring: Keyring, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked to CONNECT, the plain server answers 501, as many a wrong proxy does."""
    monkeypatch.setenv("https_proxy", server.replace("http://", "http://user:secret@"))
    message = keyring.run(status=1, url=f"https://example.invalid/{NAME}")["msg"]
    assert f"was refused through the proxy {server[7:]}" in message
    assert "cuda_repository_proxy" in message
    assert "secret" not in message


def test_a_proxy_that_does_not_listen(keyring: Keyring, closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port}")
    message = keyring.run(status=1, url=f"http://example.invalid/{NAME}")["msg"]
    assert f"cannot be reached through the proxy 127.0.0.1:{closed_port} (Connection refused)" in message
