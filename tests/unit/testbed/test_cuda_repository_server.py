# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA repository stand-in's signing, broken copies and server, over a folder of two tiny packages."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cuda_repository import BuildError, builder, config_packages, deb, faults, index, layout, server, signing

NAME = "debian12/x86_64"
REPOSITORY = layout.repository(NAME)
PACKAGES = ("cuda-crt-13-0", "cuda-crt-13-2")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What builder.build() leaves, with one repository and two empty packages, signed by a quick key."""
    folder = tmp_path_factory.mktemp("built") / "www"
    place = folder / REPOSITORY.path
    place.mkdir(parents=True)
    key = signing.create(folder / "signing", "ed25519")
    stanzas = []
    for name in PACKAGES:
        fields = {"Package": name, "Version": "1-1", "Architecture": "amd64", "Priority": "optional"}
        file = f"{name}_1-1_amd64.deb"
        deb.write(place / file, fields, [deb.Entry(f"usr/share/doc/{name}/x", bytes(range(256)) * 16)])
        stanzas.append(index.stanza(fields, file, index.digest_file(place / file)))
    keyring = config_packages.keyring(REPOSITORY, key.binary)
    deb.write(place / layout.KEYRING_DEB, config_packages.keyring_fields(), keyring.entries)
    with signing.Signer(key) as signer:
        builder.sign(place, REPOSITORY.arch, index.packages_files(stanzas), signer)
    (folder / "fingerprint").write_text(f"{key.fingerprint}\n")
    checksum = index.digest_file(place / layout.KEYRING_DEB).sums["SHA256"]
    (folder / "manifest.json").write_text(json.dumps({"repositories": {NAME: {"keyring_sha256": checksum}}}))
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "broken"


def keyring_of(folder: Path, tmp_path: Path) -> Path:
    """The key ring inside the keyring package of ``folder``."""
    out = tmp_path / "unpacked"
    shutil.rmtree(out, ignore_errors=True)
    command = ["dpkg-deb", "--extract", str(folder / REPOSITORY.path / layout.KEYRING_DEB), str(out)]
    subprocess.run(command, check=True, timeout=30)
    return out / config_packages.KEYRING_PATH


def gpgv(folder: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Verify InRelease of ``folder`` the way apt does, with its own keyring."""
    ring = keyring_of(folder, tmp_path)
    command = ["gpgv", "--status-fd", "1", "--keyring", str(ring), str(folder / REPOSITORY.path / "InRelease")]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def release_knows(place: Path, name: str) -> bool:
    """Whether Release describes the file ``name`` as it lies there."""
    content = (place / name).read_bytes()
    return f" {index.digest(content).sums['SHA256']} {len(content):16d} {name}\n" in (place / "Release").read_text()


# --- signing ---------------------------------------------------------------------------------------------------------


def test_good_folder_verifies(built: Path, tmp_path: Path) -> None:
    done = gpgv(built, tmp_path)
    assert done.returncode == 0
    assert f"VALIDSIG {(built / 'fingerprint').read_text().strip()}" in done.stdout
    assert release_knows(built / REPOSITORY.path, "Packages")


def test_key_names_itself_a_stand_in(built: Path) -> None:
    key = signing.Key(built / "signing")
    assert key.short == key.fingerprint[-8:].lower()
    command = ["gpg", "--batch", "--show-keys", "--with-colons"]
    shown = subprocess.run(command, input=key.armored, capture_output=True, check=True, timeout=30).stdout
    assert b"cudatools stand-in (testbed)" in shown


def test_missing_gpg_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"is missing: install Debian's package"):
        signing.create(tmp_path / "key", "ed25519")


# --- broken copies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", faults.FAULTS.values(), ids=lambda fault: fault.__name__)
def test_the_built_folder_stays_as_it_is(built: Path, target: Path, fault: faults.Fault) -> None:
    before = {path: path.read_bytes() for path in built.rglob("*") if path.is_file()}
    assert fault(built, target) == target
    assert {path: path.read_bytes() for path in built.rglob("*") if path.is_file()} == before


def test_wrong_signature(built: Path, target: Path, tmp_path: Path) -> None:
    assert "NO_PUBKEY" in gpgv(faults.wrong_signature(built, target), tmp_path).stdout


def test_expired_key(built: Path, target: Path, tmp_path: Path) -> None:
    faults.expired_key(built, target)
    assert "EXPKEYSIG" in gpgv(target, tmp_path).stdout
    assert (target / "fingerprint").read_text() != (built / "fingerprint").read_text()


def test_sha1_key_is_bound_by_sha1_and_good_for_gpgv(built: Path, target: Path, tmp_path: Path) -> None:
    faults.sha1_key(built, target)
    assert gpgv(target, tmp_path).returncode == 0
    command = ["gpg", "--list-packets", str(keyring_of(target, tmp_path))]
    packets = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    assert re.search(r"sigclass 0x13\n\s+digest algo 2,", packets)


def test_foreign_key_in_the_keyring_and_the_right_checksum(built: Path, target: Path, tmp_path: Path) -> None:
    faults.keyring_foreign_key(built, target)
    assert "NO_PUBKEY" in gpgv(target, tmp_path).stdout
    wanted = json.loads((target / "manifest.json").read_text())["repositories"][NAME]["keyring_sha256"]
    assert wanted == index.digest_file(target / REPOSITORY.path / layout.KEYRING_DEB).sums["SHA256"]


def test_changed_keyring_is_still_a_good_package(built: Path, target: Path, tmp_path: Path) -> None:
    faults.keyring_checksum(built, target)
    wanted = json.loads((target / "manifest.json").read_text())["repositories"][NAME]["keyring_sha256"]
    assert wanted != index.digest_file(target / REPOSITORY.path / layout.KEYRING_DEB).sums["SHA256"]
    assert gpgv(target, tmp_path).returncode == 0


def test_publishing_index_disagrees_with_release(built: Path, target: Path, tmp_path: Path) -> None:
    place = faults.publishing_index(built, target) / REPOSITORY.path
    assert gpgv(target, tmp_path).returncode == 0
    assert not release_knows(place, "Packages") and not release_knows(place, "Packages.gz")


def test_publishing_pool_disagrees_with_the_index(built: Path, target: Path) -> None:
    place = faults.publishing_pool(built, target, package="cuda-crt-13-0") / REPOSITORY.path
    assert release_knows(place, "Packages")
    size = (place / "cuda-crt-13-0_1-1_amd64.deb").stat().st_size
    assert f"Size: {size}\n" not in (place / "Packages").read_text()


def test_malformed_and_missing_packages(built: Path, target: Path, tmp_path: Path) -> None:
    place = faults.malformed_packages(built, target) / REPOSITORY.path
    assert release_knows(place, "Packages") and gpgv(target, tmp_path).returncode == 0
    assert "Package: cuda-crt-13-0" not in (place / "Packages").read_text()
    gone = faults.missing_packages(built, tmp_path / "gone") / REPOSITORY.path
    assert not list(gone.glob("Packages*")) and (gone / "InRelease").exists()


def test_without_series_is_a_good_repository(built: Path, target: Path, tmp_path: Path) -> None:
    place = faults.without_series(built, target) / REPOSITORY.path
    assert gpgv(target, tmp_path).returncode == 0 and release_knows(place, "Packages.gz")
    text = (place / "Packages").read_text()
    assert "13-0" not in text and text.count("Package: cuda-crt-13-2\n") == 1 and text.endswith("\n\n")
    assert sorted(path.name for path in place.glob("cuda-crt*")) == ["cuda-crt-13-2_1-1_amd64.deb"]


# --- server ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def running(built: Path, tmp_path: Path) -> Iterator[server.Server]:
    with server.serving(built, tmp_path / "access.log") as started:
        yield started


def get(
    running: server.Server, path: str, timeout: float = 10, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", running.server_address[1], timeout=timeout)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


PATH = f"/{REPOSITORY.path}"


def test_serves_and_logs(built: Path, running: server.Server) -> None:
    content = (built / REPOSITORY.path / "Packages").read_bytes()
    assert get(running, f"{PATH}/Packages") == (200, content)
    assert get(running, f"{PATH}/nothing")[0] == 404
    logged = [(entry["path"], entry["status"], entry["bytes"]) for entry in server.requests(running.log)]
    assert logged[0] == (f"{PATH}/Packages", 200, len(content))
    assert logged[1][:2] == (f"{PATH}/nothing", 404)


@pytest.mark.parametrize(
    "path", ["/signing/secret.asc", "/manifest.json", "/compute/../signing/secret.asc", "/", f"{PATH}/"]
)
def test_serves_nothing_but_the_repositories(running: server.Server, path: str) -> None:
    assert get(running, path)[0] == 404


def test_an_unchanged_file_is_not_sent_again(running: server.Server) -> None:
    status, content = get(running, f"{PATH}/InRelease", headers={"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"})
    assert (status, content) == (304, b"")


def test_faults_come_and_go_under_a_running_server(running: server.Server) -> None:
    server.set_faults(running.faults, [(f"{PATH}/Packages", 503), ("/compute", 404)])
    assert get(running, f"{PATH}/Packages")[0] == 503
    assert get(running, f"{PATH}/Release")[0] == 404
    server.set_faults(running.faults, [])
    assert get(running, f"{PATH}/Packages")[0] == 200


def test_a_body_can_be_cut(running: server.Server) -> None:
    server.set_faults(running.faults, [(PATH, "cut")])
    with pytest.raises(http.client.IncompleteRead):
        get(running, f"{PATH}/Packages")


def test_an_answer_can_hang_without_keeping_the_server(built: Path, tmp_path: Path) -> None:
    with server.serving(built, tmp_path / "access.log") as running:
        server.set_faults(running.faults, [(f"{PATH}/Packages", "hang")])
        with pytest.raises(TimeoutError):
            get(running, f"{PATH}/Packages", timeout=0.2)
        assert get(running, f"{PATH}/Release")[0] == 200


def test_a_damaged_faults_file_answers_500(running: server.Server) -> None:
    running.faults.write_text("{")
    assert get(running, f"{PATH}/Packages")[0] == 500
