# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's pip configuration, read from the files and variables that pip itself reads.

pip's rule: a later source replaces an earlier one; global files, then the user's, then PIP_CONFIG_FILE, then variables.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

LIST_OPTIONS = ("extra-index-url", "find-links")
OPTIONS = ("index-url", "cert", "constraint", "proxy", "timeout", *LIST_OPTIONS)


def configuration_files(environment: Mapping[str, str]) -> list[Path]:
    home = Path(environment.get("HOME") or "/root")
    shared = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    personal = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path(folder) / "pip/pip.conf" for folder in reversed(shared)]
    files += [Path("/etc/pip.conf"), home / ".pip/pip.conf", personal / "pip/pip.conf"]
    if environment.get("PIP_CONFIG_FILE"):
        files.append(Path(environment["PIP_CONFIG_FILE"]))
    return files


def read(environment: Mapping[str, str] | None = None, files: list[Path] | None = None) -> dict[str, str | list[str]]:
    """The options that decide where pip finds packages: `LIST_OPTIONS` as lists, others as strings, or absent."""
    env = os.environ if environment is None else environment
    found: dict[str, str] = {}
    for file in configuration_files(env) if files is None else files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file)
        except configparser.Error:
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                found.update({key: value for key, value in parser.items(section) if key in OPTIONS})
    for option in OPTIONS:
        if value := env.get("PIP_" + option.upper().replace("-", "_")):
            found[option] = value
    return {key: value.split() if key in LIST_OPTIONS else value for key, value in found.items()}


def local_folders(options: Mapping[str, str | list[str]]) -> list[str]:
    """Folders of this machine that the configuration points to; containers get them read-only at the same path.

    Of an index (``file:///srv/pypi/simple``) that is the folder above ``simple``, where its files lie.
    """
    folders: list[str] = []
    for option in ("index-url", *LIST_OPTIONS):
        value = options.get(option, [])
        for place in [value] if isinstance(value, str) else value:
            url = urlparse(place)
            if url.scheme not in ("", "file"):
                continue
            path = Path(unquote(url.path)).expanduser()
            if path.name == "simple":
                path = path.parent
            if path.is_absolute() and path.is_dir() and str(path) not in folders and path != Path("/"):
                folders.append(str(path))
    return folders
