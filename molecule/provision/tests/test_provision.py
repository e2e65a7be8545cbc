# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After playbooks/provision.yml the container is a training host, and says so in its lock."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

PYTHON = "/opt/training/bin/python"


def test_the_compiled_extension_imports(host: Host) -> None:
    assert host.run(f"{PYTHON} -c 'import torch, tiny_gpu_ops_cuda'").rc == 0


def test_the_extension_carries_its_key(host: Host) -> None:
    found = host.check_output("find /opt/training -path '*tiny_gpu_ops-1.0.dist-info/proxmox_gpu.json'")
    assert json.loads(host.file(found).content_string)["key"]["torch"].startswith("2.14.1")


def test_torch_did_not_move(host: Host) -> None:
    version = host.check_output(f"{PYTHON} -c 'import torch; print(torch.__version__, torch.version.cuda)'")
    assert version == "2.14.1+cu130 13.0"


def test_the_environment_is_consistent(host: Host) -> None:
    assert host.check_output(f"{PYTHON} -m pip check") == "No broken requirements found."


@pytest.mark.parametrize("key", ["torch", "toolkit", "extensions", "repository"])
def test_the_lock_names_what_was_found_good(host: Host, key: str) -> None:
    assert key in json.loads(host.file("/etc/proxmox_gpu/training.lock.json").content_string)


def test_no_driver_package_is_there(host: Host) -> None:
    installed = host.check_output("dpkg-query --show --showformat '${Package}\\n'").splitlines()
    assert [name for name in installed if name.startswith(("nvidia-driver", "cuda-drivers", "libnvidia-"))] == []
