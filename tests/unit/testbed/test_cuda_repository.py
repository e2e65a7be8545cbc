# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA repository stand-in's layout, catalogue, package writer and index."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.cuda_repository import catalogue, config_packages, deb, index, layout, report, wheels
from testbed.cuda_repository.repack import RECIPES

X86 = layout.repository("debian12/x86_64")
DRIVER = re.compile(r"cuda-drivers|nvidia-(driver|open|kernel|dkms|utils|modprobe|persistenced)|libnvidia-|libcuda1")
# What Debian itself brings; everything else must lie in the repository.
FROM_DISTRIBUTION = {"build-essential", "default-jre", "dkms"}


# --- layout ----------------------------------------------------------------------------------------------------------


def test_each_distribution_and_architecture_has_its_path() -> None:
    paths = {str(entry.path) for entry in layout.REPOSITORIES}
    distros, arches = ("debian12", "debian13", "ubuntu2204", "ubuntu2404"), ("x86_64", "sbsa")
    assert paths == {f"compute/cuda/repos/{distro}/{arch}" for distro in distros for arch in arches}


def test_architecture_names() -> None:
    sbsa = layout.repository("ubuntu2404/sbsa")
    assert (X86.deb_arch, X86.target, X86.family) == ("amd64", "x86_64-linux", "debian")
    assert (sbsa.deb_arch, sbsa.target, sbsa.family) == ("arm64", "sbsa-linux", "ubuntu")


def test_unknown_repository_lists_what_there_is() -> None:
    with pytest.raises(KeyError, match="debian11/x86_64: the stand-in has debian12/x86_64"):
        layout.repository("debian11/x86_64")


# --- catalogue -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=layout.REPOSITORIES, ids=lambda entry: entry.name)
def repository(request: pytest.FixtureRequest) -> layout.Repository:
    assert isinstance(request.param, layout.Repository)
    return request.param


def closure(packages: list[catalogue.Package], name: str) -> set[str]:
    """Every package that installing ``name`` pulls, by the newest versions, as apt would with no alternative given."""
    depends = {package.name: package.depends for package in packages}
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        current = ahead.pop()
        if current in seen or current in FROM_DISTRIBUTION:
            continue
        seen.add(current)
        ahead += [entry.split(" ")[0] for entry in depends[current]]
    return seen


def test_files_are_told_apart_by_name(repository: layout.Repository) -> None:
    names = [package.file_name for package in catalogue.packages(repository)]
    assert len(names) == len(set(names))


def test_every_dependency_is_in_the_repository(repository: layout.Repository) -> None:
    packages = catalogue.packages(repository)
    versions: dict[str, set[str]] = {}
    for package in packages:
        versions.setdefault(package.name, set()).add(package.version)
    for package in packages:
        for entry in package.depends:
            name, _, bound = entry.partition(" ")
            assert name in FROM_DISTRIBUTION or name in versions, f"{package.name} depends on {entry}"
            if bound.startswith("(= "):
                assert bound[3:-1] in versions[name], f"{package.name} depends on {entry}"


def test_traps_reach_a_driver_and_the_toolkit_does_not(repository: layout.Repository) -> None:
    packages = catalogue.packages(repository)
    series = repository.series[-1]
    for trap in ("cuda", f"cuda-{series}", f"cuda-runtime-{series}", "cuda-drivers", "nvidia-open"):
        assert any(DRIVER.match(name) for name in closure(packages, trap)), trap
    for safe in (
        "cuda-toolkit",
        f"cuda-toolkit-{series}",
        f"cuda-minimal-build-{series}",
        f"cuda-libraries-dev-{series}",
    ):
        assert not any(DRIVER.match(name) for name in closure(packages, safe)), safe


def test_minimal_build_is_the_set_that_users_install() -> None:
    stems = ("minimal-build", "nvcc", "crt", "cudart", "cudart-dev", "cccl", "culibos-dev", "driver-dev")
    names = {f"cuda-{stem}-13-0" for stem in stems}
    names |= {"libnvvm-13-0", "libnvptxcompiler-13-0", *catalogue.config_names("13-0")}
    assert closure(catalogue.packages(X86), "cuda-minimal-build-13-0") == names


def test_twelve_and_thirteen_name_their_packages_differently() -> None:
    twelve, thirteen = catalogue.components("12-8"), catalogue.components("13-0")
    assert "cuda-nvvm" in twelve and "libnvvm" not in twelve and "cuda-culibos-dev" not in twelve
    assert "libnvvm" in thirteen and "cuda-nvvm" not in thirteen
    assert (twelve["cuda-nvcc"], twelve["cuda-cudart-dev"], twelve["libcusparse-dev"]) == (
        "12.8.93",
        "12.8.90",
        "12.5.8.93",
    )


def test_an_older_release_stays_and_is_empty() -> None:
    offered = [package for package in catalogue.packages(X86) if package.name == "cuda-nvcc-13-0"]
    assert [(package.version, package.contents) for package in offered] == [("13.0.48-1", ""), ("13.0.88-1", "wheel")]


def test_only_x86_64_carries_nvidias_files() -> None:
    assert {p.series for p in catalogue.packages(X86) if p.contents == "wheel"} == {"13-0", "13-2"}
    assert not [p for p in catalogue.packages(layout.repository("debian12/sbsa")) if p.contents == "wheel"]


def test_descriptions_say_stand_in(repository: layout.Repository) -> None:
    assert all("stand-in for NVIDIA's" in catalogue.description(package) for package in catalogue.packages(repository))


def test_every_packed_package_has_its_wheel_at_its_version() -> None:
    table = wheels.table()
    for package in catalogue.packages(X86):
        if package.contents == "wheel":
            wheel = table[RECIPES[package.stem].wheel, package.series]
            assert wheel.version == package.upstream, package.name


def test_report_lists_real_and_empty_ones() -> None:
    text = report.contents_text()
    assert "| cuda-nvcc-13-0 | 13.0.88-1 | nvidia-cuda-nvcc 13.0.88 |" in text
    assert "- cuda-nvcc-13-0: 13.0.48-1\n" in text
    assert "- debian13/x86_64: 13.2\n" in text


# --- the package writer ----------------------------------------------------------------------------------------------

VALUE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)


@given(st.dictionaries(st.sampled_from(["Package", "Version", "Depends", "X-Note", "A-Note"]), VALUE, min_size=1))
def test_control_fields_come_back(fields: dict[str, str]) -> None:
    lines = deb.control_text(fields).splitlines()
    assert dict(line.split(": ", 1) for line in lines) == fields


def test_control_order_folding_and_empty_fields() -> None:
    fields = {"Description": "short\nlong\n\nmore", "Depends": "", "Version": "1-1", "Package": "a"}
    assert deb.control_text(fields) == "Package: a\nVersion: 1-1\nDescription: short\n long\n .\n more\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "a_1-1_amd64.deb"
    entries = [
        deb.Entry("opt/a/bin/tool", b"#!/bin/sh\n", mode=0o755),
        deb.Entry("opt/a/" + "long/" * 30 + "name", b"x" * 3000),
        deb.Entry("opt/a/link", target="bin/tool"),
        deb.Entry("etc/a.conf", b"1\n"),
    ]
    fields = {"Package": "a", "Version": "1-1", "Architecture": "amd64", "Maintainer": "x <x@y>", "Description": "d"}
    scripts = {"postinst": "#!/bin/sh\ntrue\n"}
    deb.write(path, fields, entries, scripts, ["/etc/a.conf"], "activate-noawait ldconfig\n")
    return path


def dpkg_deb(*arguments: str) -> str:
    return subprocess.run(["dpkg-deb", *arguments], capture_output=True, text=True, check=True, timeout=30).stdout


def test_dpkg_reads_the_package(package: Path, tmp_path: Path) -> None:
    assert dpkg_deb("--field", str(package), "Package", "Installed-Size") == "Package: a\nInstalled-Size: 3\n"
    dpkg_deb("--raw-extract", str(package), str(tmp_path / "out"))
    out = tmp_path / "out"
    assert (out / "opt/a/bin/tool").stat().st_mode & 0o777 == 0o755
    assert (out / ("opt/a/" + "long/" * 30 + "name")).read_bytes() == b"x" * 3000
    assert str((out / "opt/a/link").readlink()) == "bin/tool"
    assert (out / "DEBIAN/conffiles").read_text() == "/etc/a.conf\n"
    assert (out / "DEBIAN/triggers").read_text() == "activate-noawait ldconfig\n"
    assert (out / "DEBIAN/postinst").stat().st_mode & 0o777 == 0o755
    sums = (out / "DEBIAN/md5sums").read_text()
    assert f"{hashlib.md5(b'1' + bytes([10]), usedforsecurity=False).hexdigest()}  etc/a.conf\n" in sums


def test_every_folder_is_listed_before_what_lies_in_it(package: Path) -> None:
    names = [line.split(maxsplit=5)[5].split(" -> ")[0] for line in dpkg_deb("--contents", str(package)).splitlines()]
    for place, name in enumerate(names):
        parent = name.rstrip("/").rpartition("/")[0] + "/"
        assert name == "./" or parent in names[:place], name


def test_same_arguments_same_bytes(package: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        deb.write(tmp_path / name, {"Package": "b", "Version": "1"}, [deb.Entry("a/b", b"c")])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


# --- keyring and alternatives ----------------------------------------------------------------------------------------


def test_keyring_contents() -> None:
    contents = config_packages.keyring(X86, b"key")
    files = {entry.path: entry.data.decode() for entry in contents.entries}
    assert files["usr/share/keyrings/cuda-archive-keyring.gpg"] == "key"
    assert files["etc/apt/sources.list.d/cuda-debian12-x86_64.list"] == (
        "deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] "
        "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/ /\n"
    )
    assert "Pin: release l=NVIDIA CUDA\nPin-Priority: 600\n" in files["etc/apt/preferences.d/cuda-repository-pin-600"]


def test_config_packages_set_alternatives_and_search_path() -> None:
    made = {
        (package.name, package.series): config_packages.config(package, layout.repository("debian12/sbsa"))
        for package in catalogue.packages(X86)
        if package.contents == "config"
    }
    script = made["cuda-toolkit-13-0-config-common", "13-0"].scripts["postinst"]
    assert "--install /usr/local/cuda cuda /usr/local/cuda-13.0 130\n" in script
    assert "--install /usr/local/cuda-13 cuda-13 /usr/local/cuda-13.0 130\n" in script
    of_major = made["cuda-toolkit-13-config-common", "13-2"].entries[0]
    assert (of_major.path, of_major.data) == (
        "etc/ld.so.conf.d/988_cuda-13.conf",
        b"/usr/local/cuda-13/targets/sbsa-linux/lib\n",
    )
    assert made["cuda-toolkit-config-common", "12-8"].entries[0].path == "etc/ld.so.conf.d/000_cuda.conf"


# --- index -----------------------------------------------------------------------------------------------------------


def test_stanza_points_at_the_file() -> None:
    text = index.stanza({"Package": "a", "Version": "1-1"}, "a_1-1_amd64.deb", index.digest(b"abc"))
    fields = dict(line.split(": ", 1) for line in text.splitlines())
    assert (fields["Filename"], fields["Size"]) == ("./a_1-1_amd64.deb", "3")
    assert fields["SHA256"] == hashlib.sha256(b"abc").hexdigest()
    assert set(fields) >= {"MD5sum", "SHA1", "SHA512"}


def test_digest_of_a_file_is_that_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"z" * 3_000_000)
    assert index.digest_file(tmp_path / "file") == index.digest(b"z" * 3_000_000)


def test_release_describes_each_file() -> None:
    files = index.packages_files(["Package: a\n", "Package: b\n"])
    assert gzip.decompress(files["Packages.gz"]) == files["Packages"] == b"Package: a\n\nPackage: b\n\n"
    text = index.release_text("x86_64", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), files)
    assert text.startswith(
        "Origin: NVIDIA\nLabel: NVIDIA CUDA\nArchitecture: x86_64\nDate: Fri, 02 Jan 2026 03:04:05 GMT\nMD5Sum:\n"
    )
    assert "Suite:" not in text and "Valid-Until:" not in text
    for name, content in files.items():
        assert re.search(
            rf"^ {hashlib.sha256(content).hexdigest()} +{len(content)} {re.escape(name)}$", text, re.MULTILINE
        )
