# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role bootstrap: a bare container becomes ready, and each fault on the way is one sentence."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration import role_runs
from tests.integration.box import Box, Container
from tests.integration.role_runs import Outcome, run_one, run_role

pytestmark = pytest.mark.timeout(600)

VMIDS = range(240, 250)
ROLE = "bootstrap"
# A process that takes fcntl locks, as dpkg and apt do, and keeps them.
HOLD = """import fcntl, sys, time
files = [open(path, "a") for path in sys.argv[2:]]
for file in files: fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(float(sys.argv[1]))
"""


@dataclass
class Bootstrapped:
    container: Container
    before: str
    after_check: str
    check: Outcome
    first: Outcome
    second: Outcome
    check_again: Outcome


def files_of(container: Container) -> str:
    """Every file outside of what the kernel and a running apt make up, with size and time."""
    return container.run(
        "find /etc /usr /var -xdev -type f -not -path '/var/cache/*' -not -path '/var/log/*' "
        "-printf '%p %s %T@\\n' | sort"
    )


@pytest.fixture(scope="module")
def bootstrapped(places: Box) -> Bootstrapped:
    """A bare container: a check run, a run, and the same again."""
    container = places.container(240).fresh()
    before = files_of(container)
    check = run_one(ROLE, container, check=True, diff=True)
    after_check = files_of(container)
    first, second = run_one(ROLE, container), run_one(ROLE, container)
    check_again = run_one(ROLE, container, check=True, diff=True)
    return Bootstrapped(container, before, after_check, check, first, second, check_again)


def test_check_mode_on_a_bare_container_says_what_it_would_do_and_does_nothing(bootstrapped: Bootstrapped) -> None:
    assert bootstrapped.check.sentence == ""
    message = bootstrapped.check.result.task("Say what would be installed").message
    assert message.startswith("Would install python3, python3-venv, ")
    assert bootstrapped.after_check == bootstrapped.before


def test_a_bare_container_becomes_ready(bootstrapped: Bootstrapped) -> None:
    assert bootstrapped.first.sentence == ""
    assert bootstrapped.first.changed > 0
    container = bootstrapped.container
    container.run("python3 -c 'import apt_pkg, venv, ensurepip'")
    # What Triton needs when training runs.
    container.run("echo '#include <Python.h>' | gcc -x c -fsyntax-only $(python3-config --includes) -")
    for program in ("setfacl", "sudo", "update-ca-certificates"):
        container.run(f"command -v {program}")


def test_the_machine_s_own_authorities_are_trusted(bootstrapped: Bootstrapped, box: Box) -> None:
    """What the inventory names is in the bundle; with none there is nothing to find."""
    certificates = sorted((box.layout.state / "client" / "ca_certificates").glob("*.crt"))
    bundle = "".join(bootstrapped.container.run("cat /etc/ssl/certs/ca-certificates.crt").split())
    for certificate in certificates:
        body = certificate.read_text().partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END")[0]
        assert "".join(body.split()) in bundle


def test_a_second_run_changes_nothing(bootstrapped: Bootstrapped) -> None:
    for again in (bootstrapped.second, bootstrapped.check_again):
        assert (again.sentence, again.changed) == ("", 0)


# --- faults before anything runs: one playbook, a container each ------------------------------------------------------


@pytest.fixture(scope="module")
def refused(places: Box, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Container], dict[str, Outcome]]:
    folder = tmp_path_factory.mktemp("certificates")
    (folder / "empty.pem").write_text("this is no certificate\n")
    found = role_runs.containers(places, list(VMIDS)[1:9])
    for container, system in zip(found, (("alpine", "3.20"), ("debian", "11"))):
        text = 'ID={0}\nVERSION_ID="{1}"\nPRETTY_NAME="The {0} {1}"\n'.format(*system)
        container.run("rm -f /etc/os-release")
        container.write("/etc/os-release", text)
    variables: dict[str, dict[str, object]] = {
        "243": {"bootstrap_minimum_free_bytes": 1 << 50},
        "244": {"bootstrap_ca_certificates": [str(folder / "none.pem")]},
        "245": {"bootstrap_ca_certificates": [str(folder / "empty.pem")]},
        "246": {"bootstrap_apt_mirror": "http://127.0.0.1:1", "bootstrap_apt_retries": 0},
        "247": {"bootstrap_http_proxy": "http://user:secret@127.0.0.1:1/", "bootstrap_apt_retries": 0},
        "248": {"bootstrap_packages": ["python3", "no-such-package-at-all"]},
    }
    return found, run_role(ROLE, found, variables)


@pytest.mark.parametrize(
    ("vmid", "words"),
    [
        ("241", ["The container runs The alpine 3.20", "supported are", "Debian 12", "Ubuntu 24.04"]),
        ("242", ["The container runs The debian 11", "supported are"]),
        ("243", ["MiB are free on /", "1073741824 are needed (bootstrap_minimum_free_bytes)", "pct resize"]),
        ("244", ["There is no file", "none.pem on the controller; correct bootstrap_ca_certificates."]),
        ("245", ["There is no certificate in PEM form in", "empty.pem; correct bootstrap_ca_certificates."]),
        ("246", ["http://127.0.0.1:1/", "cannot be reached", "Connection refused", "bootstrap_apt_mirror"]),
        ("247", ["the proxy 127.0.0.1:1 cannot be reached", "check bootstrap_http_proxy"]),
        ("248", ["no registered repository offers the package no-such-package-at-all"]),
    ],
)
def test_a_fault_is_one_sentence_and_installs_nothing(
    refused: tuple[list[Container], dict[str, Outcome]], vmid: str, words: list[str]
) -> None:
    found, outcomes = refused
    for word in words:
        assert word in outcomes[vmid].sentence
    assert "secret" not in outcomes[vmid].sentence
    container = next(one for one in found if one.vmid == vmid)
    assert container.attach("command -v python3").returncode != 0


def test_a_proxy_with_a_login_is_for_root_s_eyes_only(refused: tuple[list[Container], dict[str, Outcome]]) -> None:
    container = next(one for one in refused[0] if one.vmid == "247")
    assert container.run("stat -c %a /etc/apt/apt.conf.d/80proxmox-gpu-proxy") == "600\n"


def test_the_mirror_is_set_with_a_backup(refused: tuple[list[Container], dict[str, Outcome]]) -> None:
    container = next(one for one in refused[0] if one.vmid == "246")
    sources = container.run("cat /etc/apt/sources.list /etc/apt/sources.list.d/*")
    assert "http://127.0.0.1:1/" in sources
    assert "deb.debian.org" not in sources
    assert "deb.debian.org" in container.run("cat /var/backups/proxmox_gpu/*/etc/apt/sources.list")


# --- faults of a container that is almost ready -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(places: Box) -> str:
    return role_runs.base(places, 249)


@pytest.fixture
def ready(places: Box, base: str) -> Container:
    """A bootstrapped container from which one package was taken."""
    container = places.container(249).fresh("--from", base)
    container.run("dpkg --purge acl")
    return container


def test_a_mirror_that_is_set_later_is_put_into_the_sources(places: Box, base: str) -> None:
    """The base holds: nothing but this variable differs from what is there."""
    container = places.container(249).fresh("--from", base)
    check = run_one(ROLE, container, {"bootstrap_apt_mirror": "http://one.invalid"}, check=True)
    assert "package sources are not" in check.result.task("Say what would be installed").message
    for mirror in ("http://one.invalid/", "http://two.invalid"):
        wish = {"bootstrap_apt_mirror": mirror}
        first, second = run_one(ROLE, container, wish), run_one(ROLE, container, wish)
        assert (first.sentence, first.changed, second.sentence, second.changed) == ("", 1, "", 0)
    sources = container.run("cat /etc/apt/sources.list /etc/apt/sources.list.d/*")
    assert "http://two.invalid/" in sources
    assert "one.invalid" not in sources


def hold(container: Container, seconds: float, *locks: str) -> None:
    """Take apt's locks in the container, by a process that ends by itself."""
    container.write("/root/hold.py", HOLD)
    start = f"python3 /root/hold.py {seconds} {' '.join(locks)} > /root/held 2>&1 &"
    container.run(f"echo > /root/held; {start} until grep -q held /root/held; do sleep 0.1; done")


@pytest.mark.parametrize(
    "lock", ["/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"]
)
def test_the_holder_of_a_lock_is_named(ready: Container, lock: str) -> None:
    hold(ready, 300, lock)
    outcome = run_one(ROLE, ready, {"bootstrap_apt_lock_timeout": 0, "bootstrap_apt_retries": 0})
    assert "apt is locked: process " in outcome.sentence
    assert f"(python3) holds {lock}" in outcome.sentence


def test_a_lock_is_waited_for(ready: Container) -> None:
    hold(ready, 5, "/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock")
    outcome = run_one(ROLE, ready, {"bootstrap_apt_lock_timeout": 60, "bootstrap_apt_retries": 0})
    assert outcome.sentence == ""
    ready.run("command -v setfacl")


def test_a_full_disk_is_told(ready: Container) -> None:
    ready.run("mount -t tmpfs -o size=16k tmpfs /var/cache/apt/archives")
    outcome = run_one(ROLE, ready, {"bootstrap_apt_retries": 0})
    assert "the container's disk is full" in outcome.sentence


def test_a_broken_entry_for_the_cuda_repository_does_not_keep_the_base_from_being_repaired(ready: Container) -> None:
    """Two entries with different Signed-By stop apt altogether, and only the next role repairs that."""
    url = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64"
    ready.write(
        "/etc/apt/sources.list.d/cuda.list", f"deb [signed-by=/a.gpg] {url} /\ndeb [signed-by=/b.gpg] {url} /\n"
    )
    assert "Conflicting values" in ready.attach("apt-get update").stderr
    assert run_one(ROLE, ready).sentence == ""
    ready.run("command -v setfacl")


def test_an_interrupted_dpkg_is_finished(places: Box, base: str) -> None:
    container = places.container(249).fresh("--from", base)
    container.run("sed -i '/^Package: acl$/,/^$/s/^Status: .*/Status: install ok unpacked/' /var/lib/dpkg/status")
    assert "acl" in container.run("dpkg --audit")
    outcome = run_one(ROLE, container)
    assert outcome.sentence == ""
    assert container.run("dpkg --audit") == ""


def test_an_installation_that_is_stopped_half_way_goes_on_at_the_next_run(places: Box) -> None:
    """apt is killed by the time limit while it downloads or unpacks; nothing of that is repaired by hand."""
    container = places.container(241).fresh()
    stopped = run_one(ROLE, container, {"bootstrap_apt_timeout": 3, "bootstrap_apt_retries": 0})
    assert "did not finish in 3 s (bootstrap_apt_timeout)" in stopped.sentence
    assert run_one(ROLE, container).sentence == ""
    assert container.run("dpkg --audit") == ""
    container.run("python3 -c 'import apt_pkg'")


def test_a_certificate_comes_and_goes_with_the_list(places: Box, base: str, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run([*command, "-subj", "/CN=Test of a list", "-days", "2"], check=True, capture_output=True, timeout=60)
    body = "".join(certificate.read_text().split("-----")[2].split())
    container = places.container(249).fresh("--from", base)

    def trusted() -> bool:
        return body in "".join(container.run("cat /etc/ssl/certs/ca-certificates.crt").split())

    assert run_one(ROLE, container, {"bootstrap_ca_certificates": [str(certificate)]}).changed > 0
    assert trusted()
    container.run("dpkg --purge acl")  # one certificate too many does not break the link, so something else has to
    assert run_one(ROLE, container, {"bootstrap_ca_certificates": []}).sentence == ""
    assert not trusted()
