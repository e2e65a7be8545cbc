#!/usr/bin/python
# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wheelhouse
short_description: Clean up a wheelhouse of built CUDA extensions
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Removes wheels that were not used for long, or that are of a key nobody wants any more, with their manifests.
  - What a builder that died left a day ago, half-written or without a manifest, goes as well.
  - Nothing else in the folder is touched.
options:
  path:
    description: The wheelhouse, a folder.
    type: path
    default: ~/.cache/proxmox_gpu/wheelhouse
  unused_days:
    description: Remove wheels that were neither built nor installed for this many days.
    type: int
  keys:
    description: Remove the wheels of these keys, by their digest, which is in a wheel's name after C(0k).
    type: list
    elements: str
    default: []
  torch:
    description: Remove the wheels for these versions of torch, such as V(2.13.0+cu130).
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
    description: Says what would be removed.
  diff_mode:
    support: none
    description: The removed wheels are in RV(removed).
  idempotent:
    support: full
    description: Does nothing when there is nothing to remove.
  platform:
    support: full
    platforms: posix
    description: Wherever the folder lies, which is the control node for the one that containers share.
seealso:
  - module: proxmox_gpu.training.cuda_extension
"""

EXAMPLES = r"""
- name: Remove what was not used for three months from the control node's wheelhouse
  proxmox_gpu.training.wheelhouse:
    unused_days: 90
  delegate_to: localhost
  run_once: true

- name: Remove the wheels for a torch that no container has any more
  proxmox_gpu.training.wheelhouse:
    torch: [2.13.0+cu130]
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
removed:
  description: The wheels that were removed, or would be.
  returned: success
  type: list
  elements: str
kept:
  description: The wheels that are there now, each with the digest of its key.
  returned: success
  type: dict
"""

import os
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "~/.cache/proxmox_gpu/wheelhouse"},
            "unused_days": {"type": "int"},
            "keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "torch": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    house, days = module.params["path"], module.params["unused_days"]
    keys = {digest.replace("0k", "", 1) if digest.startswith("0k") else digest for digest in module.params["keys"]}

    def unwanted(manifest: dict[str, t.Any]) -> bool:
        return (manifest.get("key") or {}).get("torch") in module.params["torch"]

    def of_key(path: str) -> bool:
        return os.path.basename(path)[: -len(".json")] in keys

    if not os.path.isdir(house):
        module.warn(f"{house} is no folder, so there is nothing to clean up")
    before = time.time() - days * 86400 if days is not None else None
    try:
        removed = _wheelhouse.prune(house, before, unwanted, of_key, dry=module.check_mode)
        kept = {
            str(manifest.get("wheel")): os.path.basename(path)[: -len(".json")]
            for path, manifest in _wheelhouse.manifests(house)
        }
    except OSError as error:
        module.fail_json(msg=f"The wheelhouse {house} cannot be cleaned up: {error.strerror}: {error.filename}")
    gone = {os.path.basename(path) for path in removed}
    module.exit_json(
        changed=bool(removed), removed=removed, kept={wheel: key for wheel, key in kept.items() if wheel not in gone}
    )


if __name__ == "__main__":
    main()
