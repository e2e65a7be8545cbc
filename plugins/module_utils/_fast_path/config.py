# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: a model's config from a folder, a config.json, a dict, or a family name; no weights, no network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from .families import EXAMPLES

# Beyond what a layer of any model takes on one GPU; a typing mistake is nearer.
MOST_TOKENS = 1 << 24


class ConfigError(Exception):
    """The config cannot be had; the message is one sentence for the reader."""


def load(model: Any = None, family: str | None = None) -> dict[str, Any]:
    """The config dict. ``model`` wins; without it the small built-in model of ``family`` is used."""
    if model is None or model == "":
        name = family or "qwen3_5"
        if name not in EXAMPLES:
            raise ConfigError(f"No built-in model of family {name!r}; known are {', '.join(sorted(EXAMPLES))}.")
        return dict(EXAMPLES[name])
    if isinstance(model, Mapping):
        return dict(model)
    if not isinstance(model, (str, os.PathLike)):
        raise ConfigError(
            f"A model is a folder, a config.json, or the content of one as an object, not a {type(model).__name__}."
        )
    path = os.path.expanduser(os.fspath(model))
    if os.path.isdir(path):
        path = os.path.join(path, "config.json")
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except OSError as error:
        raise ConfigError(f"The model's config {path} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise ConfigError(f"The model's config {path} is nested too deeply for a config.") from None
    except ValueError as error:
        raise ConfigError(f"The model's config {path} is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise ConfigError(f"The model's config {path} holds a {type(found).__name__}, not an object.")
    return found


def lengths(values: Iterable[Any]) -> list[int]:
    """The sequence lengths to time, each once. Raises ConfigError for none, or one that is no number of tokens."""
    found = []
    for value in values:
        try:
            tokens = int(value)
        except (TypeError, ValueError):
            tokens = 0
        if not 1 <= tokens <= MOST_TOKENS:
            raise ConfigError(f"A sequence length is a number of tokens from 1 to {MOST_TOKENS}, not {value!r}.")
        found.append(tokens)
    if not found:
        raise ConfigError("At least one sequence length is needed.")
    return list(dict.fromkeys(found))
