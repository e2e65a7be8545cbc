# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.proxmox_gpu.training.plugins.filter.apt_problem import FilterModule

apt_problem = FilterModule().filters()["apt_problem"]


def test_the_caller_s_variables_are_named() -> None:
    output = "E: Failed to fetch http://m/x  Could not connect to p:1 (1.2.3.4). - connect (111: Connection refused)\n"
    problem = apt_problem(output, proxy="http://p:1", proxy_variable="bootstrap_http_proxy")
    assert (problem["kind"], problem["transient"]) == ("proxy", True)
    assert problem["sentence"].endswith("check bootstrap_http_proxy")


def test_what_apt_does_not_explain_is_quoted() -> None:
    problem = apt_problem("Reading package lists...\nKilled\n\n")
    assert problem["kind"] == "other"
    assert problem["sentence"].endswith("the last it printed was: Killed")
    assert apt_problem("")["sentence"].endswith("nothing")
