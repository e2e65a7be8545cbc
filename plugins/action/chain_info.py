# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""chain_info on the control node: wishes from variables, one module execution on the target, judgement here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain import finding as findings_of
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain import links as chain
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.finding import Finding
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.judge import judge
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.look import Look
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.rules import binding, repository
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _pct_preload, _wishes

_pct_preload.preload()

MODULE = "proxmox_gpu.training.chain_info"
PYTHON = "/usr/bin/python3"
NOT_ASKED = "Not observed: {reason}."
#: What a module says that found no place for itself.
NOTHING_WRITTEN = re.compile(
    r"No usable temporary directory|Read-only file system|No space left on device|Disk quota exceeded"
)
#: Findings that explain everything else.
STOPPING = ("base.python3_missing", "base.nothing_written")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _VALID_ARGS = frozenset(("links", "network", "timeout", "root", "proc_path", "dev_path"))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = dict(task_vars or {})
        links = self._links()
        desired = self._desired(variables)
        sections = [link for link in chain.sections(links) if link != "reach"]
        facts, seconds = self._observe(sections, desired, variables)
        host = str(variables.get("inventory_hostname") or "HOST")
        vmid = str(variables.get("pct_vmid") or variables.get("proxmox_vmid") or "VMID")
        result = {**conclude(desired, facts, links, host, vmid), "seconds": seconds}
        # All facts are some hundred lines a host: -v shows what chain_report makes of them, -vv the facts themselves.
        return result if Display().verbosity > 1 else {**result, "_ansible_verbose_override": True}

    def _links(self) -> list[str]:
        wanted = self._task.args.get("links") or []
        try:
            return chain.in_order([str(link) for link in ([wanted] if isinstance(wanted, str) else wanted)])
        except ValueError as error:
            raise AnsibleActionFail(f"{error}.") from None

    def _desired(self, variables: dict[str, Any]) -> dict[str, Any]:
        def template(value: Any, known: Mapping[str, Any]) -> Any:
            return self._templar.copy_with_new_env(available_variables=dict(known)).template(value)

        return _wishes.wishes(self._loader, variables, template)

    def _observe(
        self, sections: list[str], desired: dict[str, Any], variables: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """Facts by link, always with "reach"; what could not be observed is {"error": sentence}."""
        try:
            result = self._execute_module(
                module_name=MODULE,
                module_args={**self._task.args, "links": sections, "wishes": _wishes.for_module(desired)},
                task_vars=self._with_interpreter(variables),
            )
        except AnsibleConnectionFailure as error:
            reason = _one_line(error)
            rest = {link: {"error": NOT_ASKED.format(reason="the container did not answer")} for link in sections}
            return {"reach": {"error": reason}, **rest}, {}
        facts = result.get("facts")
        if isinstance(facts, dict) and not result.get("failed"):
            return {"reach": {"answered": True, "transport": self._connection.transport}, **facts}, result["seconds"]
        return {"reach": {"answered": True}, **_failure(result, sections)}, {}

    def _with_interpreter(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Skip the round trip that looks for a Python, unless somebody chose one."""
        if "ansible_python_interpreter" in variables:
            return variables
        _value, origin = C.config.get_config_value_and_origin("INTERPRETER_PYTHON")
        return variables if origin != "default" else {**variables, "ansible_python_interpreter": PYTHON}


def conclude(
    desired: dict[str, Any], facts: dict[str, Any], links: list[str], host: str, vmid: str = "VMID"
) -> dict[str, Any]:
    """The result of the task, from wishes and facts. Pure.

    Facts of links that were observed for the others' sake are judged by nobody, but stay in the result.
    """
    desired, facts = _wishes.without_secrets(desired), _wishes.without_secrets(facts)
    look = Look(desired, facts)
    if look.section("repository"):
        facts["repository"]["url"] = repository.expected_url(look)
    findings = [item for item in judge(desired, facts, host, vmid) if item.link in links or _stops_all(item)]
    cause = findings_of.cause(findings)
    return {
        "changed": False,
        "facts": facts,
        "desired": desired,
        "findings": [item.as_dict() for item in findings],
        "links": findings_of.by_link(findings),
        "cause": cause.as_dict() if cause else None,
        "verdict": findings_of.verdict(findings),
        "pending": findings_of.pending(findings),
        "cost": binding.finding_cost(look),
    }


def _stops_all(item: Finding) -> bool:
    """Reach, a missing python3 and full disks explain everything else, whichever links were asked for."""
    return not item.holds and (item.link == "reach" or item.id in STOPPING)


def _failure(result: Mapping[str, Any], sections: list[str]) -> dict[str, Any]:
    """Facts when the module did not answer: python3 is missing, it could write nowhere, or it has its own sentence."""
    text = " ".join(str(result.get(name) or "") for name in ("msg", "module_stderr", "module_stdout"))
    if result.get("rc") == 127 or "was not found" in text or "python3: not found" in text:
        rest = {link: {"error": NOT_ASKED.format(reason="python3 is missing in the container")} for link in sections}
        return {**rest, "base": {"python_missing": True}}
    full = NOTHING_WRITTEN.search(text)
    if full:
        rest = {link: {"error": NOT_ASKED.format(reason="nothing can be written there")} for link in sections}
        return {**rest, "base": {"nothing_written": full.group(0)}}
    reason = f"The container could not be observed: {' '.join(text.split())[:400] or 'the module gave no answer'}"
    return {link: {"error": reason} for link in sections}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
