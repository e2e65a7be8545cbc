#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: chain_report
short_description: Print what chain_info found
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Prints one table a host on the terminal, with one line a link, the cause, what it costs, and the command to run; or
    the same as JSON or Markdown.
  - Works on the control node alone and looks at nothing but what it is given.
options:
  chain:
    description:
      - The result of M(proxmox_gpu.training.chain_info) for this host.
      - Mutually exclusive with O(fleet). One of the two is required.
    type: dict
  fleet:
    description:
      - Results by host name, to report on all of them at once. As V(table) this prints one line for the whole fleet.
    type: dict
  format:
    description: How the report looks.
    type: str
    choices: [table, json, markdown]
    default: table
  path:
    description:
      - Also write the report to this file on the control node. A V(table) is written whole, without colour.
    type: path
  display:
    description: Print the report.
    type: bool
    default: true
  fail_on:
    description:
      - Fail the task when the verdict is one of these states, with the cause and its remedy as the message.
    type: list
    elements: str
    choices: [ok, not_applicable, unknown, drifted, absent, broken]
    default: []
attributes:
  check_mode:
    description: Prints as otherwise and writes no file.
    support: full
  diff_mode:
    description: Shows what changed.
    support: none
  action:
    description: The whole work is done by an action plugin on the control node.
    support: full
seealso:
  - module: proxmox_gpu.training.chain_info
"""

EXAMPLES = r"""
- name: Look at the chain
  proxmox_gpu.training.chain_info:
  register: chain

- name: Print it
  proxmox_gpu.training.chain_report:
    chain: "{{ chain }}"

- name: Fail unless everything holds
  proxmox_gpu.training.chain_report:
    chain: "{{ chain }}"
    display: false
    fail_on: [broken, absent, drifted, unknown]

- name: Keep a report of all hosts
  proxmox_gpu.training.chain_report:
    fleet: "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'chain'))) }}"
    format: markdown
    path: reports/training.md
  run_once: true
"""

RETURN = r"""
summary:
  description: One line for all hosts.
  type: str
  returned: always
  sample: "2 hosts: 1 ok, 1 absent (repository.absent: ct200)"
"""
