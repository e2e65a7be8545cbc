# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wishes: from variables, else from the roles' own defaults; and what is shown of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _wishes


@pytest.fixture
def roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two roles of a collection that lies elsewhere."""
    texts = {
        "torch_environment": "torch_environment_path: /opt/training\ntorch_environment_torch: 2.14.1\n",
        "fast_path": 'fast_path_log: "{{ torch_environment_path }}/log"\nfast_path_environment: {}\n__private: 1\n',
    }
    for role, text in texts.items():
        defaults = tmp_path / "roles" / role / "defaults" / "main.yml"
        defaults.parent.mkdir(parents=True)
        defaults.write_text(f"---\n{text}")
    monkeypatch.setattr(_wishes, "COLLECTION", tmp_path)
    return tmp_path


def wished(variables: Mapping[str, Any]) -> dict[str, Any]:
    loader = DataLoader()

    def template(value: Any, known: Mapping[str, Any]) -> Any:
        return Templar(loader, dict(known)).template(value)

    return _wishes.wishes(loader, variables, template)


def test_defaults_are_read_as_data_and_rendered(roles: Path) -> None:
    desired = wished({})
    assert desired["torch_environment"] == {"path": "/opt/training", "torch": "2.14.1"}
    assert desired["fast_path"] == {"log": "/opt/training/log", "environment": {}}
    assert desired["explicit"] == []


def test_a_variable_that_is_set_wins_also_in_other_defaults(roles: Path) -> None:
    desired = wished({"torch_environment_path": "/srv/env", "ansible_host": "x"})
    assert desired["torch_environment"]["path"] == "/srv/env"
    assert desired["fast_path"]["log"] == "/srv/env/log"
    assert desired["explicit"] == ["torch_environment_path"]


def test_files_of_bootstrap_follow_from_its_variables(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    files = _wishes.bootstrap_files({"ca_certificates": [str(pem)], "http_proxy": "http://p:1"})
    assert [name.startswith("proxmox-gpu-") for name in files["certificates"]] == [True]
    assert 'Acquire::http::Proxy "http://p:1";' in files["proxy"]
    assert _wishes.bootstrap_files({"ca_certificates": ["/no/such.pem"]}) == {"certificates": None, "proxy": ""}


def test_role_that_is_not_there_has_no_wishes(roles: Path) -> None:
    assert wished({})["gpu_passthrough"] == {}


def test_variable_that_cannot_be_rendered_is_an_error(roles: Path) -> None:
    from ansible.template import trust_as_template

    with pytest.raises(AnsibleError):
        wished({"torch_environment_path": trust_as_template("{{ no_such_variable }}")})


def test_every_role_of_the_collection_renders_its_defaults() -> None:
    desired = wished({})
    assert set(_wishes.ROLES) <= set(desired)


def test_what_the_module_is_told() -> None:
    desired: dict[str, Any] = {role: {} for role in _wishes.ROLES}
    desired["cuda_extensions"] = {"wanted": [{"name": "causal-conv1d", "version": "1.7.0"}, "mamba-ssm"]}
    desired["torch_environment"] = {"path": "/opt/training"}
    told = _wishes.for_module(desired)
    assert told["extensions"] == ["causal-conv1d", "mamba-ssm"]
    assert told["environment_path"] == "/opt/training"


MATH = ["libcublas-dev", "libcusparse-dev", "libcusolver-dev"]


@pytest.mark.parametrize(
    ("toolkit", "fields", "wanted"),
    [
        ({}, {}, []),
        ({"math_libraries": "auto"}, {"math_headers": True}, MATH),
        ({"math_libraries": False}, {"math_headers": True}, []),
        ({"math_libraries": True, "extra_packages": ["libcurand-dev"]}, {}, [*MATH, "libcurand-dev"]),
        ({}, {"no_such_field": 1}, []),
    ],
)
def test_packages_beside_the_compiler(toolkit: dict[str, Any], fields: dict[str, Any], wanted: list[str]) -> None:
    extensions = {"wanted": [{"name": "x", "compiled": ["x"], **fields}]}
    assert _wishes.beside_compiler(toolkit, extensions) == wanted


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"proxy": "http://me:pw@proxy.lan:3128"}, {"proxy": "http://***@proxy.lan:3128"}),
        ({"environment": {"HF_TOKEN": "abc", "CUDA_VISIBLE_DEVICES": "0"}},
         {"environment": {"HF_TOKEN": "(not shown)", "CUDA_VISIBLE_DEVICES": "0"}}),
        ({"urls": ["https://t@index.lan/simple"]}, {"urls": ["https://***@index.lan/simple"]}),
        ({"key_fingerprints": ["AB12"], "n": 3}, {"key_fingerprints": ["AB12"], "n": 3}),
    ],
)  # fmt: skip
def test_secrets_are_not_shown(value: Any, shown: Any) -> None:
    assert _wishes.without_secrets(value) == shown
