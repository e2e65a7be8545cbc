#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: training_lock
short_description: Write down the exact set that a training host was found good with
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Makes the lock file from the facts of M(proxmox_gpu.training.chain_info) - versions, holds, the fingerprint of the
    repository's key, each extension's wheel key and the checksums of its compiled modules, the compiler, what each
    function is bound to, and the figures of the proof.
  - Nothing in the file moves by itself. A host that did not change keeps its file, and drift is a comparison with it.
  - The figures and the time of the first proof stay while the GPU, its driver and the packages that take part are the
    same, so that a slow-down is measured against them.
options:
  facts:
    description: RV(proxmox_gpu.training.chain_info#module:facts), observed for all links.
    type: dict
    required: true
  path:
    description: The lock file.
    type: path
    default: /etc/proxmox_gpu/training.lock.json
  backup:
    description:
      - Keep a lock that is replaced in C(/var/backups/proxmox_gpu), with the time in its name.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Can run in check mode without writing the file.
  diff_mode:
    support: full
    description: Shows the file before and after.
  idempotent:
    support: full
    description: The same facts give the same file.
seealso:
  - module: proxmox_gpu.training.chain_info
"""

EXAMPLES = r"""
- name: Look at the whole chain
  proxmox_gpu.training.chain_info:
  register: chain

- name: Lock what is good
  proxmox_gpu.training.training_lock:
    facts: "{{ chain.facts }}"
  when: chain.links.binding.holds
"""

RETURN = r"""
path:
  description: The lock file.
  type: str
  returned: success
  sample: /etc/proxmox_gpu/training.lock.json
backup_file:
  description: Where the lock that was replaced is kept.
  type: str
  returned: O(backup) and a lock was replaced
  sample: /var/backups/proxmox_gpu/training.lock.json.2026-11-30T020000
differences:
  description: What differs from the lock that was there, one line a value. Empty for the first lock.
  type: list
  elements: str
  returned: success
  sample:
    - "torch.version: 2.11.0+cu130 -> 2.14.1+cu130"
"""

import hashlib
import os
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _training_lock as lock_of


def read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


def checksum(path: str) -> str | None:
    """SHA-256 of a file; None when it is gone."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except FileNotFoundError:
        return None
    return digest.hexdigest()


def write(module: AnsibleModule, path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    module.atomic_move(temporary, path, unsafe_writes=False)


BACKUPS = "/var/backups/proxmox_gpu"


def keep(module: AnsibleModule, path: str, text: str) -> str:
    """Keep the lock that is about to be replaced; returns where."""
    kept = f"{BACKUPS}/{os.path.basename(path)}.{time.strftime('%Y-%m-%dT%H%M%S')}"
    write(module, kept, text)
    return kept


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "facts": {"type": "dict", "required": True},
            "path": {"type": "path", "default": "/etc/proxmox_gpu/training.lock.json"},
            "backup": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    facts, path = module.params["facts"], module.params["path"]
    kept = None
    try:
        before = read(path)
        sums = {file: checksum(file) for file in lock_of.compiled_modules(facts)}
        lock = lock_of.content(facts, {k: v for k, v in sums.items() if v}, lock_of.read(before))
        after = lock_of.text(lock)
        if before != after and not module.check_mode:
            if before is not None and module.params["backup"]:
                kept = keep(module, path, before)
            write(module, path, after)
    except lock_of.NotLockable as refusal:
        module.fail_json(msg=str(refusal))
    except OSError as error:
        module.fail_json(msg=f"The lock {path} cannot be made: {error.strerror} ({error.filename}).")
    module.exit_json(
        changed=before != after,
        path=path,
        differences=lock_of.differences(lock_of.read(before), lock),
        diff={"before": before or "", "after": after, "before_header": path, "after_header": path},
        invocation={"module_args": {"path": path}},
        **({"backup_file": kept} if kept else {}),
    )


if __name__ == "__main__":
    main()
