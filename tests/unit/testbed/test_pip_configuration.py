# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading the machine's pip configuration, with pip's own rule: later sources replace earlier ones."""

from __future__ import annotations

from pathlib import Path

from testbed import pip_configuration as pip


def test_later_files_and_variables_win(tmp_path: Path) -> None:
    first, second = tmp_path / "a.conf", tmp_path / "b.conf"
    first.write_text(
        "[global]\nindex-url = https://a.example\nextra-index-url = https://b.example\n    https://c.example\n"
    )
    second.write_text("[global]\ncert = /b.crt\n[install]\nindex-url = https://d.example\n[list]\nformat = json\n")
    environment = {"PIP_FIND_LINKS": "/wheels /more"}
    assert pip.read(environment, [first, tmp_path / "missing.conf", second]) == {
        "index-url": "https://d.example",
        "extra-index-url": ["https://b.example", "https://c.example"],
        "cert": "/b.crt",
        "find-links": ["/wheels", "/more"],
    }


def test_a_broken_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("no section\n")
    assert pip.read({}, [tmp_path / "a.conf"]) == {}


def test_pips_own_files_in_its_order() -> None:
    environment = {"HOME": "/h", "XDG_CONFIG_DIRS": "/x:/y", "PIP_CONFIG_FILE": "/own.conf"}
    assert [str(path) for path in pip.configuration_files(environment)] == [
        "/y/pip/pip.conf",
        "/x/pip/pip.conf",
        "/etc/pip.conf",
        "/h/.pip/pip.conf",
        "/h/.config/pip/pip.conf",
        "/own.conf",
    ]


def test_local_folders(tmp_path: Path) -> None:
    (tmp_path / "index/simple").mkdir(parents=True)
    (tmp_path / "with space").mkdir()
    options: dict[str, str | list[str]] = {
        "index-url": f"file://{tmp_path}/index/simple",
        "extra-index-url": ["https://remote.example/simple"],
        "find-links": [f"file://{tmp_path}/with%20space", f"{tmp_path}/missing", f"{tmp_path}/index/simple"],
    }
    assert pip.local_folders(options) == [f"{tmp_path}/index", f"{tmp_path}/with space"]
