#!/usr/bin/python

# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fast_path_info
short_description: Say whether a model's fast path is bound, right and fast
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Asks the training interpreter itself, in a child process, under the launch conditions of the training job - its
    user, its environment, its environment files - and with a time limit. Nothing is downloaded, no weights are read.
  - A host where something is broken is an answer and not an error. The module fails for wrong options alone.
  - The same code runs without Ansible as C(fast_path_proof.py).
options:
  action:
    description:
      - V(census) counts the layers of the model and names the functions that they call.
      - V(binding) also says what each of these functions is bound to, and why one is not bound to its fast
        implementation. It takes some seconds and no GPU.
      - V(proof) also compares forward and backward of each function and of a whole layer with the PyTorch reference on
        each visible GPU, and times them. The first run compiles and takes minutes; a warm one takes under 20 seconds.
    type: str
    choices: [census, binding, proof]
    default: binding
  python:
    description: The Python of the training environment.
    type: path
    required: true
  model:
    description:
      - The model - a folder with a C(config.json), such a file, or its content as a dictionary.
      - Without it, a small built-in model of O(family) is looked at.
    type: raw
  family:
    description: The family of the built-in model.
    type: str
    default: qwen3_5
  user:
    description: The account that trains. Only root can look as somebody else; the module's own account by default.
    type: str
  environment:
    description:
      - Environment variables of the training job, such as V(CUDA_VISIBLE_DEVICES). They win over O(environment_files).
    type: dict
    default: {}
  environment_files:
    description: Files with lines C(KEY=value), as a systemd unit names them.
    type: list
    elements: path
    default: []
  timeout:
    description: Seconds after which the check is stopped. By default 120, and 1800 for O(action=proof).
    type: float
  lengths:
    description: Sequence lengths that a layer is timed at, in tokens. Each is timed once.
    type: list
    elements: int
    default: [4096, 16384]
  quick:
    description: Prove with one precision and the first length alone.
    type: bool
    default: false
  triton_cache:
    description:
      - Folder that keeps what Triton compiled. The account that trains has to be able to write there.
      - A C(TRITON_CACHE_DIR) in O(environment) or O(environment_files) wins, because there the training job looks.
      - Without either, Triton's own default is used, which lies in the account's home.
    type: path
  wanted_ratio:
    description:
      - How many times as fast as the PyTorch reference a layer has to train. Less is V(broken).
      - By default what suits the family, which is 1.5, and 0.85 where the reference is as good as the fast path (lfm2).
    type: float
  cpu_only:
    description:
      - The host has no GPU on purpose, so that a missing proof is V(not_applicable) instead of V(unknown) or V(absent).
      - What is there and broken stays V(broken).
    type: bool
    default: false
  baseline:
    description: RV(figures) of an earlier proof, which RV(slower) compares with.
    type: list
    elements: dict
    default: []
  tolerance:
    description: How much more time than in O(baseline) is no slow-down, as a part of one.
    type: float
    default: 0.15
attributes:
  check_mode:
    description: Can run in check mode and return what it returns otherwise.
    support: full
  diff_mode:
    description: Shows what changed. This changes nothing but Triton's cache.
    support: none
seealso:
  - module: proxmox_gpu.training.chain_info
"""

EXAMPLES = r"""
- name: Say which functions of a model run on the slow path
  proxmox_gpu.training.fast_path_info:
    python: /opt/training/bin/python
    model: /srv/models/Qwen3.5-27B
  register: fast_path

- name: Prove it on the GPU, as the account that trains
  proxmox_gpu.training.fast_path_info:
    action: proof
    python: /opt/training/bin/python
    model: /srv/models/Qwen3.5-27B
    user: trainer
    environment:
      CUDA_VISIBLE_DEVICES: "0"
  register: fast_path

- name: Stop unless the fast path is proven
  ansible.builtin.assert:
    that: fast_path.state == 'ok'
    fail_msg: "{{ fast_path.sentence }}"
"""

RETURN = r"""
state:
  description: V(ok), V(broken), V(absent), V(unknown), or V(not_applicable) for a model without a fast path.
  type: str
  returned: always
  sample: broken
sentence:
  description: The verdict in one sentence, with what to do about it where that is known.
  type: str
  returned: always
  sample: >-
    All 4 functions are bound; forward is right, backward refuses (RuntimeError: Triton >= 3.4.0 and < 3.7.1 on Hopper
    GPUs ...); forward is 5.2 times as fast as the PyTorch reference: upgrade triton to 3.7.1 or later, or install
    tilelang.
report:
  description: Everything that was found. Its parts depend on O(action).
  type: dict
  returned: always
  sample:
    design: decorator
    fast_layers: 48
    total: 64
text:
  description: The report for a person.
  type: str
  returned: O(action=proof)
metrics:
  description: The figures in the text format of Prometheus.
  type: str
  returned: O(action=proof)
figures:
  description: Milliseconds of one layer on the fast path, one entry a GPU, length and stage.
  type: list
  elements: dict
  returned: O(action=proof)
  sample:
    - gpu: NVIDIA H200
      index: 0
      tokens: 4096
      stage: training
      ms: 8.4
slower:
  description: One sentence for each figure that takes longer than in O(baseline) by more than O(tolerance).
  type: list
  elements: str
  returned: O(action=proof)
  sample: []
record:
  description: What role P(proxmox_gpu.training.fast_path#role) keeps of the proof.
  type: dict
  returned: O(action=proof)
  sample:
    ok: true
    gpu: NVIDIA H200
    ratio: 8.02
"""

import datetime
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import cache, child, config, report

TIMEOUTS = {"census": 120.0, "binding": 120.0, "proof": 1800.0}
LONGEST = 86400
ASKED = ("action", "model", "family", "lengths", "quick", "triton_cache", "wanted_ratio", "cpu_only")


class QuietModule(AnsibleModule):
    """Does not write its arguments to the system log: the environment of a training job may hold a token."""

    def _log_invocation(self) -> None:
        pass


def result_of(answer: dict[str, t.Any], options: dict[str, t.Any], when: str) -> dict[str, t.Any]:
    """The module's result from the child's answer. ``when``: the time of a proof, as ISO 8601 writes it."""
    result: dict[str, t.Any] = {
        "changed": False,
        "state": answer.get("state") or "unknown",
        "sentence": answer.get("sentence") or answer.get("error") or "The training interpreter gave no verdict.",
        "report": answer,
    }
    if options["action"] == "proof":
        figures = report.figures(answer)
        slower = report.slower(options["baseline"], figures, options["tolerance"])
        record = cache.proof_record({**answer, "state": result["state"], "sentence": result["sentence"]}, figures, when)
        result.update(
            text=report.text({**answer, "state": result["state"], "sentence": result["sentence"]}),
            metrics=report.prometheus(answer, slower),
            figures=figures,
            slower=slower,
            record={**record, "slower": slower},
        )
    return result


def main() -> None:
    module = QuietModule(
        argument_spec={
            "action": {"type": "str", "choices": ["census", "binding", "proof"], "default": "binding"},
            "python": {"type": "path", "required": True},
            "model": {"type": "raw"},
            "family": {"type": "str", "default": "qwen3_5"},
            "user": {"type": "str"},
            "environment": {"type": "dict", "default": {}},
            "environment_files": {"type": "list", "elements": "path", "default": []},
            "timeout": {"type": "float"},
            "lengths": {"type": "list", "elements": "int", "default": [4096, 16384]},
            "quick": {"type": "bool", "default": False},
            "triton_cache": {"type": "path"},
            "wanted_ratio": {"type": "float"},
            "cpu_only": {"type": "bool", "default": False},
            "baseline": {"type": "list", "elements": "dict", "default": []},
            "tolerance": {"type": "float", "default": 0.15},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        options["lengths"] = config.lengths(options["lengths"])
    except config.ConfigError as error:
        module.fail_json(msg=f"lengths: {error}")
    timeout = options["timeout"] if options["timeout"] is not None else TIMEOUTS[options["action"]]
    if not 0 < timeout <= LONGEST:
        module.fail_json(msg=f"timeout: it takes more than 0 and at most {LONGEST} seconds, not {timeout}.")
    answer = child.run(
        options["python"],
        # A proof that runs out of time says how far it came, so it has to know of the end before the end.
        {**{name: options[name] for name in ASKED}, "limit": 0.9 * timeout},
        timeout,
        options["user"],
        options["environment"],
        options["environment_files"],
    )
    when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    shown = {name: value for name, value in options.items() if name != "environment"}
    module.exit_json(invocation={"module_args": shown}, **result_of(answer, options, when))


if __name__ == "__main__":
    main()
