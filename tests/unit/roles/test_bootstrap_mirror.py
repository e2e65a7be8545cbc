# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role bootstrap's mirror: the script edits exactly what the chain finds, and a finished container is left alone."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import jinja2
import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe import base
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host

TEMPLATE = Path(__file__).parents[3] / "roles" / "bootstrap" / "templates" / "mirror.sh.j2"
DEBIAN = "deb http://deb.debian.org/debian bookworm main\ndeb http://security.debian.org/debian-security x main\n"
UBUNTU = "URIs: http://de.archive.ubuntu.com/ubuntu/ http://archive.ubuntu.com/ubuntu\nURIs: http://ports.ubuntu.com\n"
CUDA = "deb https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/ /\n"


def script(root: Path, mirror: str) -> str:
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    environment.filters["quote"] = shlex.quote
    environment.filters["regex_replace"] = lambda text, old, new: re.sub(old, new, text)
    text = environment.from_string(TEMPLATE.read_text()).render(
        bootstrap_apt_mirror=mirror,
        __bootstrap_mirror_record=f"{root}{base.APT_MIRROR}",
        __bootstrap_backups=f"{root}/backups",
        __bootstrap_files={"distribution_hosts": base.DISTRIBUTION_HOSTS},
    )
    return text.replace("/etc/apt/", f"{root}/etc/apt/")


def mirrored(root: Path, mirror: str) -> bool:
    """Run the script; whether it says that it changed something."""
    done = subprocess.run(["/bin/sh"], input=script(root, mirror), capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
    return "changed" in done.stdout


@pytest.fixture
def container(tmp_path: Path) -> Host:
    folder = tmp_path / "etc" / "apt" / "sources.list.d"
    folder.mkdir(parents=True)
    (folder.parent / "sources.list").write_text(DEBIAN)
    (folder / "ubuntu.sources").write_text(UBUNTU)
    (folder / "cuda.list").write_text(CUDA)
    return Host(str(tmp_path))


def sources(host: Host) -> str:
    folder = Path(host.root) / "etc" / "apt"
    return "".join((folder / name).read_text() for name in ("sources.list", "sources.list.d/ubuntu.sources"))


@pytest.mark.parametrize(
    "mirror",
    [
        "http://mirror.example",
        "http://me:p+w@mirror.example:8080/a/",
        "http://ftp.de.debian.org",
        "http://x/deb.debian",
    ],
)
def test_a_mirror_takes_the_place_of_all_and_then_nothing_is_left_to_do(container: Host, mirror: str) -> None:
    wanted = mirror.rstrip("/")
    assert base.unmirrored(container, wanted)
    assert mirrored(Path(container.root), mirror)
    assert base.unmirrored(container, wanted) == []
    assert not mirrored(Path(container.root), mirror)
    assert re.findall(r"https?://\S+", sources(container)) == [
        f"{wanted}{path}" for path in ("/debian", "/debian-security", "/ubuntu/", "/ubuntu", "")
    ]
    assert (Path(container.root) / "etc/apt/sources.list.d/cuda.list").read_text() == CUDA


def test_a_mirror_that_was_set_before_gives_way_to_the_new_one(container: Host) -> None:
    root = Path(container.root)
    mirrored(root, "http://old.example")
    (root / "etc/apt/sources.list.d/own.list").write_text("deb http://old.example.org/ x\n")
    assert base.unmirrored(container, "http://new.example/a") == ["http://old.example"]
    assert mirrored(root, "http://new.example/a")
    assert base.unmirrored(container, "http://new.example/a") == []
    assert "old.example" not in sources(container)
    assert (root / "etc/apt/sources.list.d/own.list").read_text() == "deb http://old.example.org/ x\n"


def test_a_mirror_with_a_path_on_one_of_these_hosts_is_not_lengthened(container: Host) -> None:
    mirror = "http://ftp.de.debian.org/pool"
    mirrored(Path(container.root), mirror)
    (Path(container.root) / "etc/apt/sources.list.d/more.list").write_text("deb http://deb.debian.org/debian x\n")
    assert base.unmirrored(container, mirror) == ["http://deb.debian.org"]
    mirrored(Path(container.root), mirror)
    assert "pool/pool" not in sources(container)


def test_without_a_mirror_nothing_is_looked_for(container: Host) -> None:
    assert base.unmirrored(container, "") == []


def test_a_login_is_for_root_alone(container: Host) -> None:
    mirrored(Path(container.root), "http://me:pw@mirror.example")
    assert (Path(f"{container.root}{base.APT_MIRROR}")).stat().st_mode & 0o777 == 0o600
