# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._build_errors import Build
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_catalogue import Description, Edit, Split
from ansible_collections.proxmox_gpu.training.plugins.module_utils._extension_source import (
    SourceError,
    check,
    fetch,
    local_archive,
    prebuilt,
    repair,
    split,
    unpack,
    version_in,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pip_sources import Sources
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import sha256

EDITED = Description("x", edits=(Edit("setup.py", "-std=c++17", "-std=c++20", "2.13"),))


def archive(path: Path, files: dict[str, str]) -> str:
    with tarfile.open(path, "w:gz") as packed:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text.encode()))
    return str(path)


@pytest.mark.parametrize(
    ("name", "version"),
    [("causal_conv1d-1.7.0.tar.gz", "1.7.0"), ("my-kernels-2.1.post1.zip", "2.1.post1"), ("x-1.0.tar.xz", "1.0")],
)
def test_the_version_in_a_name(name: str, version: str) -> None:
    assert version_in(name) == version


def test_the_folder_with_the_setup_is_found(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "x-1.0.tar.gz", {"x-1.0/setup.py": "s", "x-1.0/csrc/a.cu": "a", "x-1.0/pyproject.toml": ""}
    )
    folder = unpack("x 1.0", path, str(tmp_path / "out"))
    assert folder == str(tmp_path / "out" / "x-1.0")
    assert (Path(folder) / "csrc/a.cu").read_text() == "a"


def test_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("x-1.0/pyproject.toml", "")
    assert unpack("x 1.0", str(tmp_path / "x.zip"), str(tmp_path / "out")).endswith("/x-1.0")


@pytest.mark.parametrize("name", ["/etc/evil", "x-1.0/../../evil"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "x.tar.gz", {"x-1.0/setup.py": "s", name: "evil"})
    with pytest.raises(SourceError, match="leads out of it"):
        unpack("x 1.0", path, str(tmp_path / "out"))
    assert not (tmp_path / "evil").exists()


def test_an_archive_without_a_setup(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.tar.gz", {"x-1.0/README": "s"})
    with pytest.raises(SourceError, match="neither a setup.py nor"):
        unpack("x 1.0", path, str(tmp_path / "out"))


def test_half_an_archive(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.tar.gz", {"x-1.0/setup.py": "s" * 100000})
    Path(path).write_bytes(Path(path).read_bytes()[:60])
    with pytest.raises(SourceError, match="cannot be unpacked"):
        unpack("x 1.0", path, str(tmp_path / "out"))


def test_another_checksum_is_refused_and_both_are_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.tar.gz", {"x-1.0/setup.py": "s"})
    assert check("x", path, sha256(path).upper(), "somebody") == sha256(path)
    with pytest.raises(SourceError, match=f"{sha256(path)}, but the catalogue expects {'0' * 64}"):
        check("x", path, "0" * 64, "the catalogue")


@pytest.mark.parametrize(
    ("torch", "before", "after", "changed"),
    [
        ("2.14.1+cu130", "flags -std=c++17", "flags -std=c++20", ["setup.py"]),
        ("2.12.0", "flags -std=c++17", "flags -std=c++17", []),
        ("2.14.1", "flags -std=c++20", "flags -std=c++20", []),
    ],
)
def test_edits(tmp_path: Path, torch: str, before: str, after: str, changed: list[str]) -> None:
    (tmp_path / "setup.py").write_text(before)
    assert repair("x", EDITED, torch, str(tmp_path)) == changed
    assert (tmp_path / "setup.py").read_text() == after


def test_an_edit_that_does_not_fit_is_said(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("nothing")
    with pytest.raises(SourceError, match="not for this version"):
        repair("x", EDITED, "2.14.1", str(tmp_path))


@pytest.mark.parametrize(("version", "found"), [("1.0", "my_x-1.0.tar.gz"), ("1.1", "My.X-1.1.zip"), ("1", None)])
def test_an_archive_in_a_folder_needs_no_index(tmp_path: Path, version: str, found: str | None) -> None:
    for name in ("my_x-1.0.tar.gz", "My.X-1.1.zip", "my_x-2.0-cp311-cp311-linux_x86_64.whl", "other-1.tar.gz"):
        (tmp_path / name).write_text("")
    places = ["https://example.org/links", str(tmp_path / "absent"), str(tmp_path)]
    assert local_archive(places, "my-x", version) == (found and str(tmp_path / found))


# ---- fetching

PIP = """\
#!/bin/sh
tr '\\0' '\\n' < /proc/$$/cmdline > {0}/arguments
env > {0}/variables
touch x-1.0.tar.gz
"""


def test_a_login_in_an_index_s_address_is_no_argument_of_pip(tmp_path: Path) -> None:
    """Everybody on the machine sees the arguments of a process, and nobody but root its environment."""
    pip, folder = tmp_path / "python", tmp_path / "download"
    pip.write_text(PIP.format(tmp_path))
    pip.chmod(0o755)
    folder.mkdir()
    build = Build("x 1.0", 1, None, "/tmp", "/usr", str(pip), "2.14.1", "13.0", "13-0")
    pages = ("https://me:secret@pages.lan/a", "https://pages.lan/b", str(tmp_path / "a folder"))
    wanted = Sources("https://me:secret@index.lan/simple", ("https://you:secret@more.lan/s", "https://third/s"), pages)
    variables = {"PIP_CERT": "/srv/ca.pem"}
    log = str(tmp_path / "log")
    assert fetch(build, Description("x"), "1.0", wanted, variables, str(folder), log, 20.0).endswith("x-1.0.tar.gz")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert not [word for word in arguments if "secret" in word]
    assert arguments[arguments.index("--find-links") + 1] == str(tmp_path / "a folder")
    given = dict(line.partition("=")[::2] for line in (tmp_path / "variables").read_text().splitlines())
    assert given["PIP_INDEX_URL"] == "https://me:secret@index.lan/simple"
    assert given["PIP_EXTRA_INDEX_URL"] == "https://you:secret@more.lan/s https://third/s"
    assert given["PIP_FIND_LINKS"] == "https://me:secret@pages.lan/a https://pages.lan/b"
    assert given["PIP_CERT"] == "/srv/ca.pem"
    assert "secret" not in Path(log).read_text()


# ---- splitting

TEMPLATES = """\
template <typename T> __global__ void kernel(T *x) { x[0] = 1; }
template<typename T>
void f(T *x) {
    kernel<T><<<1, 1>>>(x);
}

template void f<float>(float *x);
template void f<double>(double *x);
template void f<int>(int *x);
"""
SPLIT = Description("x", splits=(Split("csrc/k.cu", 2),))


def sources(folder: Path, text: str = TEMPLATES, setup: str = 'sources=["csrc/b.cpp", "csrc/k.cu"]') -> str:
    (folder / "csrc").mkdir()
    (folder / "csrc/k.cu").write_text(text)
    (folder / "setup.py").write_text(setup)
    return str(folder)


def test_each_instantiation_is_in_one_part_and_the_templates_are_in_all(tmp_path: Path) -> None:
    assert split("x 1.0", SPLIT, sources(tmp_path)) == ["csrc/k_part1.cu", "csrc/k_part2.cu"]
    parts = [(tmp_path / f"csrc/k_part{number}.cu").read_text() for number in (1, 2)]
    templates = TEMPLATES.partition("template void")[0]
    assert all(part.startswith(templates) for part in parts)
    assert all(len(part.splitlines()) == len(TEMPLATES.splitlines()) for part in parts)
    lines = [[line for line in part.splitlines() if line.startswith("template void")] for part in parts]
    assert lines == [
        ["template void f<float>(float *x);", "template void f<int>(int *x);"],
        ["template void f<double>(double *x);"],
    ]
    assert (tmp_path / "setup.py").read_text() == 'sources=["csrc/b.cpp", "csrc/k_part1.cu", "csrc/k_part2.cu"]'


@pytest.mark.parametrize(
    ("text", "setup"),
    [("void f();\n", 'sources=["csrc/k.cu"]'), (TEMPLATES, "sources=glob('csrc/*.cu')")],
    ids=["too few instantiations", "named in another way"],
)
def test_what_cannot_be_split_stays_whole(tmp_path: Path, text: str, setup: str) -> None:
    assert split("x 1.0", SPLIT, sources(tmp_path, text, setup)) == []
    assert (tmp_path / "setup.py").read_text() == setup
    assert [path.name for path in (tmp_path / "csrc").iterdir()] == ["k.cu"]


def test_a_version_without_that_source_stays_whole(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("")
    assert split("x 1.0", SPLIT, str(tmp_path)) == []


# ---- prebuilt wheels


def upstream(folder: Path) -> Path:
    """As upstream publishes them: torch and CUDA in the file's name alone."""
    path = folder / "x-1.0+cu13torch2.9cxx11abiTRUE-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("x-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    return path


def test_a_prebuilt_wheel_gets_the_name_that_pip_takes(tmp_path: Path) -> None:
    path, folder = upstream(tmp_path), tmp_path / "build"
    folder.mkdir()
    for place in (str(path), f"file://{path}"):
        got = prebuilt("x 1.0", place, sha256(str(path)), str(folder))
        assert Path(got).name == "x-1.0-cp311-cp311-linux_x86_64.whl"
        assert sha256(got) == sha256(str(path))


def test_a_prebuilt_wheel_needs_its_checksum(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="needs its sha256"):
        prebuilt("x 1.0", str(upstream(tmp_path)), None, str(tmp_path))


def test_a_prebuilt_wheel_with_another_checksum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    with pytest.raises(SourceError, match="expects 0000"):
        prebuilt("x 1.0", str(upstream(tmp_path)), "0" * 64, str(tmp_path / "build"))


@pytest.mark.parametrize("place", ["/absent/x-1.0-cp311-cp311-linux_x86_64.whl", "http://127.0.0.1:9/x.whl"])
def test_a_prebuilt_wheel_that_is_not_there(tmp_path: Path, place: str) -> None:
    with pytest.raises(SourceError, match="cannot be had"):
        prebuilt("x 1.0", place, "0" * 64, str(tmp_path))
