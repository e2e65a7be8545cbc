#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_libraries
short_description: Give a container the driver libraries of its node's kernel module
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Runs in the container. The user-space libraries of NVIDIA's driver must equal the node's kernel module to the last
    digit.
  - Installs them from NVIDIA's runfile without its kernel module, or with apt at the exact version, which is then held.
  - Does nothing when they are equal, and refuses in a sentence where neither source has that version.
options:
  version:
    description:
      - Version of the node's kernel module that runs.
    type: str
    required: true
  on_disk:
    description:
      - Version of the module that the node's next boot loads, to tell a node that has to be rebooted from a container
        that was left behind.
    type: str
  source:
    description:
      - Where the libraries come from. V(auto) takes the runfile where one is given, else apt.
    type: str
    default: auto
    choices: [auto, runfile, apt]
  runfile:
    description:
      - NVIDIA's installer in the container.
    type: path
  timeout:
    description:
      - Seconds that the installation may take.
    type: int
    default: 900
attributes:
  check_mode:
    support: full
    description: Can run in check mode without installing anything.
  diff_mode:
    support: full
    description: Shows the version before and after.
  idempotent:
    support: full
    description: Libraries of the right version are left alone.
"""

EXAMPLES = r"""
- name: Give the container the node's driver libraries
  proxmox_gpu.training.gpu_libraries:
    version: 580.126.20
    runfile: /var/cache/proxmox_gpu/NVIDIA-Linux-x86_64-580.126.20.run
"""

RETURN = r"""
before:
  description: Versions that were there.
  type: list
  elements: str
  returned: success
  sample: [580.95.05]
source:
  description: Where they came from; null when they were right.
  type: str
  returned: success
  sample: runfile
needed:
  description: Whether libraries had to be installed.
  type: bool
  returned: success
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _gpu_libraries as libraries
from ansible_collections.proxmox_gpu.training.plugins.module_utils._gpu_libraries import LibraryError


class Libraries:
    """One run of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.version = module.params["version"]
        self.before = libraries.installed()

    def run(self) -> str | None:
        """The source they were installed from; None when they were right."""
        if self.before == [self.version]:
            return None
        reason = libraries.refuse(self.before, self.version, self.module.params["on_disk"])
        if reason:
            raise LibraryError(reason)
        source, plan = self.choose()
        if not self.module.check_mode:
            self.command(plan, source)
            after = libraries.installed()
            if after != [self.version]:
                raise LibraryError(
                    f"After the installation from {source} the container has driver libraries "
                    f"{', '.join(after) or 'of no version'} beside the wanted {self.version}; remove what else brought "
                    "some (ls /usr/lib/*/libcuda.so.*)."
                )
            if source == "apt":
                self.hold(plan)
        return source

    def choose(self) -> tuple[str, list[str]]:
        """(source, command line)."""
        wanted, runfile = self.module.params["source"], self.module.params["runfile"]
        if wanted == "runfile" or (wanted == "auto" and runfile):
            return "runfile", libraries.runfile_command(runfile, self.version)
        status, out, _err = self.module.run_command(["apt-cache", "madison", *libraries.packages(self.version)])
        found = libraries.exact(out if status == 0 else "", self.version)
        if not found:
            raise LibraryError(libraries.nowhere(self.before, self.version, wanted))
        return "apt", ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "--allow-change-held-packages",
                       "--allow-downgrades", *(f"{name}={version}" for name, version in found.items())]  # fmt: skip

    def command(self, words: list[str], source: str) -> None:
        limited = ["timeout", str(self.module.params["timeout"]), *words]
        status, out, err = self.module.run_command(limited, environ_update={"DEBIAN_FRONTEND": "noninteractive"})
        if status == 124:
            raise LibraryError(f"The installation from {source} did not end in {self.module.params['timeout']} s.")
        if status:
            said = ([line for line in (err + out).splitlines() if line.strip()] or [f"status {status}"])[-1].strip()
            raise LibraryError(f"The installation of driver libraries {self.version} from {source} failed: {said}")

    def hold(self, plan: list[str]) -> None:
        names = [word.partition("=")[0] for word in plan if "=" in word and not word.startswith("-")]
        self.module.run_command(["apt-mark", "hold", *names], check_rc=True)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "version": {"required": True},
            "on_disk": {},
            "source": {"default": "auto", "choices": ["auto", "runfile", "apt"]},
            "runfile": {"type": "path"},
            "timeout": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    run = Libraries(module)
    try:
        source = run.run()
    except LibraryError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename or os.fspath('.')} cannot be used: {error.strerror}.")
    after = [run.version] if source or run.before == [run.version] else run.before
    module.exit_json(
        changed=source is not None,
        before=run.before,
        source=source,
        needed=source is not None,
        diff={"before": "".join(f"{one}\n" for one in run.before), "after": "".join(f"{one}\n" for one in after)},
    )


if __name__ == "__main__":
    main()
