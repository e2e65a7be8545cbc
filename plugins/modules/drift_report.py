#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_report
short_description: Report on the drift of a fleet, and keep the history of its nights
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Makes one document from the results of M(proxmox_gpu.training.drift_info) and the nights before, and from it a line
    a drift on the terminal, and the files C(report.json), C(report.html), C(report.md), C(report.txt),
    C(report.xml) (JUnit) and C(report.prom) (Prometheus).
  - Works on the control node alone. Its files are written whole or not at all, and do not count as a change.
options:
  hosts:
    description:
      - Results of M(proxmox_gpu.training.drift_info) by host name. A host whose result has no verdict is unknown.
      - Mutually exclusive with O(told). One of the two is required.
    type: dict
  told:
    description:
      - The list C(open) in RV(news) of a report that a person was told of, so that nobody is told of the same again.
    type: list
    elements: str
  state_path:
    description:
      - Folder on the control node for the reports and the history.
    type: path
    required: true
  keep_days:
    description:
      - Days after which a night is dropped from the history.
    type: int
    default: 400
  prometheus_path:
    description:
      - Also write the metrics to this file, such as one in node_exporter's textfile folder.
    type: path
  display:
    description:
      - Print the report.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Can run in check mode, where no file is written.
  diff_mode:
    support: none
    description: Shows what changed. This changes nothing.
  action:
    support: full
    description: Runs on the control node.
seealso:
  - module: proxmox_gpu.training.drift_info
"""

EXAMPLES = r"""
- name: Report on all hosts
  proxmox_gpu.training.drift_report:
    hosts: "{{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'found'))) }}"
    state_path: /var/lib/proxmox_gpu/drift
  register: report
  run_once: true
"""

RETURN = r"""
verdict:
  description: The worst result of the fleet.
  type: str
  returned: O(hosts)
  sample: drift
exit:
  description: The exit status of the nightly command - 0 ok, 2 drift, 3 unknown, 4 not provisioned.
  type: int
  returned: O(hosts)
  sample: 2
headline:
  description: One sentence on the fleet.
  type: str
  returned: O(hosts)
  sample: "12 hosts: 2 drifted (ct201, ct204), 10 ok."
drifted:
  description: The hosts that drifted.
  type: list
  elements: str
  returned: O(hosts)
news:
  description: What nobody was told of yet.
  type: dict
  returned: O(hosts)
  contains:
    changed:
      description: Whether there is any.
      type: bool
    appeared:
      description: The lines that appeared, each with its host.
      type: list
      elements: dict
    gone:
      description: How many lines that somebody was told of are gone.
      type: int
    text:
      description: The report as the terminal shows it.
      type: str
    open:
      description: What O(told) has to remember.
      type: list
      elements: str
path:
  description: The folder of the reports.
  type: str
  returned: O(hosts)
"""
