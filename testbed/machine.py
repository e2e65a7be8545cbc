# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How this machine reaches apt and pip, as data: what containers are handed through the product's own variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from testbed import apt_configuration, pip_configuration
from testbed.refusals import os_release

BUNDLE_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")
SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
DISTRIBUTION_CERTIFICATES = Path("/usr/share/ca-certificates")


def describe(environment: Mapping[str, str] | None = None) -> dict[str, object]:
    """JSON-able description: proxies, CA bundle, pip options, local folders, Debian release, apt mirror and proxy."""
    env = os.environ if environment is None else environment
    pip = pip_configuration.read(env)
    sources = apt_configuration.debian_sources(apt_configuration.read_sources(), os_release()["VERSION_CODENAME"])
    return {
        "debian": os_release()["VERSION_CODENAME"],
        "apt_sources": apt_configuration.one_line_format(sources).splitlines(),
        "apt_mirror": sources[0].uris[0],
        "apt_proxy": apt_configuration.proxies(),
        "http_proxy": env.get("http_proxy") or env.get("HTTP_PROXY"),
        "https_proxy": env.get("https_proxy") or env.get("HTTPS_PROXY"),
        "no_proxy": env.get("no_proxy") or env.get("NO_PROXY"),
        "ca_bundle": ca_bundle(env, pip),
        "pip": pip,
        "local_folders": pip_configuration.local_folders(pip),
    }


def ca_bundle(environment: Mapping[str, str], pip: Mapping[str, str | list[str]]) -> str | None:
    """The bundle that this machine's tools are told to trust, else the system's own."""
    candidates = [pip.get("cert"), *(environment.get(name) for name in BUNDLE_VARIABLES), str(SYSTEM_BUNDLE)]
    return next((str(path) for path in candidates if path and Path(str(path)).is_file()), None)


def private_certificates(bundle: Path, distribution: Path = DISTRIBUTION_CERTIFICATES) -> list[str]:
    """Certificates (PEM) of the bundle that Debian's own ca-certificates does not bring: a company's proxy, say."""
    known = {
        _body(pem) for file in distribution.rglob("*.crt") for pem in _certificates(file.read_text(errors="replace"))
    }
    return [pem for pem in _certificates(bundle.read_text(errors="replace")) if _body(pem) not in known]


def _certificates(text: str) -> list[str]:
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.DOTALL)


def _body(pem: str) -> str:
    return "".join(pem.split())
