# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fingerprints as gpg itself gives them, and a sentence for what is no keyring."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._openpgp import NoKeyring, fingerprints

# A throw-away key: Ed25519 with an encryption subkey, made for this test.
ARMOURED = (Path(__file__).parent / "fixtures" / "openpgp" / "key.asc").read_bytes()
FINGERPRINT = "89CF99576515C9CDD5DC7A99CC9AEB4D66897956"


def test_an_armoured_key() -> None:
    assert fingerprints(ARMOURED) == [FINGERPRINT]


def test_headers_and_carriage_returns_do_not_matter() -> None:
    first, rest = ARMOURED.split(b"\n", 1)
    assert fingerprints(first + b"\nVersion: GnuPG v2\nComment: a: b\n" + rest) == [FINGERPRINT]
    assert fingerprints(ARMOURED.replace(b"\n", b"\r\n")) == [FINGERPRINT]


def test_several_keys_keep_their_order() -> None:
    assert fingerprints(ARMOURED + b"\n" + ARMOURED) == [FINGERPRINT, FINGERPRINT]


@pytest.fixture(scope="module")
def gpg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    if shutil.which("gpg") is None:
        pytest.skip("gpg is the oracle of this test, and this machine has none")
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    environment = {**os.environ, "GNUPGHOME": str(home)}
    for algorithm in ("rsa2048", "ed25519", "nistp256"):
        subprocess.run(
            ["gpg", "--batch", "--passphrase", "", "--quick-gen-key", f"{algorithm}@example.org", algorithm, "sign"],
            env=environment,
            capture_output=True,
            check=True,
            timeout=50,
        )
    yield environment
    subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=True, timeout=50)


@pytest.mark.parametrize("options", [[], ["--armor"], ["--armor", "--export-options", "export-minimal"]])
def test_what_gpg_exports(gpg: dict[str, str], options: list[str]) -> None:
    def run(*arguments: str) -> bytes:
        return subprocess.run(["gpg", *arguments], env=gpg, capture_output=True, check=True, timeout=50).stdout

    listed = run("--with-colons", "--list-keys").decode().splitlines()
    primary = [after.split(":")[9] for line, after in zip(listed, listed[1:]) if line.startswith("pub:")]
    assert len(primary) == 3
    assert fingerprints(run(*options, "--export")) == primary


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no OpenPGP public key"),
        (b"<html>login</html>", "no OpenPGP keyring"),
        (b"\x00\x00\x00\x20\x01\x01\x00\x02KBXf", "keybox"),
        (b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n!!!!\n-----END PGP PUBLIC KEY BLOCK-----\n", "damaged"),
        (b"-----BEGIN PGP SIGNED MESSAGE-----\n\nx", "no OpenPGP public key"),
        (b"\x99\x00\x05\x04ab", "cut off"),
        (b"\x99\x00\x01\x03", "version 3"),
        (b"\x9b", "without a length"),
        (b"\xc6\xe1", "partial length"),
    ],
)
def test_what_is_no_keyring(data: bytes, why: str) -> None:
    with pytest.raises(NoKeyring, match=why):
        fingerprints(data)


@given(st.one_of(st.binary(), st.binary().map(lambda tail: b"\xc6" + tail), st.binary().map(lambda t: b"\x99" + t)))
def test_any_bytes_are_survived(data: bytes) -> None:
    try:
        found = fingerprints(data)
    except NoKeyring:
        return
    assert all(len(one) in (40, 64) for one in found)


@given(st.integers(min_value=1, max_value=len(ARMOURED) - 1))
def test_a_cut_file_never_gives_another_fingerprint(length: int) -> None:
    try:
        found = fingerprints(ARMOURED[:length])
    except NoKeyring:
        return
    assert found == [FINGERPRINT]
