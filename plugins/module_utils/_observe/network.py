# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Ask the repository as apt would, for whoever asked for it: the only part of an observation that leaves the machine.

apt itself asks, with its own proxies, certificates and user, so what stops it here is what would stop an installation.
It works in a folder of its own: its lists, its cache and its locks stay as they are.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from .._apt_errors import Context, explain
from .host import Host

SECONDS = 40
MIRROR = "cuda_repository_mirror"
PROXY = "cuda_repository_proxy and the proxy settings below /etc/apt/apt.conf.d"


def fetch(host: Host, entry: dict[str, Any], seconds: float = SECONDS) -> dict[str, Any]:
    """{url, kind, error, transient}: error is half a sentence, None when apt fetched a verified index."""
    url = f"{entry['uri'].rstrip('/')}/InRelease"
    answer: dict[str, Any] = {"url": url, "kind": None, "error": None, "transient": False}
    if not url.startswith(("http://", "https://")):
        return answer
    folder = tempfile.mkdtemp(prefix="proxmox_gpu-apt-")
    try:
        os.chmod(folder, 0o755)  # apt fetches as a user of its own
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(f"{folder}/{name}")
        with open(f"{folder}/cuda.sources", "w", encoding="utf-8") as file:
            file.write(stanza(entry))
        done = host.run("/usr/bin/apt-get", *options(folder), "update", "--error-on=any", timeout=seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.status == 0:
        return answer
    if done.status is None:
        return {**answer, "kind": "timeout", "error": done.problem, "transient": True}
    output = f"{done.stdout}\n{done.stderr}"
    problem = explain(output, Context(proxy_of(host, url), MIRROR, PROXY))
    if problem is None:
        return {**answer, "kind": "other", "error": f"apt-get update ended with status {done.status}"}
    return {**answer, "kind": problem.kind, "error": problem.sentence, "transient": problem.transient}


def options(folder: str) -> list[str]:
    """Only this entry, nothing kept, no list of packages, and no patience."""
    settings = [
        f"Dir::Etc::sourcelist={folder}/cuda.sources",
        "Dir::Etc::sourceparts=-",
        f"Dir::State::lists={folder}/lists",
        f"Dir::Cache={folder}/cache",
        "Debug::NoLocking=1",
        "Acquire::Retries=0",
        "Acquire::http::Timeout=10",
        "Acquire::https::Timeout=10",
        "Acquire::Languages=none",
        "Acquire::IndexTargets::deb::Packages::DefaultEnabled=false",
        "APT::Update::Post-Invoke::=/bin/true",
    ]
    return [word for setting in settings for word in ("-o", setting)]


def stanza(entry: dict[str, Any]) -> str:
    """The entry as a file of its own."""
    lines = ["Types: deb", f"URIs: {entry['uri']}", f"Suites: {' '.join(entry.get('suites') or ['/'])}"]
    if entry.get("components"):
        lines.append(f"Components: {' '.join(entry['components'])}")
    if entry.get("signed_by"):
        first, *more = str(entry["signed_by"]).split("\n")
        lines += [f"Signed-By: {first}", *[f" {line.strip() or '.'}" for line in more]]
    return "\n".join(lines) + "\n"


def proxy_of(host: Host, url: str) -> str:
    """The proxy that apt would take for an address, "" for none: an error names it, and whose variable it is."""
    kind = url.partition(":")[0]
    server = url.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
    names = (f"Acquire::{kind}::Proxy::{server}", f"Acquire::{kind}::Proxy", "Acquire::http::Proxy")
    words = [word for index, name in enumerate(names) for word in (f"P{index}", f"{name}")]
    done = host.run("/usr/bin/apt-config", "shell", *words)
    values = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    found = [values[f"P{index}"].strip("'") for index in range(len(names)) if f"P{index}" in values]
    return found[0] if found and found[0] != "DIRECT" else ""
