# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What went wrong in an apt-get that had to run as a raw command, because its container has no Python yet."""

from __future__ import annotations

DOCUMENTATION = r"""
name: apt_problem
short_description: Explain the output of apt-get in one sentence
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Finds the line that tells in what C(apt-get) printed (stdout and stderr together, in the C locale), and turns it
    into one sentence that says what is wrong and what to do.
  - Where Python is there already, M(proxmox_gpu.training.apt_update) does so by itself.
positional: _input
options:
  _input:
    description: What apt printed.
    type: str
    required: true
  proxy:
    description: The proxy that apt used, so that its refusal can be told from that of the mirror.
    type: str
    default: ""
  mirror_variable:
    description: What to call the setting of the mirror.
    type: str
    default: the source files below /etc/apt
  proxy_variable:
    description: What to call the setting of the proxy.
    type: str
    default: the proxy settings below /etc/apt/apt.conf.d
"""

EXAMPLES = r"""
- name: Stop with the cause
  ansible.builtin.fail:
    msg: "{{ (apt_run.stdout | proxmox_gpu.training.apt_problem).sentence }}"
  when: apt_run.rc != 0
"""

RETURN = r"""
_value:
  description:
    - A dictionary with C(kind) (a word such as V(locked), V(unreachable), V(missing_key)), C(sentence), C(transient)
      (whether trying again later may help) and C(evidence) (apt's own line).
  type: dict
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ansible_collections.proxmox_gpu.training.plugins.module_utils._apt_errors import Context, explain


def apt_problem(
    output: str, proxy: str | None = None, mirror_variable: str | None = None, proxy_variable: str | None = None
) -> dict[str, Any]:
    """The problem as a dictionary; an output without any error line is a problem of kind "other" as well."""
    usual = Context()
    context = Context(proxy or "", mirror_variable or usual.mirror_variable, proxy_variable or usual.proxy_variable)
    problem = explain(str(output), context)
    if problem:
        return asdict(problem)
    last = next((line.strip() for line in reversed(str(output).splitlines()) if line.strip()), "nothing")
    return {
        "kind": "other",
        "sentence": f"apt-get failed and did not say why; the last it printed was: {last}",
        "transient": False,
        "evidence": last,
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"apt_problem": apt_problem}
