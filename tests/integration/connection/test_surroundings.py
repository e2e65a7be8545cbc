# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a command finds itself in a container, and which container that is."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleError

from tests.integration.box import Box, Container
from tests.integration.connection.link import VMID, Link

pytestmark = pytest.mark.timeout(600)


def test_the_environment_is_ours_alone(link: Link) -> None:
    lines = set(link.out("env").decode().splitlines())
    assert lines == {
        "HOME=/root",
        "USER=root",
        "LOGNAME=root",
        "SHELL=/bin/sh",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG=C.UTF-8",
        "TERM=dumb",
        "PWD=/root",  # the shell's own
    }


def test_who_where_and_with_which_umask(link: Link) -> None:
    assert link.out("id -u; pwd; umask; echo ~").split() == [b"0", b"/root", b"0022", b"/root"]


def test_home_is_the_containers_and_not_the_logins(box: Box, connect: Any) -> None:
    container = box.container(VMID + 1).fresh()
    try:
        container.run("mkdir /srv/home && sed -i 's#^root:.*#root:x:0:0:root:/srv/home:/bin/sh#' /etc/passwd")
        assert connect(container.vmid, pct_runner=False).out("echo $HOME; pwd").split() == [b"/srv/home"] * 2
    finally:
        box.testbed("remove", container.vmid)


@pytest.mark.parametrize("vmid", [VMID, str(VMID)])
def test_the_id_may_be_a_number_or_a_string(guest: Container, connect: Any, vmid: int | str) -> None:
    assert connect(vmid).out("hostname").strip().decode() == guest.run("hostname").strip()


def test_the_inventorys_other_variable_is_understood(guest: Container, connect: Any) -> None:
    one = connect(guest.vmid)
    one.plugin.set_options(var_options={"proxmox_vmid": VMID})
    assert one.plugin.vmid == VMID


@pytest.mark.parametrize("bad", ["220; touch /tmp/pct_exec_injected", "$(id)", "abc", "99", 0, True, "2 20", "１２３"])
def test_an_id_with_anything_but_digits_is_refused_by_name(guest: Container, connect: Any, bad: object) -> None:
    with pytest.raises(AnsibleError, match=r"from .*pct_vmid.*is not a container id"):
        connect(bad).sh("true")


def test_no_id_is_a_clear_error(guest: Container, connect: Any) -> None:
    with pytest.raises(AnsibleError, match="No container id"):
        connect("").sh("true")
