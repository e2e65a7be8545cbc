# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pct stand-in's command line, read as Proxmox reads it: Perl's Getopt::Long, then its parameter check.

That includes what goes wrong there: options are taken from anywhere before ``--`` (so ``pct exec 200 ls -la`` fails),
and arguments are decoded in the locale's character set, which damages them outside UTF-8.
"""

from __future__ import annotations

import locale
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

Parameters = dict[str, object]


class BadParameters(Exception):
    """Refused by the parameter check. The text is what goes to stderr before the usage line."""


@dataclass(frozen=True)
class Command:
    """One pct command. ``options``: name → boolean, integer, number or string; ``[n]`` ends a numbered name."""

    name: str
    positional: tuple[str, ...]
    options: dict[str, str]
    run: Callable[..., int] = field(repr=False)

    @property
    def synopsis(self) -> str:
        names = [f"[<{name}>]" if name == "extra-args" else f"<{name}>" for name in self.positional]
        return " ".join([*names, "[OPTIONS]"])


def usage(commands: list[Command]) -> str:
    lines = ["USAGE: pct <COMMAND> [ARGS] [OPTIONS]"]
    return "\n".join([*lines, *(f"       pct {command.name} {command.synopsis}" for command in commands)])


def original_environment() -> dict[bytes, bytes]:
    """The environment that the caller gave. Not os.environ: Python adds LC_CTYPE to it in the C locale (PEP 538)."""
    pairs = (entry.split(b"=", 1) for entry in Path("/proc/self/environ").read_bytes().split(b"\0") if b"=" in entry)
    return {pair[0]: pair[1] for pair in pairs}


def decode(word: bytes, environment: dict[bytes, bytes]) -> str:
    """An argument as Perl decodes it: by the locale's character set, what does not fit becomes U+FFFD."""
    name = next((environment[key] for key in (b"LC_ALL", b"LC_CTYPE", b"LANG") if environment.get(key)), b"C")
    try:
        locale.setlocale(locale.LC_CTYPE, name.decode(errors="replace"))
        charset = locale.nl_langinfo(locale.CODESET)
    except locale.Error:
        charset = "ANSI_X3.4-1968"
    if charset == "UTF-8":
        return word.decode("utf-8", "replace")
    return "".join(chr(byte) if byte < 0x80 else "\N{REPLACEMENT CHARACTER}" for byte in word)


def parse(command: Command, words: list[str]) -> Parameters:
    """Named parameters of a command line: the positional ones, ``extra-args`` as a list, options under their names."""
    given, rest, unknown = _options(command.options, words)
    if unknown:
        for name in unknown:
            print(f"Unknown option: {name}", file=sys.stderr)
        raise BadParameters("400 unable to parse option")
    named = [name for name in command.positional if name != "extra-args"]
    if len(rest) < len(named):
        raise BadParameters("400 not enough arguments")
    if len(rest) > len(named) and "extra-args" not in command.positional:
        raise BadParameters("400 too many arguments")
    parameters: Parameters = dict(zip(named, rest, strict=False))
    if "extra-args" in command.positional:
        parameters["extra-args"] = rest[len(named) :]
    faults = []
    for name, text in {**{n: str(v) for n, v in parameters.items() if n == "vmid"}, **given}.items():
        kind = "vmid" if name == "vmid" else _kind(command.options, name)
        value, fault = _check(kind, text)
        parameters[name] = value
        faults += [f"{name}: {fault}"] if fault else []
    if faults:
        raise BadParameters("\n".join(["400 Parameter verification failed.", *faults]))
    return parameters


def _kind(options: dict[str, str], name: str) -> str:
    return options.get(name) or options[re.sub(r"\d+$", "[n]", name)]


def _options(options: dict[str, str], words: list[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """Getopt::Long's way: options anywhere before ``--``, one dash or two, unambiguous abbreviations."""
    given: dict[str, str] = {}
    rest: list[str] = []
    unknown: list[str] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += queue
            break
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        text, separator, value = word.lstrip("-").partition("=")
        name = _full_name(options, text)
        if name is None:
            unknown.append(text)
        elif separator:
            given[name] = value
        elif _kind(options, name) == "boolean":  # its value is optional, and taken when it does not look like an option
            given[name] = queue.pop(0) if queue and not queue[0].startswith("-") else "1"
        elif queue:
            given[name] = queue.pop(0)
        else:
            unknown.append(text)
    return given, rest, unknown


def _full_name(options: dict[str, str], text: str) -> str | None:
    if text in options or re.sub(r"\d+$", "[n]", text) in options and text[-1:].isdigit():
        return text
    matches = [name for name in options if name.startswith(text) and not name.endswith("[n]")]
    return matches[0] if text and len(matches) == 1 else None


def _check(kind: str, text: str) -> tuple[object, str | None]:
    """The value of a parameter, and what is wrong with it."""
    if kind in ("vmid", "integer"):
        if not re.fullmatch(r"[+-]?\d+", text):
            return text, f"type check ('integer') failed - got '{text}'"
        if kind == "vmid" and int(text) < 100:
            return text, "value must have a minimum value of 100"
        return str(int(text)) if kind == "vmid" else int(text), None
    if kind == "number":
        if not re.fullmatch(r"\d+(\.\d+)?", text):
            return text, f"type check ('number') failed - got '{text}'"
        return float(text), None
    if kind == "boolean":
        if text.lower() not in ("0", "1", "yes", "no", "on", "off", "true", "false"):
            return text, f"type check ('boolean') failed - got '{text}'"
        return text.lower() in ("1", "yes", "on", "true"), None
    return text, None
