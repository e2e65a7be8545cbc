# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role cuda_repository against a real apt and a stand-in for NVIDIA's host, well and with each of its faults."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testbed import cuda_repository
from testbed.cuda_repository import faults, server
from tests.integration import role_runs
from tests.integration.box import Box, Container
from tests.integration.role_runs import Outcome, run_one, run_role

pytestmark = pytest.mark.timeout(600)

ROLE = "cuda_repository"
NAME = "debian12/x86_64"
ENTRY = "/etc/apt/sources.list.d/cuda-debian12-x86_64.sources"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
NVIDIA = "https://developer.download.nvidia.com/compute/cuda/repos"
AT_ONCE = {"cuda_repository_retries": 0, "cuda_repository_lock_timeout": 0}
# Every source file with its content, and the keyring: what a failure must leave as it was.
STATE = "cd /etc/apt; md5sum sources.list sources.list.d/* 2>/dev/null; ls /usr/share/keyrings"


@pytest.fixture(scope="module")
def base(places: Box) -> str:
    return role_runs.base(places, 240)


@pytest.fixture(scope="module")
def built(box: Box) -> Path:
    return cuda_repository.build(box.layout.cuda_repository, box.layout.cache / "cuda_repository", print)


@pytest.fixture
def ready(places: Box, base: str) -> Container:
    """A bootstrapped container that has never seen the repository."""
    return places.container(240).fresh("--from", base)


def wish(folder: Path, url: str, name: str = NAME) -> dict[str, Any]:
    """The role's variables for a built folder that is served at ``url``."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return {
        **AT_ONCE,
        "cuda_repository_mirror": f"{url}/compute/cuda/repos",
        "cuda_repository_key_fingerprints": [(folder / "fingerprint").read_text().strip()],
        "cuda_repository_keyring_sha256": manifest["repositories"][name]["keyring_sha256"],
    }


# --- well -------------------------------------------------------------------------------------------------------------


def test_check_mode_shows_the_entry_and_changes_nothing(ready: Container) -> None:
    before = ready.run(STATE)
    outcome = run_one(ROLE, ready, check=True, diff=True)
    assert (outcome.sentence, outcome.changed) == ("", 2)
    assert f"+++ after: {ENTRY}" in outcome.result.output
    assert ready.run(STATE) == before


def test_check_mode_on_a_bare_container_ends_cleanly(places: Box) -> None:
    outcome = run_one(ROLE, places.container(249).fresh(), check=True, diff=True)
    assert (outcome.sentence, outcome.changed) == ("", 0)
    assert "Would register NVIDIA's CUDA repository" in outcome.result.output


def test_it_is_registered_once_and_a_second_run_changes_nothing(ready: Container) -> None:
    first = run_one(ROLE, ready)
    assert first.sentence == ""
    assert "cuda-nvcc-13-0" in ready.run("apt-cache search --names-only '^cuda-nvcc-13-0$'")
    ready.run(
        "apt-get update --error-on=any -o Acquire::Retries=0 -o Dir::Etc::sourceparts=- "
        f"-o Dir::Etc::sourcelist={ENTRY}"
    )
    # NVIDIA's package would have brought a list and a pin of its own, and its scripts.
    assert ready.attach("dpkg-query -W cuda-keyring").returncode != 0
    assert not ready.exists("/etc/apt/preferences.d/cuda-repository-pin-600")
    assert run_one(ROLE, ready).changed == 0
    assert run_one(ROLE, ready, check=True, diff=True).changed == 0


def test_every_other_entry_is_found_backed_up_and_taken_out_of_sight(ready: Container, box: Box, built: Path) -> None:
    """The state that people arrive with: apt refuses to do anything at all."""
    url = f"{NVIDIA}/debian12/x86_64"
    foreign = "# mine\ndeb [trusted=yes] file:/srv/mine ./\n\n#deb http://off.example/ /\n"
    ready.run("mkdir -p /srv/mine && touch /srv/mine/Packages")
    ready.write("/etc/apt/sources.list.d/cuda.list", f"deb {url} /\n")
    ready.write(
        "/etc/apt/sources.list.d/mixed.list", foreign.replace("\n\n", f"\ndeb {url.replace('https', 'http')}/ /\n\n")
    )
    ready.write(
        "/etc/apt/sources.list.d/second.sources",
        f"Types: deb\nURIs: {url}/\nSuites: /\nSigned-By: /etc/apt/keyrings/nvidia.asc\n",
    )
    deb = built / "compute/cuda/repos" / NAME / "cuda-keyring_1.1-1_all.deb"
    copy_into(ready, deb, "/root/keyring.deb")
    ready.run("dpkg -i /root/keyring.deb")
    assert ready.exists("/etc/apt/sources.list.d/cuda-debian12-x86_64.list"), "the package brings a list of its own"
    assert "Conflicting values set for option Signed-By" in ready.attach("apt-get update 2>&1").stdout
    outcome = run_one(ROLE, ready)
    assert outcome.sentence == ""
    names = set(ready.run("ls /etc/apt/sources.list.d").split())
    assert {"mixed.list", "cuda-debian12-x86_64.sources"} <= names
    assert not names & {"cuda.list", "second.sources", "cuda-debian12-x86_64.list"}
    assert ready.run("cat /etc/apt/sources.list.d/mixed.list") == foreign
    ready.run("apt-get update 2>&1")
    backup = ready.run("ls -d /var/backups/proxmox_gpu/*").strip()
    assert set(ready.run(f"ls {backup}/etc/apt/sources.list.d").split()) == {
        "cuda.list",
        "mixed.list",
        "second.sources",
        "cuda-debian12-x86_64.list",
    }
    assert run_one(ROLE, ready).changed == 0


def copy_into(container: Container, file: Path, path: str) -> None:
    """A binary file by way of base64, since commands take text."""
    container.run(f"base64 -d > {path}", stdin=base64.b64encode(file.read_bytes()).decode())


def test_an_installed_keyring_package_is_neither_changed_nor_downgraded(ready: Container, built: Path) -> None:
    """It is compared by its key, without any network; a newer version of the package stays."""
    deb = built / "compute/cuda/repos" / NAME / "cuda-keyring_1.1-1_all.deb"
    copy_into(ready, deb, "/root/keyring.deb")
    ready.run(
        "dpkg -i /root/keyring.deb && sed -i '/^Package: cuda-keyring$/,/^$/s/^Version: .*/Version: 9.9-1/' "
        "/var/lib/dpkg/status"
    )
    outcome = run_one(ROLE, ready, {"cuda_repository_keyring_version": "no-such-version"})
    assert outcome.sentence == ""
    assert ready.run("dpkg-query -W -f '${Version}' cuda-keyring") == "9.9-1"
    changed = {line.split()[-1] for line in ready.run("dpkg --verify cuda-keyring || true").splitlines()}
    assert changed == {"/etc/apt/sources.list.d/cuda-debian12-x86_64.list"}, "only its list file is taken out of sight"


def test_the_keyring_package_from_the_controller(ready: Container, built: Path) -> None:
    deb = built / "compute/cuda/repos" / NAME / "cuda-keyring_1.1-1_all.deb"
    outcome = run_one(ROLE, ready, {"cuda_repository_keyring_deb": str(deb)})
    assert outcome.sentence == ""
    assert ready.exists(ENTRY)


def test_an_interruption_after_any_step_is_finished_by_the_next_run(ready: Container, box: Box) -> None:
    """Stopped after the key, and then after the entry was taken out but before the new one came."""
    run_one(ROLE, ready).result.ok()
    ready.run(f"rm {ENTRY}")
    assert run_one(ROLE, ready).sentence == ""
    ready.run(f"rm {KEYRING}")
    assert run_one(ROLE, ready).sentence == ""
    ready.run("rm -rf /var/lib/apt/lists/*compute* && mkdir -p /var/lib/apt/lists/partial")
    assert run_one(ROLE, ready).sentence == ""
    assert run_one(ROLE, ready).changed == 0


# --- faults: one playbook, a container each ---------------------------------------------------------------------------


@dataclass
class Fault:
    """``variant``: a function of testbed.cuda_repository.faults that makes the broken copy to serve, if any."""

    words: list[str]
    variant: Callable[[Path, Path], Path] | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    setup: str = ""
    #: The variant has a keyring package of its own, whose checksum is the wished one.
    checksum_of_variant: bool = False


SYSTEM = 'rm -f /etc/os-release; printf \'ID={}\\nVERSION_ID="{}"\\nPRETTY_NAME="The {}"\\n\' > /etc/os-release'
CLOSED = "CLOSED"  # replaced by a port of this machine on which nobody listens
FAULTS = {
    "wrong_signature": Fault(["the repository is signed by the key", "keyring does not hold"], faults.wrong_signature),
    "expired_key": Fault(["signing key", "has expired"], faults.expired_key, checksum_of_variant=True),
    "unsigned": Fault(["carries no signature at all", "cuda_repository_mirror"], faults.unsigned),
    "publishing_index": Fault(["unexpected size", "published right now", "retry later"], faults.publishing_index),
    "missing_packages": Fault(["but it is not there (404)", "retry later"], faults.missing_packages),
    "malformed_packages": Fault(["package list", "is malformed", "retry later"], faults.malformed_packages),
    "keyring_checksum": Fault(["has the SHA-256", "cuda_repository_keyring_sha256"], faults.keyring_checksum),
    "keyring_foreign_key": Fault(
        ["holds the key", "instead of", "cuda_repository_key_fingerprints"], faults.keyring_foreign_key
    ),
    "no_such_path": Fault(
        ["there is no keyring package at", "(404)", "cuda_repository_mirror"],
        None,
        {"cuda_repository_distribution": "debian99"},
    ),
    "unreachable": Fault(
        ["cannot be reached (Connection refused)", "cuda_repository_mirror"],
        None,
        {"cuda_repository_mirror": f"http://127.0.0.1:{CLOSED}/compute/cuda/repos"},
    ),
    "proxy_refused": Fault(
        ["cannot be reached through the proxy 127.0.0.1:", "cuda_repository_proxy"],
        None,
        {"cuda_repository_proxy": f"http://user:secret@127.0.0.1:{CLOSED}/"},
    ),
    "tls": Fault(["TLS to 127.0.0.1:", "bootstrap_ca_certificates"], None, {"cuda_repository_mirror": "HTTPS"}),
    "debian13_without_checksum": Fault(
        ["No checksum is known for the keyring package of debian13-x86_64", "cuda_repository_keyring_sha256"],
        None,
        {"cuda_repository_keyring_sha256": ""},
        SYSTEM.format("debian", "13", "Debian"),
    ),
    "unsupported": Fault(
        ["The container runs The Alpine", "supported are"],
        None,
        {},
        SYSTEM.format("alpine", "3.20", "Alpine"),
    ),
    "keyring_deb_missing": Fault(
        ["There is no file /no/such.deb on the controller"], None, {"cuda_repository_keyring_deb": "/no/such.deb"}
    ),
}
GROUPS = [list(FAULTS)[:8], list(FAULTS)[8:]]


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def failed(
    places: Box, base: str, built: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Outcome, bool]]:
    """{fault: (outcome, whether apt's files and the keyrings are as they were)}"""
    found: dict[str, tuple[Outcome, bool]] = {}
    port = str(closed_port())
    for group in GROUPS:
        folder = tmp_path_factory.mktemp("variants")
        hosts = dict(zip(group, role_runs.containers(places, range(240, 240 + len(group)), base)))
        with ExitStack() as stack:
            variables = {}
            for name, container in hosts.items():
                fault = FAULTS[name]
                served = fault.variant(built, folder / name) if fault.variant else built
                url = stack.enter_context(server.serving(served, folder / f"{name}.log")).url
                own = {**wish(served, url), **fault.variables}
                if fault.checksum_of_variant:
                    deb = served / "compute/cuda/repos" / NAME / "cuda-keyring_1.1-1_all.deb"
                    own["cuda_repository_keyring_sha256"] = hashlib.sha256(deb.read_bytes()).hexdigest()
                if own["cuda_repository_mirror"] == "HTTPS":
                    own["cuda_repository_mirror"] = f"{url.replace('http', 'https')}/compute/cuda/repos"
                variables[container.vmid] = json.loads(json.dumps(own).replace(CLOSED, port))
                if fault.setup:
                    container.run(fault.setup)
            before = {name: container.run(STATE) for name, container in hosts.items()}
            outcomes = run_role(ROLE, hosts.values(), variables)
        for name, container in hosts.items():
            after = container.run(STATE)
            same = after == before[name] or after.replace("cuda-archive-keyring.gpg\n", "") == before[name]
            container.run("apt-get check")
            found[name] = (outcomes[container.vmid], same)
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_sentence_and_registers_nothing(failed: dict[str, tuple[Outcome, bool]], name: str) -> None:
    outcome, same = failed[name]
    assert outcome.sentence, "the role went on"
    for word in FAULTS[name].words:
        assert word in outcome.sentence
    assert "\n" not in outcome.sentence
    assert "secret" not in outcome.sentence
    assert same, "a repository that was not verified has left something in apt's sight"


def heal_at_the_second_try(running: server.Server, limit: float = 240.0) -> None:
    """Takes the fault away once the repository has been asked for a second time, however long a try takes here."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        asked = running.log.read_text() if running.log.exists() else ""
        if asked.count(f"/{NAME}/InRelease") > 1:
            break
        time.sleep(0.1)
    running.faults.write_text("[]")


def test_a_repository_that_is_being_published_is_tried_again(ready: Container, built: Path, tmp_path: Path) -> None:
    """The first answers do not match; then the rest of the release arrives, as at NVIDIA's."""
    with server.serving(built, tmp_path / "log") as running:
        running.faults.write_text(json.dumps([{"prefix": f"/compute/cuda/repos/{NAME}/Packages", "answer": 503}]))
        variables = {**wish(built, running.url), "cuda_repository_retries": 8, "cuda_repository_retry_delay": 1}
        healing = threading.Thread(target=heal_at_the_second_try, args=(running,))
        healing.start()
        outcome = run_one(ROLE, ready, variables)
        healing.join()
    assert outcome.sentence == ""
    assert "FAILED - RETRYING" in outcome.result.output


def test_the_holder_of_the_lock_is_named(ready: Container) -> None:
    ready.run(
        'python3 -c \'import fcntl, time; f = open("/var/lib/apt/lists/lock", "a"); fcntl.lockf(f, fcntl.LOCK_EX); '
        'open("/root/held", "w"); time.sleep(30)\' > /dev/null 2>&1 & until [ -e /root/held ]; do sleep 0.1; done'
    )
    outcome = run_one(ROLE, ready, AT_ONCE)
    assert "(python3) holds /var/lib/apt/lists/lock" in outcome.sentence


def test_the_proxy_is_for_that_host_alone_and_its_login_is_not_shown(ready: Container, built: Path) -> None:
    """The key is there, so apt is the first to meet the proxy, at which nobody listens."""
    copy_into(ready, built / "compute/cuda/repos" / NAME / "cuda-keyring_1.1-1_all.deb", "/root/keyring.deb")
    ready.run("dpkg -i /root/keyring.deb")
    proxy = f"http://user:secret@127.0.0.1:{closed_port()}/"
    outcome = run_one(ROLE, ready, {**AT_ONCE, "cuda_repository_proxy": proxy}, diff=True)
    assert "cannot be reached" in outcome.sentence
    assert "secret" not in outcome.result.output
    file = "/etc/apt/apt.conf.d/81proxmox-gpu-cuda-proxy"
    assert ready.run(f"stat -c %a {file}") == "600\n"
    configured = ready.run("apt-config dump | grep -i proxy").splitlines()
    assert {line.split()[0] for line in configured if "secret" in line} == {
        "Acquire::http::Proxy::127.0.0.1",
        "Acquire::https::Proxy::127.0.0.1",
    }
    assert run_one(ROLE, ready).sentence == ""
    assert not ready.exists(file), "a proxy that is not wished any more goes"
