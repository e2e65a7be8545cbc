#!/usr/bin/python
# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: python_environment
short_description: Provide a Python environment with torch in which nothing moves unasked
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Makes a virtual environment, or uses one that is there, and installs torch and other packages at wished versions.
  - Adding one package never moves another. While the installer resolves, everything that is installed is pinned; a
    package whose requirements contradict that is refused by name, and the versions are compared afterwards.
  - A torch that is there is not moved unless O(replace_torch) says so, since whatever was built against it would no
    longer load.
  - The pins are kept in C(constraints.txt) of the environment and named in its C(pip.conf), so that a C(pip install) by
    hand does not move them either.
  - An installation that was interrupted is finished. Two at once are kept apart.
  - What an installed package needs and somebody took away is put back, and so are libraries of torch and of what it is
    pinned to that are gone or cut short, as after a full disk.
options:
  path:
    description: The environment.
    type: path
    required: true
  python:
    description: The interpreter that makes a new environment.
    type: str
    default: python3
  torch:
    description: The wished version of torch, such as V(2.14.1), or clauses such as V(>=2.13,<2.15).
    type: str
    required: true
  packages:
    description:
      - Other packages, each with its wished version, or clauses, or an empty text for any version.
      - A package with an empty text may move when another one needs it to.
    type: dict
    default: {}
  cpu_only:
    description: Whether a build of torch without CUDA is wanted.
    type: bool
    default: false
  replace_torch:
    description: Whether a torch that is there may be replaced when it is another one than the wished.
    type: bool
    default: false
  keep_installed:
    description:
      - Whether a package that is installed is a good one whatever its version, so that O(packages) names versions for
        missing ones alone.
    type: bool
    default: false
  installer:
    description: The program that installs. V(uv) is installed into the environment if it is missing there.
    type: str
    choices: [pip, uv]
    default: pip
  index_url:
    description: The package index, instead of PyPI.
    type: str
  extra_index_urls:
    description: More package indexes.
    type: list
    elements: str
    default: []
  find_links:
    description: Folders or pages with wheels.
    type: list
    elements: str
    default: []
  constraints:
    description: More lines for the constraint file.
    type: list
    elements: str
    default: []
  ca_bundle:
    description: The file with the authorities that are trusted.
    type: path
  timeout:
    description: Seconds after which the installation is stopped.
    type: int
    default: 3600
  minimum_free_bytes:
    description: Bytes that have to be free when torch is installed.
    type: int
    default: 0
  log_path:
    description: The installer's log.
    type: path
    default: /var/log/proxmox_gpu/torch_environment.log
attributes:
  check_mode:
    support: full
    description: Can run in check mode without changing anything; nothing is resolved or downloaded then.
  diff_mode:
    support: full
    description: Shows the versions before and after, in check mode the wished ones.
  idempotent:
    support: full
    description: A second run changes nothing.
"""

EXAMPLES = r"""
- name: Provide the training environment
  proxmox_gpu.training.python_environment:
    path: /opt/training
    torch: 2.14.1
    packages:
      transformers: 5.17.0
      flash-linear-attention: 0.5.2
"""

RETURN = r"""
requirements:
  description: What was handed to the installer.
  returned: success
  type: list
  elements: str
  sample: [transformers==5.17.0]
versions:
  description: The distributions in the environment after the run, by normalised name.
  returned: success and not in check mode
  type: dict
  sample: {torch: 2.14.1, transformers: 5.17.0}
transient:
  description: Whether trying again later may help.
  returned: failure
  type: bool
  sample: false
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils._environment_install import (
    Environment,
    Refused,
    Settings,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._environment_plan import Plan, Wish, plan
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pip_sources import Sources


def shown(path: str, before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """The versions that differ, a line each."""
    names = sorted(name for name in set(before) | set(after) if before.get(name) != after.get(name))
    return {
        "before": "".join(f"{name}=={before[name]}\n" for name in names if name in before),
        "after": "".join(f"{name}=={after[name]}\n" for name in names if name in after),
        "before_header": path,
        "after_header": path,
    }


def promised(path: str, before: dict[str, str], wanted: Plan) -> dict[str, str]:
    """What check mode can tell without resolving: the requirements, and what they would replace."""
    names = {one.split("=")[0].split(">")[0].split("<")[0].split("~")[0].split("!")[0] for one in wanted.requirements}
    return {
        "before": "".join(f"{name}=={version}\n" for name, version in sorted(before.items()) if name in names),
        "after": "".join(f"{one}\n" for one in wanted.requirements),
        "before_header": path,
        "after_header": path,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "python": {"type": "str", "default": "python3"},
            "torch": {"type": "str", "required": True},
            "packages": {"type": "dict", "default": {}},
            "cpu_only": {"type": "bool", "default": False},
            "replace_torch": {"type": "bool", "default": False},
            "keep_installed": {"type": "bool", "default": False},
            "installer": {"type": "str", "choices": ["pip", "uv"], "default": "pip"},
            "index_url": {"type": "str"},
            "extra_index_urls": {"type": "list", "elements": "str", "default": []},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "constraints": {"type": "list", "elements": "str", "default": []},
            "ca_bundle": {"type": "path"},
            "timeout": {"type": "int", "default": 3600},
            "minimum_free_bytes": {"type": "int", "default": 0},
            "log_path": {"type": "path", "default": "/var/log/proxmox_gpu/torch_environment.log"},
        },
        supports_check_mode=True,
    )
    given = module.params
    settings = Settings(
        installer=given["installer"],
        sources=Sources.of(given),
        constraints=tuple(given["constraints"]),
        ca_bundle=given["ca_bundle"],
        timeout=given["timeout"],
        minimum_free_bytes=given["minimum_free_bytes"],
        log_path=given["log_path"],
    )
    packages = {name: str(version if version is not None else "") for name, version in given["packages"].items()}
    wish = Wish(given["torch"], packages, given["cpu_only"], given["replace_torch"], given["keep_installed"])
    environment = Environment(given["path"].rstrip("/"), given["python"], settings)
    try:
        before, torch = environment.observe()
        wanted = plan(before, torch, wish, environment.lacking(before))
        if wanted.refused:
            raise Refused(wanted.refused.format(path=environment.path))
        to_do = bool(wanted.requirements) or environment.unfinished()
        result: dict[str, t.Any] = {"changed": to_do, "requirements": list(wanted.requirements)}
        if module.check_mode:
            result["diff"] = promised(environment.path, before, wanted)
        else:
            after = environment.install(wanted, before) if to_do else before
            result.update(versions=after, diff=shown(environment.path, before, after))
    except Refused as refusal:
        module.fail_json(msg=str(refusal), transient=refusal.transient)
    except OSError as error:
        problem = f"cannot install into {environment.path}: {error.strerror}: {error.filename}"
        module.fail_json(msg=problem, transient=False)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
