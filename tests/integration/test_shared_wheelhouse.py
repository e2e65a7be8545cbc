# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheelhouse that containers share, with real builds: several builders, and a real web server over TLS."""

from __future__ import annotations

import functools
import http.server
import json
import os
import signal
import subprocess
import threading
import time
from calendar import timegm
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testbed.api_standin import certificates
from tests.integration import role_runs, tiny_extension
from tests.integration.box import Box, Container
from tests.integration.extension_containers import (
    HOUSE,
    IMPORT,
    LOG,
    RECORD,
    REMOVE,
    ROLE,
    gone_afterwards,
    started,
    wait_for,
)

pytestmark = pytest.mark.timeout(1200)

CHECKOUT = Path(__file__).resolve().parents[2]
BUILD_WHEELS = CHECKOUT / "playbooks" / "build_wheels.yml"
VMIDS = (261, 262, 263)


@pytest.fixture(scope="module", autouse=True)
def tidy(box: Box) -> Iterator[None]:
    with gone_afterwards(box, VMIDS):
        yield


@pytest.fixture(scope="module")
def containers(box: Box) -> list[Container]:
    """The last one has no network at all."""
    return [*started(box, 261, 262), *started(box, 263, options=("--no-network",))]


def variables(house: object, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"source": tiny_extension.ARCHIVE}
    return {**tiny_extension.variables(**fields), "cuda_extensions_shared_wheelhouse": str(house), **more}


def manifests(house: Path) -> dict[str, dict[str, Any]]:
    """{GPU target: manifest}"""
    found = [json.loads(path.read_text()) for path in house.glob("torch-*/*.json")]
    return {one["key"]["gpu_targets"][0]: one for one in found}


# ---- builders


@pytest.fixture(scope="module")
def house(box: Box, containers: list[Container], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared wheelhouse with two keys, each built by one of two builders."""
    folder = tmp_path_factory.mktemp("shared") / "house"
    one, other, _third = containers
    wanted = [tiny_extension.wish(gpu_targets=[number], source=tiny_extension.ARCHIVE) for number in ("8.0", "9.0")]
    wishes = variables(folder, cuda_extensions_wanted=wanted, cuda_extensions_builders=[one.host, other.host])
    result = box.run_playbook(BUILD_WHEELS, f"{one.host},{other.host}", wishes, timeout=900).ok()
    assert (result.changed(one.host), result.changed(other.host)) == (1, 1), result.output
    return folder


def test_two_builders_build_two_keys_at_the_same_time(containers: list[Container], house: Path) -> None:
    spans = []
    for built in (one["built"] for one in manifests(house).values()):
        finished = timegm(time.strptime(built["finished"], "%Y-%m-%dT%H:%M:%SZ"))
        spans.append((finished - built["seconds"], finished))
    (first_begin, first_end), (second_begin, second_end) = spans
    assert max(first_begin, second_begin) < min(first_end, second_end), spans
    assert sorted(manifests(house)) == ["sm_80", "sm_90"]
    for container in containers[:2]:
        assert container.run(f"grep -c 'Successfully built' {LOG}").strip() == "1"
        assert not container.exists(RECORD)


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """The playbook and all its workers at once, as when the control node loses its power."""
    family, before = {process.pid}, 0
    while len(family) > before:
        before = len(family)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(stat.read_text().rpartition(")")[2].split()[1]) in family:
                    family.add(int(stat.parent.name))
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def openers(folder: Path) -> int:
    """How many processes have a file of this folder open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(link).startswith(f"{folder}/") and "sm_86" in os.readlink(link):
                found.add(link.parts[2])
    return len(found)


def test_of_several_that_want_one_wheel_one_builds_and_another_takes_over_when_it_dies(
    box: Box, containers: list[Container], house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three playbooks on three containers. The first one and its build are killed; of the two others one builds."""
    wishes = variables(house, cuda_extensions_gpu_targets=["8.6"])
    processes: list[subprocess.Popen[bytes]] = []
    outputs: dict[str, str] = {}
    real = subprocess.Popen

    def remember(*arguments: Any, **options: Any) -> Any:
        processes.append(real(*arguments, **options))
        return processes[-1]

    def run(container: Container) -> None:
        outputs[container.vmid] = box.run_playbook(BUILD_WHEELS, container.host, wishes, timeout=900).output

    runners = [threading.Thread(target=run, args=(container,)) for container in containers]
    monkeypatch.setattr(subprocess, "Popen", remember)
    runners[0].start()
    status = wait_for(containers[0], '"compiling"')
    first = next(one for one in processes if "ansible-playbook" in " ".join(map(str, one.args)))  # type: ignore[arg-type]
    monkeypatch.undo()
    # The build stands still until the others wait for it.
    containers[0].run(f"kill -{signal.SIGSTOP} {status['pid']}")
    for runner in runners[1:]:
        runner.start()
    deadline = time.monotonic() + 120
    while openers(house / ".lock") < 3 and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(2)
    kill_with_children(first)
    containers[0].attach(f"kill -{signal.SIGKILL} {status['pid']}; pkill -9 -f nvcc; true")
    for runner in runners:
        runner.join(timeout=900)
    others = [outputs[container.vmid] for container in containers[1:]]
    assert all("failed=0" in output for output in others), others
    assert sorted("compiling" in output for output in others) == [False, True]
    assert any(f"waiting for its wheel, which {containers[0].host} " in output for output in others), others
    assert "sm_86" in manifests(house)


# ---- a web server


class _Handler(http.server.SimpleHTTPRequestHandler):
    hang = False

    def do_GET(self) -> None:
        if type(self).hang:
            time.sleep(90)
        else:
            super().do_GET()

    def log_message(self, *_arguments: object) -> None:
        pass


Installing = Callable[..., role_runs.Outcome]


@pytest.fixture
def address(box: Box, house: Path) -> Iterator[str]:
    """The wheelhouse behind a web server with a certificate of the box's own authority."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(house))) as server:
        server.daemon_threads = True
        server.socket = certificates.context(box.layout, "good").wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}"
        _Handler.hang = False
        server.shutdown()


@pytest.fixture
def install(box: Box, containers: list[Container], tmp_path: Path) -> Installing:
    """Run the role on the container without a network; ``home`` is where the control node has a folder of its own."""

    def run(address: str, home: str = "home", **more: Any) -> role_runs.Outcome:
        environment = {"SSL_CERT_FILE": str(box.layout.client / "pve-root-ca.pem"), "HOME": str(tmp_path / home)}
        return role_runs.run_one(ROLE, containers[2], variables(address, **more), environment=environment, timeout=900)

    return run


def squeezed(text: str) -> str:
    """Without the places where a warning is wrapped."""
    return "".join(text.split())


def test_a_container_installs_from_a_web_server_and_falls_back_where_that_is_no_good(
    containers: list[Container], house: Path, address: str, install: Installing
) -> None:
    container = containers[2]
    container.attach(f"rm -f {LOG}")
    outcome = install(address)
    assert (outcome.sentence, outcome.changed) == ("", 1), outcome.result.output
    assert "compiling" not in outcome.result.output
    assert "Successfully built" not in container.run(f"cat {LOG}")
    assert "add_one" in container.run(IMPORT)

    # One byte is another, and the manifest is the old one.
    (wheel,) = house.glob("torch-*_sm_90/*.whl")
    good = wheel.read_bytes()
    wheel.write_bytes(good[:5000] + bytes([good[5000] ^ 1]) + good[5001:])
    container.run(f"{REMOVE}; rm -rf {HOUSE}", timeout=300)
    outcome = install(address)
    assert (outcome.sentence, outcome.changed) == ("", 1), outcome.result.output
    said = f"{address}/{wheel.parent.name}/{wheel.name} does not have the checksum that its manifest names"
    assert squeezed(said) in squeezed(outcome.result.output)
    assert "ct263: tiny-gpu-ops 1.0: compiling" in outcome.result.output
    assert "add_one" in container.run(IMPORT)

    # What was built lies in the control node's own folder, so the next container compiles nothing.
    container.run(f"{REMOVE}; rm -rf {HOUSE}", timeout=300)
    outcome = install(address)
    assert (outcome.sentence, outcome.changed) == ("", 1), outcome.result.output
    assert "compiling" not in outcome.result.output


def test_a_server_that_hangs_or_is_not_there_is_one_warning(
    containers: list[Container], address: str, install: Installing
) -> None:
    """The container has the wheel itself, and installs that one."""
    container = containers[2]
    _Handler.hang = True
    for place, sentence in ((address, "timed out"), ("https://127.0.0.1:9/wheels", "Connection refused")):
        container.run(REMOVE, timeout=300)
        outcome = install(place, home=f"empty {sentence}")
        assert (outcome.sentence, outcome.changed) == ("", 1), outcome.result.output
        assert squeezed(f"{sentence}; it is not used") in squeezed(outcome.result.output)
        assert outcome.result.seconds < 120
        assert "add_one" in container.run(IMPORT)
