# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The visit to the shared wheelhouse around a build, with a stand-in for the container."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from ansible_collections.proxmox_gpu.training.plugins.action import cuda_extension
from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import stamp
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import make_key

KEY = make_key("tiny", "1.0", "ab" * 32, "2.14.1", "13.0", "cp311", True, "x86_64", "glibc-2.36", ["9.0"])
ASKED = {"changed": True, "key": KEY.as_dict(), "key_known": True, "available": False, "obstacle": None, "wheel": None}
BUILT = {"changed": True, "origin": "built", "wheel": "/house/tiny.whl", "key": KEY.as_dict()}


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    path = tmp_path / "tiny-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n")
        packed.writestr("tiny-1.0.dist-info/RECORD", "")
    (tmp_path / "stamped").mkdir()
    return stamp(str(path), KEY, {"seconds": 360}, str(tmp_path / "stamped"))


@pytest.fixture
def house(tmp_path: Path) -> str:
    return str(tmp_path / "house")


class Container:
    """What the action does to it, in order: ``handed <file>``, ``build``, ``fetched``."""

    def __init__(self, house: str, wheel: str, asked: dict[str, Any] | None = None, **options: Any) -> None:
        self.done: list[str] = []
        self.wheel, self.result = wheel, dict(BUILT)
        arguments = {"name": "tiny", "shared_wheelhouse": house, "shared_wheelhouse_timeout": 1, **options}
        self.task = MagicMock(args=arguments, check_mode=options.pop("check_mode", False), async_val=0)
        self.task.args.pop("check_mode", None)
        connection = MagicMock(_shell=MagicMock(tmpdir="/tmp", join_path=lambda *parts: "/".join(parts)))
        connection.fetch_file = self.fetch
        self.action = cuda_extension.ActionModule(
            self.task, connection, MagicMock(), MagicMock(), MagicMock(), MagicMock()
        )
        for name, stand_in in {
            "_ask": lambda variables: dict(asked or ASKED),
            "_build": self.build,
            "_make_tmp_path": lambda: "/tmp/x",
            "_remove_tmp_path": lambda path: None,
            "_transfer_file": self.transfer,
            "_low_level_execute_command": lambda command, sudoable=True: {"rc": 0, "stdout": ""},
        }.items():
            setattr(self.action, name, stand_in)

    def build(self, variables: dict[str, Any]) -> dict[str, Any]:
        self.done.append("build")
        return self.result

    def fetch(self, remote: str, local: str) -> None:
        self.done.append(f"fetched {remote}")
        shutil.copyfile(self.wheel, local)

    def transfer(self, local: str, remote: str) -> None:
        self.done.append(f"handed {Path(local).suffix}" if "sources" not in local else "handed sources")

    def run(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.action.run(task_vars={"inventory_hostname": "ct200"})
        return answer


def test_a_wheel_that_is_there_is_handed_in_with_its_manifest_last(house: str, wheel: str) -> None:
    _wheelhouse.publish(house, KEY, wheel)
    container = Container(house, wheel)
    assert container.run()["changed"]
    assert container.done == ["handed .whl", "handed sources", "handed .json", "build"]


def test_a_new_wheel_is_put_there(house: str, wheel: str) -> None:
    container = Container(house, wheel)
    assert container.run()["origin"] == "built"
    assert container.done == ["build", "fetched /house/tiny.whl"]
    assert _wheelhouse.find(house, KEY)


def test_a_damaged_wheel_is_refused_said_and_replaced(house: str, wheel: str) -> None:
    damaged = Path(_wheelhouse.publish(house, KEY, wheel))
    damaged.write_bytes(damaged.read_bytes() + b"x")
    container = Container(house, wheel)
    assert "does not have the checksum" in container.run()["warnings"][0]
    assert container.done == ["build", "fetched /house/tiny.whl"]
    assert _wheelhouse.find(house, KEY)


def test_a_failed_build_puts_nothing_there(house: str, wheel: str) -> None:
    container = Container(house, wheel)
    container.result = {"failed": True, "msg": "no"}
    assert container.run()["failed"]
    assert _wheelhouse.find(house, KEY) is None


def test_the_house_may_know_the_sources_that_the_container_does_not(house: str, wheel: str) -> None:
    _wheelhouse.publish(house, KEY, wheel)
    unknown = {**ASKED, "key_known": False, "key": {**KEY.as_dict(), "source_sha256": "0" * 64}}
    container = Container(house, wheel, unknown)
    container.run()
    assert container.done[-1] == "build"
    assert len(container.done) == 4
    given = Container(house, wheel, unknown, source="/root/other.tar.gz")
    given.run()
    assert given.done == ["build"]


def test_somebody_who_never_finishes_is_named(house: str, wheel: str) -> None:
    with _wheelhouse.turn(house, KEY, "ct999", 1):
        answer = Container(house, wheel).run()
    assert answer["failed"]
    assert "ct999" in answer["msg"]


def test_check_mode_says_whether_something_would_be_built(house: str, wheel: str) -> None:
    assert Container(house, wheel, check_mode=True).run()["available"] is False
    _wheelhouse.publish(house, KEY, wheel)
    container = Container(house, wheel, check_mode=True)
    answer = container.run()
    assert (answer["available"], answer["digest"], container.done) == (True, KEY.digest(), [])


def test_where_building_is_all_that_is_asked_a_wheel_that_is_there_is_enough(house: str, wheel: str) -> None:
    _wheelhouse.publish(house, KEY, wheel)
    container = Container(house, wheel, state="built")
    assert container.run()["changed"] is False
    assert container.done == []


def test_where_building_is_all_that_is_asked_the_containers_own_wheel_is_taken(house: str, wheel: str) -> None:
    here = {**ASKED, "changed": False, "available": True, "wheel": "/house/tiny.whl"}
    container = Container(house, wheel, here, state="built")
    assert container.run()["changed"] is True
    assert container.done == ["fetched /house/tiny.whl"]
    assert _wheelhouse.find(house, KEY)


def test_where_building_is_all_that_is_asked_a_wheel_that_cannot_be_put_there_is_a_failure(
    house: str, wheel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_wheelhouse, "publish", full)
    answer = Container(house, wheel, state="built").run()
    assert answer["failed"]
    assert answer["msg"] == (
        "tiny.whl could not be put into the shared wheelhouse: No space left on device; it is kept as /house/tiny.whl"
    )
    # Where it is installed, the container has what it needs.
    answer = Container(house, wheel).run()
    assert not answer.get("failed")
    assert answer["warnings"] == ["tiny.whl could not be put into the shared wheelhouse: No space left on device"]


@pytest.mark.parametrize("room", [True, False])
def test_a_wheel_that_cannot_be_handed_in_is_built_there_and_no_half_one_is_left(
    room: bool, house: str, wheel: str, tmp_path: Path
) -> None:
    _wheelhouse.publish(house, KEY, wheel)
    inside = tmp_path / "inside"
    container = Container(house, wheel, wheelhouse=str(inside))
    place = tmp_path / "temporary"
    place.mkdir()
    container.action._make_tmp_path = lambda: str(place)

    def transfer(local: str, remote: str) -> None:
        Path(remote).unlink(missing_ok=True)
        if room:
            shutil.copyfile(local, remote)

    def execute(command: str, sudoable: bool = True) -> dict[str, Any]:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    container.action._transfer_file = transfer
    container.action._low_level_execute_command = execute
    answer = container.run()
    if room:
        assert _wheelhouse.find(str(inside), KEY)
        assert "warnings" not in answer
        assert sorted(path.suffix for path in inside.rglob("*") if path.is_file()) == [".json", ".json", ".whl"]
    else:
        assert f"could not be handed into {inside}: cp: " in answer["warnings"][0]
        assert answer["warnings"][0].endswith("; it is built there")
        assert not [path for path in inside.rglob("*") if path.is_file()]


def test_a_place_that_is_neither_folder_nor_server_is_one_sentence_without_its_login(wheel: str) -> None:
    answer = Container("ftp://joe:secret@example.org/x", wheel).run()
    assert answer["failed"]
    assert "ftp://example.org/x is neither a folder nor the address of a web server" in answer["msg"]
    assert "secret" not in json.dumps(answer)


def test_a_house_that_cannot_be_written_is_one_sentence(tmp_path: Path, wheel: str) -> None:
    (tmp_path / "file").write_text("")
    answer = Container(str(tmp_path / "file" / "house"), wheel).run()
    assert answer["failed"]
    assert "cuda_extensions_shared_wheelhouse" in answer["msg"]
    assert json.dumps(answer)
