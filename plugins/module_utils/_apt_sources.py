# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read and rewrite the text of apt's source files, as apt itself reads them.

Pure: text in, values out. The rules are those of sources.list(5) and of apt 2.6 as observed with
``apt-get update --print-uris``, which the unit tests use as their oracle:

* one-line files (``*.list``): ``deb [option=value ...] uri suite component ...``; ``#`` starts a comment
  anywhere outside of brackets, also inside of a word;
* deb822 files (``*.sources``): stanzas end at an **empty** line; a line of blanks or a comment does not end one;
  a field given twice counts as given last; one stanza may name several URIs.

A line or stanza that names a type and a URI is an entry, even if apt would refuse the rest of it as malformed: a
broken line for the CUDA repository has to be found too, since it stops apt for every repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

# Where NVIDIA publishes; a mirror keeps the part of the path below.
NVIDIA_URL = "https://developer.download.nvidia.com/compute/cuda/repos"
_CUDA_LAYOUT = "/compute/cuda/repos/"
# What NVIDIA's "local installer" packages register: a second repository with the same label and package names.
_CUDA_LOCAL_INSTALLER = "file:/var/cuda-repo-"

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
# deb822 writes some options with another word than the one-line format does.
_OPTION_NAMES = {"architectures": "arch", "languages": "lang", "targets": "target"}
_STANZA_KEYS = frozenset({"types", "uris", "suites", "components", "signed-by", "enabled"})
_FALSE = frozenset({"no", "false", "without", "off", "disable", "0"})
_ONE_LINE = re.compile(r"\s*(deb|deb-src)\s+(?:\[([^\]]*)\]\s*)?(.*)", re.DOTALL)
_FIELD = re.compile(r"^([^\s:#][^\s:]*)[ \t]*:(.*)$", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """One URI that one file registers.

    ``line`` and ``last_line`` are 1-based and inclusive. ``signed_by`` is as written: a path, fingerprints, or the text
    of an embedded key. ``options`` has the one-line format's words (``arch``, ``trusted`` ...), ``signed-by`` excepted.
    """

    file: str
    format: str
    types: tuple[str, ...]
    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str | None
    enabled: bool
    line: int
    last_line: int
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for a module's result."""
        return {
            "file": self.file,
            "format": self.format,
            "types": list(self.types),
            "uri": self.uri,
            "suites": list(self.suites),
            "components": list(self.components),
            "signed_by": self.signed_by,
            "enabled": self.enabled,
            "line": self.line,
            "last_line": self.last_line,
            "options": dict(self.options),
        }


# --- reading ----------------------------------------------------------------------------------------------------------


def format_of(path: str) -> str | None:
    """``list``, ``deb822``, or None for a file name that apt does not read (``cuda.list.bak``, ``a b.list``)."""
    name = path.rsplit("/", 1)[-1]
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or name.startswith("."):
        return None
    if name.endswith(".list"):
        return "list"
    if name.endswith(".sources"):
        return "deb822"
    return None


def parse(path: str, text: str) -> list[Entry]:
    """The entries of one source file, in order; the path's ending tells the format, any other ending is one-line."""
    if path.endswith(".sources"):
        return _parse_deb822(path, text)
    return _parse_list(path, text)


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a newline ends a line (``str.splitlines`` knows ten more characters)."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _parse_list(path: str, text: str) -> list[Entry]:
    found = []
    for number, line in enumerate(_lines(text), start=1):
        entry = _parse_one_line(path, number, line)
        if entry is not None:
            found.append(entry)
    return found


def _parse_one_line(path: str, number: int, line: str) -> Entry | None:
    match = _ONE_LINE.match(_without_comment(line))
    words = _words(match.group(3)) if match else []
    if match is None or not words or ":" not in words[0]:
        return None
    options: dict[str, str] = {}
    for word in _words(match.group(2) or ""):
        name, _equals, value = word.partition("=")
        options[name.rstrip("+-").lower()] = value
    signed_by = options.pop("signed-by", None)
    return Entry(
        file=path,
        format="list",
        types=(match.group(1),),
        uri=words[0],
        suites=tuple(words[1:2]),
        components=tuple(words[2:]),
        signed_by=signed_by,
        enabled=True,
        line=number,
        last_line=number,
        options=options,
    )


def _without_comment(line: str) -> str:
    position = 0
    while position < len(line):
        if line[position] == "#":
            return line[:position]
        if line[position] == "[":
            closing = line.find("]", position + 1)
            position = closing if closing != -1 else position
        position += 1
    return line


def _words(text: str) -> list[str]:
    """Split at blanks, but not inside of double quotes; quotes are dropped and ``%20`` is decoded, as apt does."""
    return [unquote(word.replace('"', "")) for word in re.findall(r'(?:"[^"]*"|\S)+', text)]


@dataclass
class _Field:
    """Lines [first, last] (0-based, in the file) of one field; ``value`` without comment lines."""

    first: int
    last: int
    value: str


def _stanzas(lines: list[str]) -> list[tuple[int, int]]:
    """Ranges [first, last] of lines between empty ones."""
    ranges: list[tuple[int, int]] = []
    start: int | None = None
    for index, line in enumerate(lines):
        if line.strip("\r\n") == "":
            if start is not None:
                ranges.append((start, index - 1))
            start = None
        elif start is None:
            start = index
    if start is not None:
        ranges.append((start, len(lines) - 1))
    return ranges


def _fields(lines: list[str], first: int, last: int) -> dict[str, _Field]:
    fields: dict[str, _Field] = {}
    current: _Field | None = None
    for index in range(first, last + 1):
        line = lines[index].rstrip("\r\n")
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t"):
            if current is not None:
                current.last = index
                current.value += "\n" + line[1:]
            continue
        match = _FIELD.match(line)
        current = None
        if match:
            current = fields[match.group(1).lower()] = _Field(index, index, match.group(2))
    return fields


def _parse_deb822(path: str, text: str) -> list[Entry]:
    lines = _lines(text)
    found = []
    for first, last in _stanzas(lines):
        fields = _fields(lines, first, last)
        values = {name: one.value.strip() for name, one in fields.items()}
        types = tuple(word for word in values.get("types", "").split() if word in ("deb", "deb-src"))
        options = {
            _OPTION_NAMES.get(name, name): " ".join(value.split())
            for name, value in values.items()
            if name not in _STANZA_KEYS
        }
        for uri in values.get("uris", "").split() if types else ():
            found.append(
                Entry(
                    file=path,
                    format="deb822",
                    types=types,
                    uri=uri,
                    suites=tuple(values.get("suites", "").split()),
                    components=tuple(values.get("components", "").split()),
                    signed_by=values.get("signed-by") or None,
                    enabled=values.get("enabled", "").lower() not in _FALSE,
                    line=min(one.first for one in fields.values()) + 1,
                    last_line=max(one.last for one in fields.values()) + 1,
                    options=options,
                )
            )
    return found


# --- judging ----------------------------------------------------------------------------------------------------------


def normalise_uri(uri: str) -> str:
    """One spelling for one place: no http/https difference, login, default port, double or last slash; lower-case host.

    ``HTTPS://Example.com:443//a/b/`` becomes ``example.com/a/b``; a ``file:///srv/x/`` becomes ``file:/srv/x``.
    """
    scheme, colon, rest = uri.strip().partition(":")
    scheme = scheme.lower()
    if not colon:
        return re.sub(r"/{2,}", "/", uri.strip()).rstrip("/")
    if scheme not in _DEFAULT_PORTS:
        return scheme + ":" + re.sub(r"/{2,}", "/", rest).rstrip("/")
    host, _slash, path = rest.lstrip("/").partition("/")
    host = host.rsplit("@", 1)[-1].lower()
    if host.endswith(_DEFAULT_PORTS[scheme]):
        host = host[: -len(_DEFAULT_PORTS[scheme])]
    return re.sub(r"/{2,}", "/", host + "/" + path).rstrip("/")


def same_place(one: str, other: str) -> bool:
    """Whether two URIs name the same repository."""
    return normalise_uri(one) == normalise_uri(other)


def concerns_cuda(entry: Entry, urls: Iterable[str] = ()) -> bool:
    """Whether an entry is one for NVIDIA's CUDA repository: NVIDIA's own, a mirror below one of ``urls``, any host
    that keeps NVIDIA's path layout, or what a "local installer" package left."""
    place = normalise_uri(entry.uri)
    if place.startswith(_CUDA_LOCAL_INSTALLER) or _CUDA_LAYOUT in place + "/":
        return True
    return any((place + "/").startswith(normalise_uri(url) + "/") for url in (NVIDIA_URL, *urls) if url)


# --- rewriting --------------------------------------------------------------------------------------------------------


def without(path: str, text: str, entries: Iterable[Entry]) -> str:
    """The text without the given entries (as ``parse(path, text)`` returned them).

    All other lines stay byte for byte, in order: comments, blank lines, other entries, and the other URIs of a stanza
    that several repositories share.
    """
    unwanted = [entry for entry in entries if entry.file == path]
    if not unwanted:
        return text
    lines = _lines(text)
    if not path.endswith(".sources"):
        numbers = {entry.line for entry in unwanted}
        return "".join(line for number, line in enumerate(lines, start=1) if number not in numbers)
    for first, last in reversed(_stanzas(lines)):
        uris = {entry.uri for entry in unwanted if first < entry.line <= last + 1}
        if uris:
            lines[first : last + 1] = _stanza_without(lines[first : last + 1], uris)
    return "".join(lines)


def _stanza_without(lines: list[str], uris: set[str]) -> list[str]:
    """One stanza's lines without the URIs; if none is left, its comments alone."""
    known = _fields(lines, 0, len(lines) - 1)["uris"]
    if uris.issuperset(known.value.split()):
        return [line for line in lines if line.startswith("#")]
    kept = []
    for index, line in enumerate(lines):
        if known.first <= index <= known.last and not line.startswith("#"):
            colon = line.index(":") + 1 if index == known.first else 0
            name, value = line[:colon], line[colon:]
            value = re.sub(r"\s*(\S+)", lambda match: "" if match.group(1) in uris else match.group(0), value)
            if index > known.first and not value.strip():
                continue
            line = name + value
        kept.append(line)
    return kept
