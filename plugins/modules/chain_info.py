#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: chain_info
short_description: Observe and judge the chain that makes training fast
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Looks at a training container in one read-only call, compares what it finds with what the roles' variables wish
    for, and says of each link of the chain whether it holds.
  - The links are V(reach), V(base), V(gpu), V(torch), V(repository), V(toolkit), V(compiler), V(extensions),
    V(binding) and V(proof). The first one that does not hold is the cause; later ones that follow from it are marked.
  - A container that cannot be reached, or that has no python3, is a finding and not an error, so that other hosts of
    the same play go on.
  - The wishes come from the public variables of the collection's roles, set anywhere where Ansible knows them; what is
    not set counts with the role's own default.
options:
  links:
    description:
      - The links to judge. V(all), the default, means all ten.
      - The facts of other links that these ones are judged by are observed as well.
    type: list
    elements: str
    default: [all]
  network:
    description:
      - Also let apt ask the CUDA repository, in a folder that is deleted afterwards, and say what stopped it (a mirror
        that is down, a proxy that wants a login, a certificate). Nothing else leaves the container, and without this
        nothing does.
    type: bool
    default: false
  timeout:
    description:
      - Seconds that the training interpreter may take to say what a model's functions are bound to.
    type: float
    default: 120
  root:
    description:
      - The folder that is looked at as C(/), for a mounted container or a test.
    type: path
    default: /
  proc_path:
    description:
      - Where the kernel's files are, among them C(driver/nvidia/version).
    type: path
    default: /proc
  dev_path:
    description:
      - Where the device nodes are.
    type: path
    default: /dev
  wishes:
    description:
      - Filled in by the action plugin from the roles' variables. Do not set it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Can run in check mode and return what it returns otherwise.
    support: full
  diff_mode:
    description: Shows what changed. This changes nothing.
    support: none
  action:
    description: An action plugin on the control node builds the wishes and judges.
    support: full
seealso:
  - module: proxmox_gpu.training.chain_report
"""

EXAMPLES = r"""
- name: Look at the whole chain
  proxmox_gpu.training.chain_info:
  register: chain

- name: Say what is wrong first
  ansible.builtin.debug:
    msg: "{{ chain.cause.sentence }} Run: {{ chain.cause.remedy }}"
  when: chain.cause is not none

- name: Ask for one link alone
  proxmox_gpu.training.chain_info:
    links: [repository]
  register: chain

- name: Register the repository when it is not registered rightly
  ansible.builtin.include_role:
    name: proxmox_gpu.training.cuda_repository
  when: not chain.links.repository.holds
"""

RETURN = r"""
facts:
  description: What was observed, one dictionary a link; C(error) in one of them says why it could not be.
  type: dict
  returned: always
  sample:
    torch:
      path: /opt/training
      version: 2.14.1+cu130
      cuda: "13.0"
desired:
  description:
    - The wishes by role, each variable without its role's name; its entry C(explicit) names those that were set.
  type: dict
  returned: always
  sample:
    cuda_toolkit:
      policy: same_major
    explicit: [torch_environment_path]
findings:
  description: What was judged, in the order of the chain.
  type: list
  elements: dict
  returned: always
  contains:
    id:
      description: The stable name in the error catalogue.
      type: str
    link:
      description: The link.
      type: str
    state:
      description: One of V(ok), V(broken), V(drifted), V(absent), V(unknown), V(not_applicable).
      type: str
    sentence:
      description: What is wrong and what it costs.
      type: str
    expected:
      description: What should be there.
      type: str
    observed:
      description: What is there.
      type: str
    evidence:
      description: The file or command to look at.
      type: str
    remedy:
      description: What to run.
      type: str
    consequence_of:
      description: The earlier link that explains this finding.
      type: str
links:
  description: One entry a link, with its state, its sentence, the finding's id, and whether it holds.
  type: dict
  returned: always
  sample:
    repository:
      state: absent
      holds: false
      id: repository.absent
      sentence: NVIDIA's CUDA repository is not registered with apt.
cause:
  description: The first finding that does not hold; null when all hold.
  type: dict
  returned: always
verdict:
  description: The worst state of all links.
  type: str
  returned: always
  sample: absent
pending:
  description:
    - The links that a provision has to look after, in the order of the chain. These are the ones that do not hold and
      the later ones that rest on them, without what no role can repair.
  type: list
  elements: str
  returned: always
  sample: [repository, toolkit, compiler, extensions, binding]
cost:
  description: What the trouble costs in layers of the model; null when nothing is slow or nothing is known.
  type: str
  returned: always
  sample: 48 of 64 layers run on the PyTorch fallback
seconds:
  description: How long each link's observation took in the container.
  type: dict
  returned: when the container answered
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.observation import observe


class QuietModule(AnsibleModule):
    """Does not write its arguments to the container's system log: the wishes may hold a job's environment."""

    def _log_invocation(self) -> None:
        pass


def main() -> None:
    module = QuietModule(
        argument_spec={
            "links": {"type": "list", "elements": "str", "default": ["all"]},
            "network": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 120},
            "root": {"type": "path", "default": "/"},
            "proc_path": {"type": "path", "default": "/proc"},
            "dev_path": {"type": "path", "default": "/dev"},
            "wishes": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    asked = module.params
    wishes = {**asked["wishes"], "network": asked["network"], "timeout": asked["timeout"]}
    host = Host(asked["root"], asked["proc_path"], asked["dev_path"])
    facts, seconds = observe(host, asked["links"], wishes)
    module.exit_json(changed=False, facts=facts, seconds=seconds)


if __name__ == "__main__":
    main()
