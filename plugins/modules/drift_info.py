#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_info
short_description: Compare a training host with the lock of its last good provision
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Looks at the whole chain in one call, as M(proxmox_gpu.training.chain_info) does, and says what moved since
    M(proxmox_gpu.training.training_lock) wrote the lock, and what does not fit the roles' variables any more.
  - The result is V(ok), V(drift), V(unknown) or V(not_provisioned). Whatever is wrong with a host is an answer and no
    failure, so that the other hosts of a play go on. Nothing on the host is changed.
  - On a host with a GPU the fast path is proven again once in a while, when nvidia-smi says that nobody computes.
options:
  state_path:
    description:
      - Folder on the control node, in which the last proof of each host is kept.
    type: path
    required: true
  network:
    description:
      - Also ask the CUDA repository whether it answers.
    type: bool
    default: true
  proof:
    description:
      - Whether the GPU may be used for a short proof. V(weekly) means when the last one is older than O(proof_days).
      - A GPU that is in use is left alone, and the host is V(unknown) until the proof that was due is made.
      - In check mode no proof is made.
    type: str
    choices: [never, weekly, always]
    default: weekly
  proof_days:
    description:
      - Days for which a proof counts.
    type: int
    default: 7
  proof_timeout:
    description:
      - Seconds after which a proof is stopped.
    type: float
    default: 600
  timeout:
    description:
      - Seconds that the training interpreter may take to say what a model's functions are bound to.
    type: float
    default: 120
  proc_path:
    description:
      - Where the kernel's files are.
    type: path
    default: /proc
  dev_path:
    description:
      - Where the device nodes are.
    type: path
    default: /dev
attributes:
  check_mode:
    support: full
    description: Can run in check mode, where no proof is made.
  diff_mode:
    support: none
    description: Shows what changed. This changes nothing.
  action:
    support: full
    description: An action plugin on the control node compares and judges.
seealso:
  - module: proxmox_gpu.training.drift_report
"""

EXAMPLES = r"""
- name: Compare this host with its lock
  proxmox_gpu.training.drift_info:
    state_path: /var/lib/proxmox_gpu/drift
  register: found

- name: Say what moved
  ansible.builtin.debug:
    msg: "{{ found.drift.lines | map(attribute='what') | join(', ') }}"
  when: found.drift.result == 'drift'
"""

RETURN = r"""
drift:
  description: The verdict on this host.
  type: dict
  returned: always
  contains:
    result:
      description: One of V(ok), V(drift), V(unknown), V(not_provisioned).
      type: str
    lines:
      description: One entry for each thing that moved or could not be told.
      type: list
      elements: dict
    links:
      description: State and sentence of each link.
      type: dict
    ratio:
      description: How many times as fast as the PyTorch reference the last good proof was.
      type: float
  sample:
    result: drift
    lines:
      - kind: drift
        link: toolkit
        what: hold of cuda-nvcc-13-0
        was: held
        is: not held
        remedy: ansible-playbook proxmox_gpu.training.provision -l ct201 --tags cuda_toolkit
"""
