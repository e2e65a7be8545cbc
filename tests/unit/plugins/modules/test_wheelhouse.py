# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clean-up takes what it was told to take, and says what stays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.proxmox_gpu.training.plugins.modules import wheelhouse


def put(house: Path, digest: str, torch: str, days: int) -> None:
    folder = house / f"torch-{torch}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{digest}.whl").write_text("x")
    manifest = folder / f"{digest}.json"
    manifest.write_text(json.dumps({"wheel": f"{digest}.whl", "key": {"torch": torch}}))
    then = manifest.stat().st_mtime - days * 86400
    os.utime(manifest, (then, then))


@pytest.mark.parametrize(
    ("options", "removed"),
    [
        ({}, []),
        ({"unused_days": 30}, ["aa", "bb"]),
        ({"torch": ["2.13.0"]}, ["bb"]),
        ({"keys": ["cc", "0kaa"]}, ["aa", "cc"]),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_what_is_removed(
    options: dict[str, Any], removed: list[str], check: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "aa", "2.14.1", 40)
    put(tmp_path, "bb", "2.13.0", 40)
    put(tmp_path, "cc", "2.14.1", 1)
    with patch_module_args({"path": str(tmp_path), "_ansible_check_mode": check, **options}), pytest.raises(SystemExit):
        wheelhouse.main()
    result = json.loads(capsys.readouterr().out)
    assert sorted(Path(path).stem for path in result["removed"]) == removed
    assert sorted(result["kept"].values()) == sorted({"aa", "bb", "cc"} - set(removed))
    there = sorted(path.stem for path in tmp_path.rglob("*.whl"))
    assert there == (["aa", "bb", "cc"] if check else sorted({"aa", "bb", "cc"} - set(removed)))
