# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module on a folder of its own: what it reports in check mode is what it does without."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.proxmox_gpu.training.plugins.modules import cuda_sources

URL = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64"


class Apt:
    """An apt folder, and runs of the module on it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.etc, self.backups, self._capsys = root / "etc" / "apt", root / "backups", capsys
        self.parts = self.etc / "sources.list.d"
        self.parts.mkdir(parents=True)
        self.entry = self.parts / "cuda-debian12-x86_64.sources"

    def run(self, status: int = 0, **arguments: Any) -> dict[str, Any]:
        folders = {"apt_directory": str(self.etc), "backup_directory": str(self.backups)}
        wanted = {"url": URL, "path": str(self.entry), **folders, **arguments}
        with patch_module_args(wanted), pytest.raises(SystemExit) as ended:
            cuda_sources.main()
        assert ended.value.code == status
        return json.loads(self._capsys.readouterr().out)

    def files(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.etc)): path.read_bytes() for path in self.etc.rglob("*") if path.is_file()}


@pytest.fixture
def apt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Apt:
    return Apt(tmp_path, capsys)


def test_check_mode_promises_what_the_run_keeps(apt: Apt) -> None:
    old = b"deb http://deb.example/debian stable main # caf\xe9\ndeb " + URL.encode() + b" /\n"
    (apt.etc / "sources.list").write_bytes(old)
    (apt.parts / "cuda.list").write_text(f"deb [signed-by=/old.gpg] {URL}/ /\n")
    before = apt.files()
    promised = apt.run(_ansible_check_mode=True, _ansible_diff=True)
    assert promised["changed"] is True
    assert apt.files() == before
    done = apt.run(_ansible_diff=True)
    assert (done["diff"], done["removed"]) == (promised["diff"], promised["removed"])
    assert set(apt.files()) == {"sources.list", "sources.list.d/cuda-debian12-x86_64.sources"}
    assert apt.files()["sources.list"] == b"deb http://deb.example/debian stable main # caf\xe9\n"
    assert apt.run()["changed"] is False


def test_everything_that_goes_is_kept_in_a_backup(apt: Apt) -> None:
    list_file = apt.parts / "cuda.list"
    list_file.write_text(f"deb {URL} /\n")
    list_file.chmod(0o640)
    (backup,) = apt.run()["backups"]
    assert Path(backup).read_text() == f"deb {URL} /\n"
    assert backup.endswith(str(list_file))
    assert os.stat(backup).st_mode & 0o777 == 0o640
    assert not list_file.exists()
    assert os.stat(apt.entry).st_mode & 0o777 == 0o644


def test_a_rewritten_file_keeps_its_mode(apt: Apt) -> None:
    shared = apt.parts / "all.list"
    shared.write_text(f"deb {URL} /\ndeb http://user:secret@deb.example/ /\n")
    shared.chmod(0o600)
    apt.run()
    assert shared.read_text() == "deb http://user:secret@deb.example/ /\n"
    assert os.stat(shared).st_mode & 0o777 == 0o600


def test_a_login_in_an_address_is_not_shown(apt: Apt) -> None:
    (apt.parts / "all.list").write_text(f"deb {URL} /\ndeb http://user:secret@deb.example/ /\n")
    assert "secret" not in json.dumps(apt.run(_ansible_diff=True)["diff"])


def test_files_that_apt_does_not_read_are_left_alone(apt: Apt) -> None:
    (apt.parts / "cuda.list.save").write_text(f"deb {URL} /\n")
    (apt.parts / "folder.list").mkdir()
    done = apt.run()
    assert done["removed"] == []
    assert (apt.parts / "cuda.list.save").read_text() == f"deb {URL} /\n"


def test_a_name_that_apt_would_not_read_is_refused(apt: Apt) -> None:
    failed = apt.run(status=1, path=str(apt.parts / "cuda.list"))
    assert failed["msg"].endswith("its name has to end in .sources")
    assert apt.files() == {}


def test_a_folder_that_cannot_be_written_is_one_sentence(apt: Apt) -> None:
    apt.backups.write_text("in the way")
    (apt.parts / "cuda.list").write_text(f"deb {URL} /\n")
    failed = apt.run(status=1)
    assert failed["msg"].startswith("cannot rewrite apt's sources: ")
    assert str(apt.backups) in failed["msg"]
    assert (apt.parts / "cuda.list").exists(), "nothing may go before it is kept"
