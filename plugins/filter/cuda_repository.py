# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of NVIDIA's repositories a system needs, from the collection's own table."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cuda_repository
short_description: Tell which CUDA repository a system needs
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Looks the distribution and the machine up in the collection's table of NVIDIA's repositories.
positional: _input
options:
  _input:
    description:
      - The system, as RV(proxmox_gpu.training.chain_info#module:facts) has it under C(base) - C(os) with C(id),
        C(version_id) and C(pretty_name), and C(machine).
    type: dict
    required: true
  mirror:
    description: Address of the mirror, up to the distributions.
    type: str
    default: https://developer.download.nvidia.com/compute/cuda/repos
  directory:
    description: The distribution's directory, when it is to be another than the system's own.
    type: str
  keyring_version:
    description: Version of NVIDIA's keyring package.
    type: str
    default: 1.1-1
"""

EXAMPLES = r"""
- name: Show the address of the repository
  ansible.builtin.debug:
    msg: "{{ (chain.facts.base | proxmox_gpu.training.cuda_repository).url }}"
"""

RETURN = r"""
_value:
  description:
    - A dictionary with C(error) (a sentence for a system that the table does not have, else V(null)), C(name) (such as
      V(debian12-x86_64)), C(url), C(keyring_url), C(keyring_sha256) (V(null) where it is not known) and
      C(fingerprints) of the keys that sign it.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.rules import base as base_rules
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.tables import distributions


def cuda_repository(
    base: dict[str, Any], mirror: str | None = None, directory: str | None = None, keyring_version: str = "1.1-1"
) -> dict[str, Any]:
    """See RETURN. A system counts as known also by its directory alone, if one is given."""
    release, machine = base.get("os") or {}, base.get("machine")
    row = distributions.distribution(release.get("id"), release.get("version_id"))
    url = distributions.repository_url(mirror, release.get("id"), release.get("version_id"), machine, directory)
    error = None
    if not distributions.architecture(machine):
        error = base_rules.UNSUPPORTED_MACHINE.sentence.format(machine=machine)
    elif not url or (not directory and not (row and row.supported)):
        error = base_rules.UNSUPPORTED_SYSTEM.sentence.format(
            system=release.get("pretty_name") or "a system without a name",
            supported=", ".join(distributions.supported()),
        )
    if error:
        return {"error": error}
    folder, arch = str(url).rstrip("/").rsplit("/", 2)[-2:]
    known = next((one for one in distributions.DISTRIBUTIONS.values() if one.directory == folder), None)
    return {
        "error": None,
        "name": f"{folder}-{arch}",
        "url": str(url),
        "keyring_url": f"{url}cuda-keyring_{keyring_version}_all.deb",
        # The table's checksums are those of 1.1-1.
        "keyring_sha256": known.keyrings.get(arch) if known and keyring_version == "1.1-1" else None,
        "fingerprints": list(known.keys) if known else [],
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cuda_repository": cuda_repository}
