# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path.config import ConfigError, lengths, load


def test_a_folder_a_file_and_a_dict_are_the_same(tmp_path: Path) -> None:
    config = {"model_type": "mamba2", "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load(str(tmp_path)) == load(str(tmp_path / "config.json")) == load(config) == config


def test_without_a_model_the_family_speaks() -> None:
    assert load(None, "falcon_h1")["model_type"] == "falcon_h1"
    assert load("", None)["model_type"] == "qwen3_5_text"


def test_a_loaded_example_can_be_changed_without_harm() -> None:
    load(None, "mamba")["num_hidden_layers"] = 1
    assert load(None, "mamba")["num_hidden_layers"] == 8


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read: No such file or directory."),
        ("{", "is not JSON: "),
        ("[1]", "holds a list, not an object."),
        ("\xff", "is not JSON: "),
    ],
)
def test_a_bad_config_is_one_sentence_with_its_path(tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=str(tmp_path)) as caught:
        load(str(tmp_path))
    assert sentence in str(caught.value)


@pytest.mark.parametrize("model", [[1], 5, 2.5, True])
def test_a_model_that_is_no_place_and_no_object_is_refused(model: Any) -> None:
    with pytest.raises(ConfigError, match="a folder, a config.json, or the content of one as an object, not a "):
        load(model)


def test_a_config_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[" * 200_000)
    with pytest.raises(ConfigError, match="is nested too deeply"):
        load(str(tmp_path))


def test_each_length_once() -> None:
    assert lengths(["64", 128, "64"]) == [64, 128]


@pytest.mark.parametrize("values", [[], [0], [-5], ["long"], [10**14], [None]])
def test_lengths_are_positive_numbers_that_fit(values: list[Any]) -> None:
    with pytest.raises(ConfigError, match="sequence length"):
        lengths(values)


def test_an_unknown_family_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'gpt2'; known are bamba, .*qwen3_5"):
        load(None, "gpt2")
