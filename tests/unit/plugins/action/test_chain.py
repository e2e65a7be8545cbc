# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""chain_info and chain_report on the control node: what becomes of a target that answers, fails, or does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.loader import action_loader, connection_loader
from ansible.template import Templar
from ansible.utils.display import Display

from tests.unit.plugins.module_utils._chain import hosts

VARIABLES = {"inventory_hostname": "ct200"}


def action(name: str, **arguments: Any) -> Any:
    loader = DataLoader()
    task = Task.load({f"proxmox_gpu.training.{name}": arguments}, loader=loader)
    context = PlayContext()
    return action_loader.get(
        f"proxmox_gpu.training.{name}",
        task=task,
        connection=connection_loader.get("ansible.builtin.local", context),
        play_context=context,
        loader=loader,
        templar=Templar(loader=loader, variables={}),
        shared_loader_obj=None,
    )


def info(result: Any, variables: dict[str, Any] | None = None, **arguments: Any) -> tuple[dict[str, Any], mock.Mock]:
    """(the task's result, the mock of the one module execution) where the module answers with result, or raises it."""
    plugin = action("chain_info", **arguments)
    execute = mock.Mock(side_effect=result if isinstance(result, Exception) else None, return_value=result)
    plugin._execute_module = execute
    return plugin.run(task_vars={**VARIABLES, **(variables or {})}), execute


def answer() -> dict[str, Any]:
    facts = hosts.provisioned()
    facts.pop("reach")
    return {"facts": facts, "seconds": {"base": 0.1}, "changed": False}


def test_one_module_execution_and_all_ten_links() -> None:
    result, execute = info(answer())
    assert execute.call_count == 1
    assert len(result["links"]) == 10
    assert result["changed"] is False
    assert result["facts"]["repository"]["url"] == hosts.URL
    assert result["seconds"] == {"base": 0.1}


def test_unreachable_target_is_a_finding_with_the_connection_s_own_sentence() -> None:
    result, _execute = info(AnsibleConnectionFailure("Container 202 is stopped on pve1.\nStart it."))
    assert result["cause"]["id"] == "reach.unreachable"
    assert result["cause"]["sentence"] == "Container 202 is stopped on pve1. Start it."
    assert not result.get("failed")
    assert not result.get("unreachable")
    assert result["links"]["torch"]["consequence_of"] == "reach"


@pytest.mark.parametrize(
    "result",
    [
        {"failed": True, "rc": 127, "msg": "The module interpreter '/usr/bin/python3' was not found."},
        {
            "failed": True,
            "rc": 127,
            "module_stderr": "/bin/sh: 1: /usr/bin/python3: not found",
            "msg": "MODULE FAILURE",
        },
    ],
)
def test_missing_python_is_a_finding_of_base(result: dict[str, Any]) -> None:
    found, _execute = info(result)
    assert found["cause"]["id"] == "base.python3_missing"
    assert found["links"]["reach"]["holds"]
    assert not found.get("failed")


def test_missing_python_is_said_whichever_link_was_asked_for() -> None:
    found, _execute = info({"failed": True, "rc": 127}, links=["repository"])
    assert set(found["links"]) == {"base", "repository"}


def test_module_that_fails_leaves_everything_unknown_with_its_text() -> None:
    found, _execute = info({"failed": True, "rc": 1, "msg": "an odd thing happened"})
    assert found["verdict"] == "unknown"
    assert "an odd thing happened" in found["links"]["base"]["sentence"]


@pytest.mark.parametrize("problem", ["Read-only file system", "No usable temporary directory"])
def test_module_that_can_be_written_nowhere_is_a_finding_of_base(problem: str) -> None:
    text = f"OSError: [Errno 30] {problem}: '/tmp/x'"
    found, _execute = info({"failed": True, "rc": 1, "module_stderr": text}, links=["torch"])
    assert found["cause"]["id"] == "base.nothing_written"
    assert problem in found["cause"]["sentence"]
    assert found["links"]["torch"]["consequence_of"] == "base"


def test_wanted_links_alone_are_judged_and_their_neighbours_observed() -> None:
    result, execute = info(answer(), links=["toolkit"])
    assert list(result["links"]) == ["toolkit"]
    assert execute.call_args.kwargs["module_args"]["links"] == ["base", "torch", "repository", "toolkit"]


def test_link_that_is_none_is_refused() -> None:
    with pytest.raises(AnsibleActionFail, match="'tookit' is not a link of the chain; the links are reach, base"):
        info(answer(), links=["tookit"])


def test_python_is_not_searched_for_unless_somebody_chose_one() -> None:
    _result, execute = info(answer())
    assert execute.call_args.kwargs["task_vars"]["ansible_python_interpreter"] == "/usr/bin/python3"
    _result, execute = info(answer(), {"ansible_python_interpreter": "/opt/python"})
    assert execute.call_args.kwargs["task_vars"]["ansible_python_interpreter"] == "/opt/python"


def test_wishes_reach_the_module_and_the_result_without_secrets() -> None:
    variables = {
        "torch_environment_path": "/srv/env",
        "cuda_repository_mirror": "https://me:pw@mirror.lan/cuda",
    }
    result, execute = info(answer(), variables)
    told = execute.call_args.kwargs["module_args"]["wishes"]
    if result["desired"]["torch_environment"]:  # the role is in this release
        assert told["environment_path"] == "/srv/env"
    assert "me:pw" not in str(result)


def report(**arguments: Any) -> tuple[dict[str, Any], str]:
    """(the task's result, what was printed)."""
    with mock.patch.object(Display, "display") as display:
        result = action("chain_report", **arguments).run(task_vars=VARIABLES)
    return result, "\n".join(call.args[0] for call in display.call_args_list)


def chain(facts: dict[str, Any] | None = None) -> dict[str, Any]:
    result = answer()
    result["facts"] = facts or result["facts"]
    return info(result)[0]


def test_report_prints_one_table() -> None:
    result, printed = report(chain=chain())
    assert printed.startswith("ct200: 9 of 10 links hold, verdict unknown")
    assert result["summary"] == "1 host: 1 unknown (proof.no_gpu: ct200)"
    assert not result.get("failed")


def test_report_can_be_silent() -> None:
    assert report(chain=chain(), display=False)[1] == ""


def test_report_fails_by_verdict_with_cause_and_remedy() -> None:
    result, _printed = report(chain=chain(hosts.bare_torch()), fail_on=["broken"])
    assert result["failed"]
    assert result["msg"].startswith("NVIDIA's CUDA repository is not registered")
    assert result["msg"].endswith(
        "Run: ansible-playbook proxmox_gpu.training.provision -l ct200 --tags cuda_repository"
    )
    assert not report(chain=chain(hosts.bare_torch()), fail_on=["absent"])[0].get("failed")


def test_report_of_a_fleet_is_a_legend_where_something_is_wrong_and_one_line() -> None:
    _result, printed = report(fleet={"a": chain(), "b": chain(hosts.bare_torch())})
    assert printed.splitlines()[-1] == "2 hosts: 1 unknown, 1 broken (proof.no_gpu: a; repository.absent: b)"
    assert "The first one that does not hold is the cause" in " ".join(printed.split())
    _result, printed = report(fleet={"a": chain(hosts.with_gpu())})
    assert printed == "1 host: 1 ok"


@pytest.mark.parametrize(("form", "begins"), [("json", "{"), ("markdown", "# Training hosts"), ("table", "ct200: ")])
def test_report_is_written_once(tmp_path: Path, form: str, begins: str) -> None:
    path = tmp_path / "new" / "report"
    arguments = {"chain": chain(), "format": form, "path": str(path)}
    assert report(**arguments)[0]["changed"]
    assert path.read_text().startswith(begins)
    assert not report(**arguments)[0]["changed"]


def test_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(AnsibleActionFail, match="cannot be written"):
        report(chain=chain(), path=str(tmp_path / "file" / "report"))


def test_report_needs_a_chain_or_a_fleet() -> None:
    with pytest.raises(AnsibleActionFail):
        report()
