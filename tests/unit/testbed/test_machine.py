# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the machine reaches the world, as data."""

from __future__ import annotations

from pathlib import Path

from testbed import machine

PEM = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


def test_only_certificates_beyond_debians_own(tmp_path: Path) -> None:
    (tmp_path / "debian/mozilla").mkdir(parents=True)
    (tmp_path / "debian/mozilla/a.crt").write_text(PEM.format("AAAA"))
    bundle = tmp_path / "bundle.crt"
    bundle.write_text("# text\n" + PEM.format("AA\nAA") + PEM.format("OWN="))
    assert machine.private_certificates(bundle, tmp_path / "debian") == [PEM.format("OWN=").strip()]


def test_the_bundle_that_the_tools_are_told_to_trust(tmp_path: Path) -> None:
    own, other = tmp_path / "own.crt", tmp_path / "other.crt"
    own.touch()
    other.touch()
    assert machine.ca_bundle({"SSL_CERT_FILE": str(other)}, {"cert": str(own)}) == str(own)
    assert machine.ca_bundle({"SSL_CERT_FILE": str(other)}, {"cert": str(tmp_path / "missing")}) == str(other)
