# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bare container has after role bootstrap: all that the next links need of the operating system."""

from __future__ import annotations

import pytest
from testinfra.host import Host


@pytest.mark.parametrize("module", ["apt", "venv", "ensurepip", "ssl"])
def test_python_has_the_module(host: Host, module: str) -> None:
    assert host.run(f"/usr/bin/python3 -c 'import {module}'").rc == 0


def test_python_can_compile_against_its_headers(host: Host) -> None:
    header = host.check_output("python3 -c 'import sysconfig; print(sysconfig.get_path(\"include\"))'") + "/Python.h"
    assert host.run(f"gcc -fsyntax-only -I {header.removesuffix('/Python.h')} {header}").rc == 0


def test_certificate_authorities_are_trusted(host: Host) -> None:
    count = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    assert int(host.check_output(f"python3 -c '{count}'")) > 100


def test_an_unprivileged_user_can_be_become(host: Host) -> None:
    assert host.run("touch /tmp/acl && setfacl -m u:nobody:r /tmp/acl && rm /tmp/acl").rc == 0


def test_every_package_is_configured(host: Host) -> None:
    assert host.check_output("dpkg --audit") == ""
