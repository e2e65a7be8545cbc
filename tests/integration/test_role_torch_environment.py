# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role torch_environment with a real pip in real containers; torch and its friends are tiny stand-ins.

What the module does in an environment is tested in tests/unit; here it is the role: check mode, another owner, faults.
The real torch is installed by molecule's scenario and by `make demo`.
"""

from __future__ import annotations

import base64
import io
import socket
import tarfile
from typing import Any

import pytest

from tests.integration import role_runs
from tests.integration.box import Box, Container
from tests.integration.role_runs import Outcome, run_one, run_role
from tests.tiny_wheels import make_index

pytestmark = pytest.mark.timeout(600)

ROLE = "torch_environment"
WHEELS = "/srv/wheels"
SNAPSHOT = "role-tests-tiny-torch"
WISH = {
    "torch_environment_torch": "2.14.1",
    "torch_environment_packages": {"transformers": "4.57.6", "einops": "0.8.0"},
    "torch_environment_index_url": "file:///srv/no-index",
    "torch_environment_extra_index_urls": [],
    "torch_environment_find_links": [WHEELS],
    "torch_environment_minimum_free_bytes": 1 << 20,
    "torch_environment_retries": 0,
}


@pytest.fixture(scope="module")
def base(places: Box) -> str:
    return role_runs.base(places, 240)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The wheels as a tar file in base64, for containers that take text."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(make_index(tmp_path_factory.mktemp("wheels")), arcname="wheels")
    return base64.b64encode(buffer.getvalue()).decode()


def with_wheels(container: Container, wheels: str) -> Container:
    container.run("base64 -d | tar -x -C /srv", stdin=wheels)
    container.run("chmod -R a+rX /srv/wheels")
    return container


@pytest.fixture
def ready(places: Box, base: str, wheels: str) -> Container:
    """A bootstrapped container without an environment."""
    return with_wheels(places.container(240).fresh("--from", base), wheels)


@pytest.fixture(scope="module")
def finished_first_run(places: Box, base: str, wheels: str) -> Outcome:
    # Without a network: torch and all that it needs come from the folder.
    container = with_wheels(places.container(241).fresh("--from", base, "--no-network"), wheels)
    outcome = run_one(ROLE, container, WISH)
    if SNAPSHOT not in places.status()["snapshots"]:
        container.snapshot(SNAPSHOT)
    return outcome


@pytest.fixture
def finished(finished_first_run: Outcome, places: Box) -> Container:
    """A container with a finished environment."""
    assert finished_first_run.sentence == ""
    return places.container(240).fresh("--from", SNAPSHOT)


def versions(container: Container, path: str = "/opt/training") -> dict[str, str]:
    listed = container.run(f"{path}/bin/python -m pip --disable-pip-version-check list --format freeze")
    return dict(line.split("==") for line in listed.splitlines())


def test_check_mode_shows_the_wishes_and_makes_nothing(ready: Container) -> None:
    outcome = run_one(ROLE, ready, WISH, check=True, diff=True)
    assert (outcome.sentence, outcome.changed) == ("", 1)
    assert "+transformers==4.57.6" in outcome.result.output
    assert not ready.exists("/opt/training")


def test_check_mode_on_a_bare_container_ends_cleanly(places: Box) -> None:
    outcome = run_one(ROLE, places.container(249).fresh(), WISH, check=True, diff=True)
    assert (outcome.sentence, outcome.changed) == ("", 0)
    assert "Would make /opt/training with torch 2.14.1, transformers, einops." in outcome.result.output


def test_a_new_environment_and_a_second_run(finished: Container) -> None:
    found = versions(finished)
    assert (found["torch"], found["transformers"], found["einops"]) == ("2.14.1", "4.57.6", "0.8.0")
    again = run_one(ROLE, finished, WISH)
    assert (again.sentence, again.changed) == ("", 0)
    assert run_one(ROLE, finished, WISH, check=True, diff=True).changed == 0


def test_adding_one_package_moves_no_other(finished: Container) -> None:
    before = versions(finished)
    wish = {**WISH, "torch_environment_extra_packages": {"flash-linear-attention": "0.6.0"}}
    outcome = run_one(ROLE, finished, wish)
    assert "flash-linear-attention 0.6.0 needs transformers<6" in outcome.sentence
    assert "transformers==4.57.6 is installed" in outcome.sentence
    assert versions(finished) == before


def test_an_environment_for_another_user(ready: Container) -> None:
    """Ansible becomes that user in the container, which needs acl; pip runs as that user."""
    ready.run("useradd -m -s /bin/bash trainer")
    wish = {**WISH, "torch_environment_owner": "trainer", "torch_environment_path": "/srv/environment"}
    first = run_one(ROLE, ready, wish)
    assert first.sentence == ""
    assert ready.run("find /srv/environment -not -user trainer") == ""
    assert run_one(ROLE, ready, wish).changed == 0


def test_an_interrupted_installation_is_finished_by_the_next_run(ready: Container) -> None:
    """The time limit kills pip: first in the middle of making the environment, then while it installs."""
    stopped = run_one(ROLE, ready, {**WISH, "torch_environment_timeout": 1})
    assert "did not finish in 1 s (torch_environment_timeout)" in stopped.sentence
    assert run_one(ROLE, ready, WISH).sentence == ""
    assert versions(ready)["torch"] == "2.14.1"
    ready.run("rm /opt/training/lib/python3*/site-packages/torch-*.dist-info/RECORD")
    ready.run("mv /opt/training/lib/python3.11/site-packages/torch/version.py /root")
    assert run_one(ROLE, ready, WISH).sentence == ""
    assert ready.run("cat /opt/training/proxmox_gpu.json") == '{"schema": 1, "state": "made"}'
    assert run_one(ROLE, ready, WISH).changed == 0


# --- faults: one playbook, a container each ---------------------------------------------------------------------------


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


PORT = closed_port()
CPU = {**WISH, "torch_environment_cpu_only": True, "torch_environment_packages": {}}
FAULTS: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "unreachable_index": (
        {"torch_environment_index_url": f"http://127.0.0.1:{PORT}/simple", "torch_environment_find_links": []},
        "",
        [f"http://127.0.0.1:{PORT}/simple/", "cannot be reached (Connection refused)", "torch_environment_index_url"],
    ),
    "proxy": (
        {
            "torch_environment_index_url": "https://index.invalid/simple",
            "torch_environment_find_links": [],
            "torch_environment_proxy": f"http://user:secret@127.0.0.1:{PORT}/",
        },
        "",
        ["the proxy cannot be reached (Connection refused)", "torch_environment_proxy"],
    ),
    "no_such_version": (
        {"torch_environment_torch": "9.9"},
        "",
        ["no index offers torch==9.9 for this Python and machine", "2.15.0"],
    ),
    "no_disk": (
        {"torch_environment_minimum_free_bytes": 1 << 50},
        "",
        ["GiB are free for /opt/training", "torch_environment_minimum_free_bytes", "pct resize"],
    ),
    "full_disk": (
        {},
        "mkdir /opt/training && mount -t tmpfs -o size=4m tmpfs /opt/training",
        ["disk is full", "pct resize"],
    ),
    "strangers": (
        {},
        "mkdir /opt/training && touch /opt/training/thesis.tex",
        ["/opt/training exists and is no Python environment (it holds thesis.tex)"],
    ),
    "interpreter": (
        {"torch_environment_python": "python3.99"},
        "",
        ["python3.99 cannot be run", "torch_environment_python"],
    ),
    "not_managed": (
        {"torch_environment_manage": False},
        "",
        ["There is no Python environment at /opt/training (torch_environment_path)"],
    ),
}


@pytest.fixture(scope="module")
def failed(places: Box, base: str, wheels: str) -> dict[str, Outcome]:
    hosts = dict(zip(FAULTS, role_runs.containers(places, range(240, 240 + len(FAULTS)), base)))
    for name, container in hosts.items():
        with_wheels(container, wheels).run(FAULTS[name][1] or "true")
    variables = {container.vmid: {**WISH, **FAULTS[name][0]} for name, container in hosts.items()}
    outcomes = run_role(ROLE, hosts.values(), variables)
    return {name: outcomes[container.vmid] for name, container in hosts.items()}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_sentence(failed: dict[str, Outcome], name: str) -> None:
    sentence = failed[name].sentence
    assert sentence, "the role went on"
    for word in FAULTS[name][2]:
        assert word in sentence
    assert "\n" not in sentence
    assert "secret" not in sentence


def test_a_cpu_build_is_named_where_cuda_is_wanted_and_replaced_when_told(ready: Container) -> None:
    assert run_one(ROLE, ready, CPU).sentence == ""
    assert versions(ready)["torch"] == "2.14.1+cpu"
    outcome = run_one(ROLE, ready, WISH)
    assert "torch 2.14.1+cpu in /opt/training is not a CUDA build, and one is wanted" in outcome.sentence
    assert "torch_environment_replace_torch" in outcome.sentence
    assert run_one(ROLE, ready, {**WISH, "torch_environment_replace_torch": True}).sentence == ""
    assert versions(ready)["torch"] == "2.14.1"


def test_another_torch_is_not_moved_untold(finished: Container) -> None:
    outcome = run_one(ROLE, finished, {**WISH, "torch_environment_torch": "2.15.0"})
    assert "torch 2.14.1 is installed in /opt/training, and 2.15.0 is wanted" in outcome.sentence
    assert versions(finished)["torch"] == "2.14.1"
