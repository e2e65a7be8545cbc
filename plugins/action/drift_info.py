# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drift_info on the control node: one look, compared with the lock. It never fails for a host's sake."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError

from ansible_collections.proxmox_gpu.training.plugins.action import chain_info
from ansible_collections.proxmox_gpu.training.plugins.module_utils import _whole_file
from ansible_collections.proxmox_gpu.training.plugins.module_utils._drift import history, proof, verdict

PASSED_ON = ("network", "timeout", "proc_path", "dev_path")


class ActionModule(chain_info.ActionModule):
    _VALID_ARGS = frozenset((*PASSED_ON, "proof", "proof_days", "proof_timeout", "state_path"))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = dict(task_vars or {})
        host = str(variables.get("inventory_hostname") or "HOST")
        _result, options = self.validate_argument_spec(
            {
                "network": {"type": "bool", "default": True},
                "timeout": {"type": "float", "default": 120},
                "proc_path": {"type": "path", "default": "/proc"},
                "dev_path": {"type": "path", "default": "/dev"},
                "proof": {"type": "str", "default": "weekly", "choices": ["never", "weekly", "always"]},
                "proof_days": {"type": "int", "default": 7},
                "proof_timeout": {"type": "float", "default": 600},
                "state_path": {"type": "path", "required": True},
            }
        )
        # What is left are chain_info's own options, which it hands to the module.
        self._task.args = {name: options[name] for name in PASSED_ON}
        try:
            chain = super().run(tmp, task_vars)
            return {"changed": False, "drift": self._judged(host, chain, options, variables)}
        except AnsibleError as error:
            told = verdict.could_not_look(host, " ".join(str(error).split()))
            return {"changed": False, "drift": told}

    def _judged(
        self, host: str, chain: dict[str, Any], options: Mapping[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        now = time.time()
        pending = self._pending_driver(chain)
        judged = verdict.judge(host, chain, now, pending)
        record = Path(options["state_path"]) / "proofs" / f"{host}.json"
        last = proof.newest(chain, _read(record))
        step = proof.step(chain, judged, last, options["proof"], options["proof_days"] * 86400, now)
        if step == proof.RUN and not self._task.check_mode:
            answer = self._execute_module(
                module_name="proxmox_gpu.training.fast_path_info",
                module_args=proof.arguments(chain, options["proof_timeout"]),
                task_vars=self._with_interpreter(variables),
            )
            if answer.get("record"):
                last = answer["record"]
                text = json.dumps(last, sort_keys=True) + "\n"
                _whole_file.replace(str(record), text, history.FILE_MODE, history.FOLDER_MODE)
            judged = verdict.judge(host, chain, now, pending + proof.lines(answer, chain))
        elif step == proof.BUSY:
            judged = verdict.judge(host, chain, now, [*pending, proof.busy(chain)])
        good = bool(last.get("ok"))
        return {**judged, "ratio": last.get("ratio") if good else None, "proven": last.get("when") if good else None}

    def _pending_driver(self, chain: dict[str, Any]) -> list[verdict.Line]:
        """The driver that the next boot of the node will load, where that is another one than runs now."""
        loaded = (chain["facts"].get("gpu") or {}).get("module_version")
        if not loaded or not hasattr(self._connection, "run_on_node"):
            return []
        status, out, _err = self._connection.run_on_node("PATH=$PATH:/usr/sbin:/sbin modinfo -F version nvidia")
        return proof.pending_driver(loaded, out.decode("utf-8", "replace").strip() if status == 0 else "")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise AnsibleActionFail(f"The kept proof {path} on the control node cannot be read ({error}).") from None
    return found if isinstance(found, dict) else {}
