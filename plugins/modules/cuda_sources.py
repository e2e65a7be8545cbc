#!/usr/bin/python
# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_sources
short_description: Give NVIDIA's CUDA repository exactly one entry in apt's sources
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Writes one deb822 entry for the CUDA repository and takes every other entry for it out of apt's sight, whatever it
    is spelled like - one-line or deb822, C(http) or C(https), with or without a trailing slash, another C(Signed-By),
    another distribution's directory, a mirror, or what NVIDIA's "local installer" packages left.
  - A second entry with another C(Signed-By) stops apt for all repositories. That is what an old C(cuda.list) and the
    list file that C(cuda-keyring) brings do together.
  - All other lines of a file stay byte for byte. A file in which nothing is left is removed. Every changed file is
    copied below O(backup_directory) first.
  - Entries that are commented out or have C(Enabled) set to V(no) are left alone, since apt does not see them.
options:
  url:
    description: Address of the repository, up to the architecture.
    type: str
    required: true
  path:
    description: The file that holds the one entry. Its name has to end in C(.sources).
    type: path
    required: true
  signed_by:
    description: The keyring file that apt checks the repository against.
    type: path
    default: /usr/share/keyrings/cuda-archive-keyring.gpg
  mirrors:
    description:
      - Addresses below which an entry also counts as one for the CUDA repository.
      - NVIDIA's own host and every address with NVIDIA's path C(/compute/cuda/repos/) count anyway.
    type: list
    elements: str
    default: []
  apt_directory:
    description: Where apt keeps its configuration.
    type: path
    default: /etc/apt
  backup_directory:
    description: Where the previous files are kept, in a folder named by the time.
    type: path
    default: /var/backups/proxmox_gpu
attributes:
  check_mode:
    support: full
    description: Can run in check mode without changing anything.
  diff_mode:
    support: full
    description: Shows each file before and after; a login inside of an address is masked.
  idempotent:
    support: full
    description: A second run changes nothing.
  platform:
    support: full
    platforms: debian
    description: Systems that use apt.
seealso:
  - module: proxmox_gpu.training.cuda_keyring
  - module: proxmox_gpu.training.apt_update
"""

EXAMPLES = r"""
- name: Register the CUDA repository once
  proxmox_gpu.training.cuda_sources:
    url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/
    path: /etc/apt/sources.list.d/cuda-debian12-x86_64.sources
"""

RETURN = r"""
removed:
  description: The entries that were taken out, as they were.
  returned: always
  type: list
  elements: dict
  sample:
    - file: /etc/apt/sources.list.d/cuda.list
      format: list
      types: [deb]
      uri: http://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64
      suites: [/]
      components: []
      signed_by: null
      enabled: true
      line: 1
      last_line: 1
      options: {}
backups:
  description: Copies of the files that were changed.
  returned: when a file was changed
  type: list
  elements: str
  sample: [/var/backups/proxmox_gpu/20260401T093000/etc/apt/sources.list.d/cuda.list]
"""

import os
import re
import shutil
import tempfile
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils._apt_sources import format_of
from ansible_collections.proxmox_gpu.training.plugins.module_utils._cuda_sources_plan import Change, plan, stanza


def read_sources(apt_directory: str) -> dict[str, str]:
    """The texts of all files that apt reads, by path. Bytes that are no UTF-8 survive the round trip."""
    folder = os.path.join(apt_directory, "sources.list.d")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    paths = [os.path.join(apt_directory, "sources.list")] + [os.path.join(folder, name) for name in names]
    texts = {}
    for path in paths:
        if format_of(path) and os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                texts[path] = file.read()
    return texts


def back_up(change: Change, folder: str) -> str:
    """Copy a file below the folder, at the same path; only root may read it, since addresses may hold logins."""
    copy = os.path.join(folder, change.path.lstrip("/"))
    os.makedirs(os.path.dirname(copy), mode=0o700, exist_ok=True)
    shutil.copy2(change.path, copy)
    return copy


def apply(module: AnsibleModule, change: Change) -> None:
    if change.after is None:
        os.unlink(change.path)
        return
    folder = os.path.dirname(change.path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".")  # a name that apt does not read
    with open(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(change.after)
    if change.before is None:
        os.chmod(temporary, 0o644)
    module.atomic_move(temporary, change.path)


def shown(change: Change) -> dict[str, str]:
    """One file's diff, without the logins that addresses may carry."""

    def text(value: str | None) -> str:
        printable = (value or "").encode("utf-8", "replace").decode()
        return re.sub(r"(?<=://)[^/\s@]+@", "********@", printable)

    return {
        "before": text(change.before),
        "after": text(change.after),
        "before_header": change.path,
        "after_header": change.path if change.after is not None else "(removed)",
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "signed_by": {"type": "path", "default": "/usr/share/keyrings/cuda-archive-keyring.gpg"},
            "mirrors": {"type": "list", "elements": "str", "default": []},
            "apt_directory": {"type": "path", "default": "/etc/apt"},
            "backup_directory": {"type": "path", "default": "/var/backups/proxmox_gpu"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    if format_of(wanted["path"]) != "deb822":
        module.fail_json(msg=f"apt reads no file named {wanted['path']} as deb822; its name has to end in .sources")
    try:
        files = read_sources(wanted["apt_directory"])
        text = stanza(wanted["url"], wanted["signed_by"])
        changes = plan(files, wanted["path"], text, [wanted["url"], *wanted["mirrors"]])
        result: dict[str, t.Any] = {
            "changed": bool(changes),
            "removed": [entry.as_dict() for change in changes for entry in change.removed],
            "diff": [shown(change) for change in changes],
        }
        if changes and not module.check_mode:
            folder = os.path.join(wanted["backup_directory"], time.strftime("%Y%m%dT%H%M%S"))
            result["backups"] = [back_up(change, folder) for change in changes if change.before is not None]
            for change in changes:
                apply(module, change)
    except OSError as error:
        module.fail_json(msg=f"cannot rewrite apt's sources: {error.strerror}: {error.filename}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
