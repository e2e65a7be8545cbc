# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""What the role bootstrap puts into a container besides packages, so that wish and fact can be compared.

The role writes these files by raw commands, before there is a Python in the container.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

#: The files below /usr/local/share/ca-certificates are named <CERTIFICATE_PREFIX><16 hexadecimal digits>.crt.
CERTIFICATE_PREFIX = "proxmox-gpu-"
PROXY_FILE = "/etc/apt/apt.conf.d/80proxmox-gpu-proxy"

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def certificates(paths: list[str]) -> dict[str, str]:
    """{file name: one certificate} of all certificates in PEM files on the controller; the name tells the content.

    OSError where a file cannot be read.
    """
    found = {}
    for path in paths:
        for pem in _CERTIFICATE.findall(Path(path).expanduser().read_text(encoding="utf-8", errors="replace")):
            text = "\n".join(line.strip() for line in pem.splitlines())
            found[f"{CERTIFICATE_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:16]}.crt"] = text
    return found


def apt_proxy(http_proxy: str | None, https_proxy: str | None, no_proxy: str | None) -> str:
    """The text of PROXY_FILE without a last newline; "" where no proxy is wanted and no file is to be there."""
    lines = []
    for scheme, proxy in (("http", http_proxy), ("https", https_proxy)):
        if proxy:
            lines.append(f'Acquire::{scheme}::Proxy "{proxy}";')
            lines += [
                f'Acquire::{scheme}::Proxy::{host.strip()} "DIRECT";'
                for host in (no_proxy or "").split(",")
                if host.strip()
            ]
    return "\n".join(["// Managed by the role proxmox_gpu.training.bootstrap.", *lines]) if lines else ""
