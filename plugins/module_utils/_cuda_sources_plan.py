# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What has to change below /etc/apt so that the CUDA repository has exactly one entry. Pure: texts in, texts out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from . import _apt_sources as apt_sources

_HEADER = "# Managed by the role proxmox_gpu.training.cuda_repository; a change by hand is undone at its next run.\n"


@dataclass(frozen=True)
class Change:
    """One file's text before and after; None stands for no file. ``removed`` are the entries that go."""

    path: str
    before: str | None
    after: str | None
    removed: tuple[apt_sources.Entry, ...] = ()


def stanza(url: str, signed_by: str) -> str:
    """The one entry, for a flat repository, with the address written as NVIDIA's own keyring package writes it."""
    return f"{_HEADER}Types: deb\nURIs: {url.rstrip('/')}/\nSuites: /\nSigned-By: {signed_by}\n"


def plan(files: Mapping[str, str], path: str, text: str, urls: Iterable[str]) -> list[Change]:
    """The changes, in the order in which to make them.

    ``files`` are the texts of all files that apt reads, by path. ``path`` gets ``text`` (see ``stanza``); every other
    enabled entry for the CUDA repository goes (see ``concerns_cuda`` for ``urls``). Others go first: an interruption
    then leaves apt without the repository, never with two that contradict each other, which stops apt altogether.
    """
    places = list(urls)
    changes = []
    for name in sorted(set(files) - {path}):
        ours = tuple(entry for entry in _entries(name, files[name], places) if entry.enabled)
        if ours:
            rest = apt_sources.without(name, files[name], ours)
            changes.append(Change(name, files[name], rest if rest.strip() else None, ours))
    before = files.get(path)
    after = text + _foreign(path, before or "", places)
    if before != after:
        changes.append(Change(path, before, after))
    return changes


def _entries(path: str, text: str, urls: list[str]) -> list[apt_sources.Entry]:
    return [entry for entry in apt_sources.parse(path, text) if apt_sources.concerns_cuda(entry, urls)]


def _foreign(path: str, text: str, urls: list[str]) -> str:
    """What somebody added to our own file: repositories of their own stay below ours, all else is replaced."""
    text = text.replace(_HEADER, "")
    rest = apt_sources.without(path, text, _entries(path, text, urls))
    return "\n" + rest.lstrip("\n") if apt_sources.parse(path, rest) else ""
