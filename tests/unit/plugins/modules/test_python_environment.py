# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real environments and a real pip, with tiny stand-ins for torch and its friends in a folder of wheels."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _environment_install
from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.judge import judge
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import torch
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host
from ansible_collections.proxmox_gpu.training.plugins.modules import python_environment
from tests.tiny_wheels import make_index
from tests.unit.plugins.module_utils._chain import hosts

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_index(tmp_path_factory.mktemp("wheels"))


class Machine:
    """Runs of the module on one environment, without any network."""

    def __init__(self, root: Path, wheels: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self.log, self._root, self._wheels, self._capsys = root / "env", root / "log", root, wheels, capsys

    def wanted(self, **arguments: Any) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "python": sys.executable,
            "torch": "2.14.1",
            "index_url": f"file://{self._root}/no-index",
            "find_links": [str(self._wheels)],
            "log_path": str(self.log),
            **arguments,
        }

    def run(self, status: int = 0, **arguments: Any) -> dict[str, Any]:
        with patch_module_args(self.wanted(**arguments)), pytest.raises(SystemExit) as ended:
            python_environment.main()
        result: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        assert ended.value.code == status, result
        return result

    @property
    def site_packages(self) -> Path:
        return next(self.path.glob("lib/python3*/site-packages"))

    def versions(self) -> dict[str, str]:
        """As pip itself sees them; pip and setuptools aside."""
        command = [f"{self.path}/bin/python", "-m", "pip", "--disable-pip-version-check", "list", "--format", "json"]
        listed = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
        return {one["name"]: one["version"] for one in listed if one["name"] not in ("pip", "setuptools")}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer's own pip configuration stays out."""
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """An environment with torch 2.14.1, transformers 4.57.6 and einops 0.8.0, made by the module."""
    root = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONFIG_FILE", "/dev/null")
        wanted = {
            "path": str(root / "env"),
            "python": sys.executable,
            "torch": "2.14.1",
            "packages": {"transformers": "4.57.6", "einops": "0.8.0"},
            "index_url": f"file://{root}/no-index",
            "find_links": [str(wheels)],
            "log_path": str(root / "log"),
        }
        with patch_module_args(wanted), pytest.raises(SystemExit) as ended:
            python_environment.main()
        assert ended.value.code == 0
    return root / "env"


@pytest.fixture
def fresh(tmp_path: Path, wheels: Path, capsys: pytest.CaptureFixture[str]) -> Machine:
    return Machine(tmp_path, wheels, capsys)


@pytest.fixture
def machine(fresh: Machine, finished: Path) -> Machine:
    """A copy of the finished environment."""
    shutil.copytree(finished, fresh.path, symlinks=True)
    for file in ("constraints.txt", "pip.conf"):
        text = (fresh.path / file).read_text()
        (fresh.path / file).write_text(text.replace(str(finished), str(fresh.path)))
    return fresh


WISHES = {"transformers": "4.57.6", "einops": "0.8.0"}


def test_check_mode_makes_nothing(fresh: Machine) -> None:
    promised = fresh.run(packages=WISHES, _ansible_check_mode=True, _ansible_diff=True)
    assert promised["changed"] is True
    assert promised["requirements"] == ["torch==2.14.1,!=2.14.1+cpu", "einops==0.8.0", "transformers==4.57.6"]
    assert promised["diff"]["after"].splitlines() == promised["requirements"]
    assert not fresh.path.exists()


def test_a_new_environment_gets_a_cuda_build_although_pip_prefers_the_cpu_build(machine: Machine) -> None:
    assert machine.versions() == {
        "torch": "2.14.1",
        "triton": "3.8.0",
        "transformers": "4.57.6",
        "tokenizers": "0.22.0",
        "einops": "0.8.0",
    }
    assert json.loads((machine.path / "proxmox_gpu.json").read_text())["state"] == "made"
    assert not (machine.path / ".tmp").exists()


def test_a_second_run_changes_nothing_and_runs_no_pip(machine: Machine) -> None:
    (machine.site_packages / "pip" / "__main__.py").write_text("raise SystemExit('pip was run')")
    assert machine.run(packages=WISHES)["changed"] is False


def test_adding_one_moves_no_other(machine: Machine) -> None:
    """fla 0.6.0 wants transformers 5; pip alone would quietly move it from 4.57.6."""
    before = machine.versions()
    failed = machine.run(status=1, packages={**WISHES, "flash-linear-attention": "0.6.0"})
    assert "flash-linear-attention 0.6.0 needs transformers<6" in failed["msg"]
    assert "transformers==4.57.6 is installed" in failed["msg"]
    assert machine.versions() == before


def test_a_changed_wish_moves_what_was_named(machine: Machine) -> None:
    wish = {**WISHES, "transformers": "5.17.0"}
    failed = machine.run(status=1, packages=wish)
    assert "transformers 5.17.0 needs tokenizers>=0.23, but tokenizers==0.22.0 is installed" in failed["msg"]
    done = machine.run(packages={**wish, "tokenizers": ""})
    assert done["versions"]["transformers"] == "5.17.0"
    assert done["versions"]["tokenizers"] == "0.23.0"
    assert done["versions"]["einops"] == "0.8.0"


def test_pip_by_hand_moves_nothing_either(machine: Machine) -> None:
    command = [f"{machine.path}/bin/python", "-m", "pip", "install", "einops==0.8.1"]
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode != 0
    assert "einops==0.8.0" in done.stdout + done.stderr


def test_torch_is_not_moved_untold(machine: Machine) -> None:
    before = machine.versions()
    failed = machine.run(status=1, torch="2.15.0", packages=WISHES)
    assert f"torch 2.14.1 is installed in {machine.path}, and 2.15.0 is wanted" in failed["msg"]
    assert machine.versions() == before


def test_torch_is_moved_when_told_with_its_companions(machine: Machine) -> None:
    done = machine.run(torch="2.15.0", packages=WISHES, replace_torch=True)
    assert (done["versions"]["torch"], done["versions"]["triton"]) == ("2.15.0", "3.9.0")
    assert done["versions"]["transformers"] == "4.57.6"


def test_a_cpu_build_is_named_and_replaced_when_told(fresh: Machine) -> None:
    fresh.run(cpu_only=True)
    assert fresh.versions() == {"torch": "2.14.1+cpu"}
    failed = fresh.run(status=1)
    assert f"torch 2.14.1+cpu in {fresh.path} is not a CUDA build, and one is wanted" in failed["msg"]
    assert fresh.run(replace_torch=True)["versions"]["torch"] == "2.14.1"
    assert fresh.run()["changed"] is False


@pytest.mark.parametrize(
    "left", ["torch-2.14.1.dist-info/RECORD", "torch-2.14.1.dist-info", "torch/version.py", "torch"]
)
def test_an_installation_that_was_interrupted_is_finished(machine: Machine, left: str) -> None:
    """pip writes the files of a wheel first, its metadata next, and RECORD last."""
    victim = machine.site_packages / left
    shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
    (machine.site_packages / "~riton").mkdir()
    (machine.path / "proxmox_gpu.json").write_text('{"schema": 1, "state": "making"}')
    assert machine.run(packages=WISHES)["changed"] is True
    assert machine.versions()["torch"] == "2.14.1"
    assert (machine.site_packages / "torch" / "version.py").exists()
    assert (machine.site_packages / "torch-2.14.1.dist-info" / "RECORD").exists()
    assert not (machine.site_packages / "~riton").exists()
    assert machine.run(packages=WISHES)["changed"] is False


KILLED = """\
import json, os, signal
from ansible.module_utils.testing import patch_module_args
from ansible_collections.proxmox_gpu.training.plugins.module_utils import _environment_install
from ansible_collections.proxmox_gpu.training.plugins.modules import python_environment

_environment_install.Environment._keep = lambda self, after: os.kill(os.getpid(), signal.SIGKILL)
with patch_module_args(json.loads(os.environ["WANTED"])):
    python_environment.main()
"""


def about_torch(path: Path) -> list[str]:
    """What the chain says of the environment, with the packages of these tests as the wish."""
    facts = {**hosts.provisioned(), "torch": torch.observe(Host(), {"environment_path": str(path)})}
    wishes = hosts.wishes(torch_environment_packages=WISHES)
    return [found.id for found in judge(wishes, facts) if found.link == "torch"]


def test_an_environment_that_was_killed_before_it_was_recorded_does_not_hold_and_is_repaired(machine: Machine) -> None:
    """kill -9 when all is installed, and the pins for whoever calls pip by hand are not."""
    (machine.path / "constraints.txt").unlink()
    shutil.rmtree(machine.site_packages / "einops-0.8.0.dist-info")
    tree = Path(python_environment.__file__).parents[5]
    environment = {**os.environ, "WANTED": json.dumps(machine.wanted(packages=WISHES)), "PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", KILLED]
    killed = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert machine.versions()["einops"] == "0.8.0"
    assert about_torch(machine.path) == ["torch.not_finished"]
    assert machine.run(packages=WISHES)["changed"] is True
    assert "einops==0.8.0" in (machine.path / "constraints.txt").read_text()
    assert about_torch(machine.path) == ["torch.ok"]
    assert machine.run(packages=WISHES)["changed"] is False


def test_what_was_refused_before_anything_changed_leaves_a_finished_environment(machine: Machine) -> None:
    machine.run(status=1, packages={**WISHES, "flash-linear-attention": "0.6.0"})
    assert about_torch(machine.path) == ["torch.ok"]


def test_a_folder_of_strangers_is_left_without_a_stamp(fresh: Machine) -> None:
    fresh.path.mkdir()
    (fresh.path / "thesis.tex").touch()
    fresh.run(status=1)
    assert not (fresh.path / "proxmox_gpu.json").exists()


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_login_in_an_address_is_no_argument_of_the_installer(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, installer: str
) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []

    def record(command: list[str], environment: dict[str, str], *_more: Any, **_options: Any) -> tuple[int, str]:
        started.append((command, environment))
        return 1, ""

    monkeypatch.setattr(_environment_install, "run_limited", record)
    (machine.site_packages / "uv-0.9.dist-info").mkdir()
    (machine.site_packages / "uv-0.9.dist-info" / "METADATA").write_text("Name: uv\nVersion: 0.9\n")
    (machine.site_packages / "uv-0.9.dist-info" / "RECORD").write_text("")
    address, page = "https://me:secret@index.lan/simple", "https://me:secret@pages.lan/"
    more = {"index_url": address, "extra_index_urls": [address], "find_links": [page, "/srv/a folder"]}
    machine.run(status=1, packages={**WISHES, "flash-linear-attention": ""}, installer=installer, **more)
    [(command, environment)] = started
    assert installer in " ".join(command[:3])
    assert "secret" not in " ".join(command)
    assert "/srv/a folder" in command
    given = [environment[f"{installer.upper()}_{name}"] for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS")]
    assert given == [address, address, page]


def test_an_environment_without_pip_gets_one(machine: Machine) -> None:
    for name in machine.site_packages.glob("pip*"):
        shutil.rmtree(name)
    assert machine.run(packages={**WISHES, "flash-linear-attention": ""}, status=1)["msg"].startswith(
        "flash-linear-attention 0.6.0 needs"
    )
    assert (machine.site_packages / "pip" / "__main__.py").exists()


def test_somebody_s_own_pip_conf_is_left_alone(machine: Machine) -> None:
    (machine.path / "pip.conf").write_text("[global]\ntimeout = 60\n")
    machine.run(packages={**WISHES, "einops": "0.8.1"})
    assert (machine.path / "pip.conf").read_text() == "[global]\ntimeout = 60\n"


def test_a_folder_of_other_things_is_not_touched(fresh: Machine) -> None:
    fresh.path.mkdir()
    (fresh.path / "thesis.tex").write_text("x")
    failed = fresh.run(status=1)
    assert f"{fresh.path} exists and is no Python environment (it holds thesis.tex)" in failed["msg"]


def test_too_small_a_disk_is_told_before_anything_is_made(fresh: Machine) -> None:
    failed = fresh.run(status=1, minimum_free_bytes=1 << 60)
    assert "GiB are needed for torch (torch_environment_minimum_free_bytes)" in failed["msg"]
    assert not fresh.path.exists()


def test_an_index_that_has_only_the_cpu_build_is_told(fresh: Machine) -> None:
    failed = fresh.run(status=1, torch="2.13.0")
    assert failed["msg"].startswith(
        "the indexes have torch 2.13.0 as a CPU build only, and a CUDA build is wanted; name an"
    )
    assert "torch" not in fresh.versions()


def test_a_missing_interpreter_is_named(fresh: Machine) -> None:
    failed = fresh.run(status=1, python="python2.1")
    assert failed["msg"] == "python2.1 cannot be run: No such file or directory (torch_environment_python)"


def test_a_version_that_does_not_exist_is_told_with_those_that_do(machine: Machine) -> None:
    failed = machine.run(status=1, packages={"einops": "9.9"})
    assert (
        "no index offers einops==9.9 for this Python and machine; the newest that they have are 0.8.0, 0.8.1"
        in (failed["msg"])
    )


def test_the_time_limit_stops_pip(machine: Machine) -> None:
    (machine.site_packages / "pip" / "__main__.py").write_text("import time; time.sleep(60)")
    failed = machine.run(status=1, packages={"einops": "0.8.1"}, timeout=1)
    assert "did not finish in 1 s (torch_environment_timeout)" in failed["msg"]
    assert failed["transient"] is True


def test_two_installations_are_kept_apart(machine: Machine) -> None:
    with open(machine.path / ".proxmox_gpu.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failed = machine.run(status=1, packages={"einops": "0.8.1"}, timeout=0)
    assert failed["msg"] == f"another installation into {machine.path} is still running; wait for it"


def test_a_login_of_an_index_is_kept_from_other_users(machine: Machine) -> None:
    machine.run(packages={**WISHES, "einops": "0.8.1"}, extra_index_urls=["http://user:secret@127.0.0.1:1/simple"])
    assert (machine.path / "pip.conf").stat().st_mode & 0o777 == 0o600
