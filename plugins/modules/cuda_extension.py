#!/usr/bin/python
# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_extension
short_description: Build and install a CUDA extension for the training environment's torch
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Makes sure that the training environment has the extension at the wanted version, from a wheel whose key equals
    today's. The key holds the sources' checksum, torch, its CUDA, Python, C++ ABI, machine, C library, GPU targets and
    code-changing edits.
  - A wheel of that key is taken from the wheelhouse. Without one it is built from the source archive - without build
    isolation, for the wanted GPU targets only, with as many compiler processes as the container's memory and processors
    allow.
  - A new wheel is looked into and imported before anything installed is replaced, and once more afterwards.
  - A build that fails ends the task with one sentence that names the cause. The whole output is in RV(log).
  - While it runs, an action plugin prints what is being compiled, and for how long. The build itself runs in the
    container on its own - a lost connection does not end it, and a second run waits for it.
options:
  name:
    description: Name of the extension. Those of the collection's catalogue need no O(description).
    type: str
    required: true
  version:
    description: The version to install.
    type: str
    required: true
  sha256:
    description: SHA-256 of the source archive. The catalogue knows those of some versions.
    type: str
  source:
    description:
      - The source archive on the target. Without it, one in a folder of O(find_links) is taken.
      - Else pip downloads it from the package index.
    type: path
  description:
    description:
      - Fields of the catalogue's description to set for this extension, such as C(compiled), C(modules), C(functions),
        C(variables), C(math_headers), C(edits), C(memory_per_process).
    type: dict
    default: {}
  gpu_targets:
    description: GPU targets to compile for, such as V(9.0), V(9.0+PTX) or V(sm_90).
    type: list
    elements: str
    required: true
  environment:
    description: The training environment, a virtual environment with torch.
    type: path
    default: /opt/training
  jobs:
    description: Number of sources that are compiled at once. V(0) takes as many as memory and processors allow.
    type: int
    default: 0
  timeout:
    description: Seconds after which a build is ended.
    type: int
    default: 7200
  tmpdir:
    description: Folder for sources and temporary files. It should lie on a disk, not in memory.
    type: path
    default: /var/tmp
  wheelhouse:
    description:
      - Folder of built wheels, by key.
      - Containers may share one (a mount of the node's) - one of them builds a wheel and the others wait for it.
    type: path
    default: /var/cache/proxmox_gpu/wheelhouse
  shared_wheelhouse:
    description:
      - Wheelhouse on the control node that all containers share - a folder, or the address of one on any web server.
      - A wheel is looked for there first and handed in. A new one is put there, or where it is an address into
        C(~/.cache/proxmox_gpu/wheelhouse) on the control node.
    type: str
  shared_wheelhouse_timeout:
    description: Seconds to wait for somebody else who builds the same wheel.
    type: int
    default: 7200
  state:
    description: V(installed) in the environment, or only V(built), as a wheel in the wheelhouse.
    type: str
    choices: [installed, built]
    default: installed
  low_priority:
    description: Whether a build takes processor and disk only when nobody else wants them.
    type: bool
    default: false
  wheel:
    description:
      - A prebuilt wheel, as a path on the target or an address, in place of a build.
      - It is looked into and imported like one of ours. O(sha256) is then the wheel's, and is needed.
    type: str
  log_path:
    description: Folder for the logs of builds. The previous log of an extension is kept beside the new one.
    type: path
    default: /var/log/proxmox_gpu
  index_url:
    description: Package index for the source archive, in place of pip's own setting.
    type: str
  extra_index_urls:
    description: More package indexes.
    type: list
    elements: str
    default: []
  find_links:
    description: Folders or pages with archives.
    type: list
    elements: str
    default: []
  ca_bundle:
    description:
      - File on the target with the authorities that are trusted where something is fetched.
      - Without it, those that C(PIP_CERT) names, or the system's.
    type: path
  force:
    description: Build or install even if the right one is installed.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Says whether something would be installed and why, and does nothing.
  diff_mode:
    support: full
    description: Shows the installed version and key, and the wanted ones.
  idempotent:
    support: full
    description: Does nothing while the installed wheel's key equals today's.
  platform:
    support: full
    platforms: linux
    description: Linux containers.
seealso:
  - module: proxmox_gpu.training.cuda_compile_probe
"""

EXAMPLES = r"""
- name: Build causal-conv1d for an H200 and install it
  proxmox_gpu.training.cuda_extension:
    name: causal-conv1d
    version: 1.7.0
    gpu_targets: ["9.0"]

- name: An extension that the catalogue does not know
  proxmox_gpu.training.cuda_extension:
    name: my-kernels
    version: "2.1"
    gpu_targets: ["9.0", "12.0+PTX"]
    find_links: [/srv/sdists]
    description:
      compiled: [my_kernels_cuda]
      modules: [my_kernels]
      math_headers: true
"""

RETURN = r"""
reason:
  description: Why something was to be done.
  returned: when something was to be done
  type: str
  sample: it is not installed
origin:
  description: Where the wheel came from, such as V(built) or V(wheelhouse).
  returned: when something was installed
  type: str
  sample: built
wheel:
  description: The installed wheel in the wheelhouse.
  returned: when something was installed
  type: str
key:
  description: The wheel's key.
  returned: when something was to be done
  type: dict
digest:
  description: The key in 16 hexadecimal digits.
  returned: in check mode when something was to be done, and with O(state=built)
  type: str
key_known:
  description: Whether the sources' checksum in RV(key) is the real one. Without it, they have to be fetched first.
  returned: in check mode when something was to be done, and with O(state=built)
  type: bool
available:
  description: Whether the wheel is in a wheelhouse, so that nothing has to be built.
  returned: in check mode when something was to be done, and with O(state=built)
  type: bool
obstacle:
  description: Why nothing can be built on this target, if that is known.
  returned: in check mode when something was to be done, and with O(state=built)
  type: str
built:
  description: How the wheel was built - seconds, jobs, compilers, and each source's seconds and peak memory in bytes.
  returned: when something was installed
  type: dict
cause:
  description: A stable word for the cause of a failure, such as V(memory) or V(header_missing).
  returned: on failure
  type: str
log:
  description: The file with the build's whole output.
  returned: always
  type: str
  sample: /var/log/proxmox_gpu/causal-conv1d.log
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_build import BuildError
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import describe, refusal
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_job import Job
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_source import SourceError, local_archive
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_state import JobError, Wish
from ansible_collections.proxmox_gpu.training.plugins.module_utils._gpu_targets import normalise_targets
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pip_sources import Sources
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import WheelError

ARGUMENTS: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "version": {"type": "str", "required": True},
    "sha256": {"type": "str"},
    "source": {"type": "path"},
    "description": {"type": "dict", "default": {}},
    "gpu_targets": {"type": "list", "elements": "str", "required": True},
    "environment": {"type": "path", "default": "/opt/training"},
    "jobs": {"type": "int", "default": 0},
    "timeout": {"type": "int", "default": 7200},
    "tmpdir": {"type": "path", "default": "/var/tmp"},
    "wheelhouse": {"type": "path", "default": "/var/cache/proxmox_gpu/wheelhouse"},
    "log_path": {"type": "path", "default": "/var/log/proxmox_gpu"},
    "index_url": {"type": "str"},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "ca_bundle": {"type": "path"},
    "force": {"type": "bool", "default": False},
    "shared_wheelhouse": {"type": "str"},  # for the action plugin
    "shared_wheelhouse_timeout": {"type": "int", "default": 7200},
    "state": {"type": "str", "choices": ["installed", "built"], "default": "installed"},
    "low_priority": {"type": "bool", "default": False},
    "wheel": {"type": "str"},
}


def wish_of(params: dict[str, t.Any]) -> Wish:
    """What the task asks for. Raises ValueError or JobError, with a sentence, for what cannot be asked for."""
    description = describe(params["name"], params["description"])
    refused = refusal(description, params["version"])
    if refused:
        raise JobError("refused", refused)
    targets = () if description.pure_python else normalise_targets(params["gpu_targets"])
    if not targets and not description.pure_python:
        raise JobError(
            "no_gpu_target",
            f"{description.name}: no GPU target is given and there is no GPU here to take it from; set"
            " cuda_extensions_gpu_targets to the compute capability of your GPUs (9.0 for an H200)",
        )
    return Wish(
        description,
        params["version"],
        targets,
        params["environment"],
        params["sha256"],
        params["source"] or local_archive(params["find_links"], description.name, params["version"]),
        params["jobs"] or None,
        params["timeout"],
        params["tmpdir"],
        params["wheelhouse"],
        params["log_path"],
        Sources.of(params),
        params["timeout"] + 600.0,
        params["low_priority"],
        params["wheel"],
        params["state"] == "installed",
        params["ca_bundle"],
    )


def foreseen(job: Job) -> dict[str, t.Any]:
    """What can be said about a wish before anything is done."""
    key, known = job.there.asked_key()
    wheel = job.there.wheel()
    available = wheel is not None
    result = {"key": key.as_dict(), "digest": key.digest(), "key_known": known, "available": available, "wheel": wheel}
    return {**result, "obstacle": None if available else job.obstacle()}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    log = None
    try:
        job = Job(wish_of(module.params), warn=module.warn)
        log = job.log
        reason = "it is asked for (force)" if module.params["force"] else job.there.needed()
        if reason is None:
            module.exit_json(changed=False, log=log, **({} if job.wish.install else foreseen(job)))
        diff = {"before": job.there.shown() + "\n", "after": job.there.shown(wanted=True) + "\n"}
        result = foreseen(job) if module.check_mode else job.run(module.params["force"])
        module.exit_json(changed=True, reason=reason, log=log, diff=diff, **result)
    except BuildError as error:
        module.fail_json(
            msg=f"{error.cause.sentence} (log: {log})", cause=error.cause.id, line=error.cause.line, log=log
        )
    except (JobError, SourceError) as error:
        module.fail_json(msg=str(error), cause=error.id, log=log)
    except (WheelError, ValueError) as error:
        module.fail_json(msg=str(error), cause="input", log=log)
    except OSError as error:
        module.fail_json(msg=f"{module.params['name']}: {error.strerror}: {error.filename}", cause="os", log=log)


if __name__ == "__main__":
    main()
