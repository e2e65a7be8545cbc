#!/usr/bin/python
# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_update
short_description: Fetch apt's package lists and say in one sentence what went wrong
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Runs C(apt-get update) with C(--error-on=any), so that a failed signature or a missing index is an error. By itself
    apt treats both as temporary, ends with success and goes on with old lists.
  - Can be limited to one entry that is not registered, so a repository is tried before apt depends on it. What was
    fetched is used as soon as the entry is registered.
  - Waits while another process holds the lock of the package lists, which C(DPkg::Lock::Timeout) does not do, and names
    that process when the time is over.
  - After a failure that comes from a repository that is being published, what was fetched of it is removed, so that the
    next try starts afresh and apt is not left with lists that it cannot read.
options:
  entry:
    description: The only source to fetch, as deb822 text. Without it all registered sources are fetched.
    type: str
  lock_timeout:
    description: Seconds to wait for another process that holds the lock.
    type: int
    default: 300
  timeout:
    description: Seconds after which C(apt-get update) is stopped.
    type: int
    default: 600
  proxy:
    description: A proxy for HTTP and HTTPS, for this run only.
    type: str
  mirror_variable:
    description: What to call the setting of the repository's address in an error message.
    type: str
    default: the source files below /etc/apt
  proxy_variable:
    description: What to call the setting of the proxy in an error message.
    type: str
    default: the proxy settings below /etc/apt/apt.conf.d
attributes:
  check_mode:
    support: partial
    description: Can run in check mode without changing anything.
    details: Nothing is fetched in check mode, and no change is reported.
  diff_mode:
    support: none
    description: Package lists are no configuration; no differences are shown.
  idempotent:
    support: partial
    description: A second run changes nothing.
    details: Reports a change only if the lists of packages changed on disk.
  platform:
    support: full
    platforms: debian
    description: Systems that use apt 2.1 or later.
"""

EXAMPLES = r"""
- name: Try a repository before it is registered
  proxmox_gpu.training.apt_update:
    entry: |
      Types: deb
      URIs: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/
      Suites: /
      Signed-By: /usr/share/keyrings/cuda-archive-keyring.gpg
  register: update
  until: update is succeeded or not (update.transient | default(false))
  retries: 3
  delay: 20
"""

RETURN = r"""
kind:
  description: One word for the kind of the problem, such as V(missing_key), V(unreachable) or V(locked).
  returned: failure
  type: str
  sample: missing_key
transient:
  description: Whether trying again later may help.
  returned: failure
  type: bool
  sample: false
evidence:
  description: The line of apt's output that tells.
  returned: failure
  type: str
  sample: "W: GPG error: ... NO_PUBKEY A4B469963BF863CC"
output:
  description: What apt printed.
  returned: when apt ran
  type: str
"""

import os
import re
import shutil
import tempfile
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils._apt_errors import AptProblem, Context, explain
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.repository import list_name
from ansible_collections.proxmox_gpu.training.plugins.module_utils._run_limited import run_limited

LISTS = "/var/lib/apt/lists"
LOCK_POLL_SECONDS = 2
#: The problem that apt ended with, if any, and what it printed.
Answer = tuple[t.Optional[AptProblem], str]  # noqa: UP045  # evaluated on Python 3.9 too


def command(source: str | None, proxy: str | None) -> list[str]:
    options = ["Acquire::Retries=0"]  # trying again is the caller's, who can be seen doing it
    if source:
        # Without List-Cleanup=0 the lists of all other sources would be thrown away.
        options += [f"Dir::Etc::sourcelist={source}", "Dir::Etc::sourceparts=-", "APT::Get::List-Cleanup=0"]
    if proxy:
        options += [f"Acquire::http::Proxy={proxy}", f"Acquire::https::Proxy={proxy}"]
    return ["apt-get", "update", "--error-on=any"] + [word for option in options for word in ("-o", option)]


def state_of_lists() -> set[tuple[str, int, int]]:
    with os.scandir(LISTS) as items:
        files = [(item.name, item.stat()) for item in items if item.is_file() and item.name != "lock"]
    return {(name, stat.st_size, stat.st_mtime_ns) for name, stat in files}


def forget(problem: AptProblem) -> None:
    """Remove what a repository that is being published left: partial files, and lists that apt itself cannot read."""
    unreadable = re.findall(rf"MergeList ({LISTS}/\S+)", problem.evidence)
    partial = os.path.join(LISTS, "partial")
    leftovers = [os.path.join(partial, name) for name in os.listdir(partial)] if os.path.isdir(partial) else []
    for path in unreadable + leftovers:
        if os.path.isfile(path):
            os.unlink(path)


def kept_index(entry: str) -> list[str]:
    """The files that apt keeps of an entry's addresses."""
    stems = [list_name(url) for line in re.findall(r"(?m)^URIs:(.*)$", entry) for url in line.split()]
    return [name for name in os.listdir(LISTS) if any(name.startswith(stem) for stem in stems)]


def move(names: list[str], start: str, end: str) -> None:
    for name in names:
        shutil.move(os.path.join(start, name), os.path.join(end, name))


def without_index(names: list[str], again: t.Callable[[], Answer]) -> Answer:
    """Once more without what apt keeps. Where the server answers "not modified", apt judges the copy that it has, and
    one that was damaged here would stay damaged for ever. It is put back when it was not to blame."""
    with tempfile.TemporaryDirectory() as aside:
        move(names, LISTS, aside)
        problem, output = again()
        if problem:
            move(names, aside, LISTS)
    return problem, output


def update(module: AnsibleModule, context: Context) -> Answer:
    """Run apt until it is not locked out any more; the problem it ended with, if any, and its output."""
    entry = module.params["entry"]
    with tempfile.NamedTemporaryFile("w", suffix=".sources") as file:  # the name tells apt the format
        file.write(entry or "")
        file.flush()
        source = file.name if entry else None
        problem, output = run_unlocked(module, context, source)
        kept = kept_index(entry) if problem and problem.kind == "bad_signature" and entry else []
        return without_index(kept, lambda: run_unlocked(module, context, source)) if kept else (problem, output)


def run_unlocked(module: AnsibleModule, context: Context, source: str | None) -> Answer:
    arguments = command(source, module.params["proxy"])
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    give_up = time.monotonic() + module.params["lock_timeout"]
    while True:
        status, output = run_limited(arguments, environment, module.params["timeout"])
        if status == 0:
            return None, output
        if status is None:
            seconds = module.params["timeout"]
            sentence = (
                f"apt-get update was stopped because it did not finish in {seconds} s; check {context.mirror_variable}"
            )
            return AptProblem("timeout", sentence, True, f"apt-get update, {seconds} s"), output
        problem = explain(output, context)
        if problem is None:
            sentence = f"apt-get update failed with status {status} and did not say why"
            return AptProblem("other", sentence, False, output[-200:]), output
        if problem.kind != "locked" or time.monotonic() >= give_up:
            return problem, output
        time.sleep(LOCK_POLL_SECONDS)


def main() -> None:
    defaults = Context()
    module = AnsibleModule(
        argument_spec={
            "entry": {"type": "str"},
            "lock_timeout": {"type": "int", "default": 300},
            "timeout": {"type": "int", "default": 600},
            "proxy": {"type": "str"},
            "mirror_variable": {"type": "str", "default": defaults.mirror_variable},
            "proxy_variable": {"type": "str", "default": defaults.proxy_variable},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, msg="not run in check mode")
    names = module.params
    context = Context(names["proxy"] or "", names["mirror_variable"], names["proxy_variable"])
    try:
        before = state_of_lists()
        problem, output = update(module, context)
        changed = state_of_lists() != before
        if problem and problem.kind == "upstream_publishing":
            forget(problem)
    except OSError as error:
        module.fail_json(
            msg=f"cannot run apt-get update: {error.strerror}: {error.filename}", kind="other", transient=False
        )
    if problem is None:
        module.exit_json(changed=changed, output=output)
    else:
        module.fail_json(
            msg=problem.sentence,
            kind=problem.kind,
            transient=problem.transient,
            evidence=problem.evidence,
            output=output,
        )


if __name__ == "__main__":
    main()
