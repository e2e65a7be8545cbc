# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates of the API stand-in: a CA of the box's own, and server certificates good, expired and of another CA.

As on Proxmox, the CA is in no system's bundle: a client needs ``client/pve-root-ca.pem``, or the fingerprint.
"""

from __future__ import annotations

import hashlib
import ssl
import subprocess
from pathlib import Path

from testbed import files
from testbed.errors import TestbedError
from testbed.layout import Layout

KINDS = ("good", "expired", "foreign")


def ensure(box: Layout) -> None:
    folder = box.state / "api"
    if all((folder / f"{kind}.pem").exists() for kind in KINDS):
        return
    folder.mkdir(exist_ok=True)
    names = ",".join(["DNS:localhost", "IP:127.0.0.1", *(f"DNS:{node.name}" for node in box.nodes)])
    (folder / "server.ext").write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")
    _authority(folder, "ca", "Proxmox Virtual Environment (stand-in of a testbed)")
    _authority(folder, "other-ca", "Another authority")
    _server(folder, "good", "ca", ["-days", "30"])
    _server(folder, "expired", "ca", ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"])
    _server(folder, "foreign", "other-ca", ["-days", "30"])
    files.write(box.client / "pve-root-ca.pem", (folder / "ca.crt").read_text())


def fingerprint(box: Layout, kind: str = "good") -> str:
    """SHA-256 of the server's certificate as Proxmox shows it."""
    der = ssl.PEM_cert_to_DER_cert((box.state / "api" / f"{kind}.crt").read_text())
    return ":".join(f"{byte:02X}" for byte in hashlib.sha256(der).digest())


def context(box: Layout, kind: str) -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(box.state / "api" / f"{kind}.pem")
    return found


def _authority(folder: Path, name: str, subject: str) -> None:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]
    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    _openssl(folder, "req", "-x509", *key, "-out", f"{name}.crt", "-days", "30", "-subj", f"/CN={subject}", *usage)


def _server(folder: Path, name: str, authority: str, dates: list[str]) -> None:
    """``openssl ca`` rather than ``x509 -req``: in OpenSSL 3.0 it alone can set dates in the past."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]
    _openssl(folder, "req", *key, "-out", f"{name}.csr", "-subj", "/CN=pve1")
    (folder / "ca.cnf").write_text(
        "[ca]\ndefault_ca=one\n[one]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\n"
        "policy=any\nunique_subject=no\n[any]\ncommonName=supplied\n"
    )
    (folder / "index.txt").write_text("")
    signer = ["-cert", f"{authority}.crt", "-keyfile", f"{authority}.key", "-extfile", "server.ext"]
    request = ["-in", f"{name}.csr", "-out", f"{name}.crt", "-notext"]
    _openssl(folder, "ca", "-batch", "-config", "ca.cnf", *signer, *request, *dates)
    (folder / f"{name}.pem").write_text((folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text())


def _openssl(folder: Path, *arguments: str) -> None:
    result = subprocess.run(
        ["openssl", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    if result.returncode:
        raise TestbedError(f"`openssl {arguments[0]}` failed: {result.stderr.strip().splitlines()[-1]}")
