# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wheel files and the wheelhouse: what goes in comes out, and nothing else does."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import (
    WheelError,
    read_record,
    sha256,
    stamp,
    unpack,
    verify,
)
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import WheelKey, make_key


def key(**changes: object) -> WheelKey:
    facts: dict[str, object] = {
        "package": "tiny",
        "version": "1.0",
        "source_sha256": "ab" * 32,
        "torch": "2.14.1+cu130",
        "torch_cuda": "13.0",
        "python_tag": "cp311",
        "cxx11_abi": True,
        "machine": "x86_64",
        "libc": "glibc-2.36",
        "gpu_targets": ["sm_90"],
    }
    return make_key(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A wheel as pip builds one."""
    path = tmp_path / "tiny-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny/__init__.py", "x = 1\n")
        wheel.writestr("tiny_cuda.so", b"\x7fELF" + bytes(5000))
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Name: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "tiny/__init__.py,sha256=x,6\n")
    return path


@pytest.fixture
def stamped(plain: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "stamped"
    folder.mkdir()
    return Path(stamp(str(plain), key(), {"seconds": 5}, str(folder)))


def test_the_key_is_in_the_name_the_metadata_and_the_record(stamped: Path) -> None:
    assert stamped.name == f"tiny-1.0-{key().build_tag()}-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(stamped) as wheel:
        assert f"Build: {key().build_tag()}" in wheel.read("tiny-1.0.dist-info/WHEEL").decode()
    assert read_record(str(stamped)) == {"schema": 1, "key": key().as_dict(), "built": {"seconds": 5}}


def test_the_record_of_files_is_true(stamped: Path, tmp_path: Path) -> None:
    unpack(str(stamped), str(tmp_path / "out"))
    lines = (tmp_path / "out/tiny-1.0.dist-info/RECORD").read_text().splitlines()
    sizes = {line.split(",")[0]: line.split(",")[2] for line in lines}
    assert sizes["tiny_cuda.so"] == "5004"
    assert sizes["tiny-1.0.dist-info/RECORD"] == ""
    on_disk = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert set(sizes) == on_disk


def test_a_wheel_that_we_did_not_build(plain: Path) -> None:
    with pytest.raises(WheelError, match="carries no key"):
        read_record(str(plain))


def test_a_renamed_wheel_is_refused(stamped: Path, tmp_path: Path) -> None:
    other = key(torch="2.13.0+cu130")
    renamed = tmp_path / f"tiny-1.0-{other.build_tag()}-cp311-cp311-linux_x86_64.whl"
    stamped.rename(renamed)
    with pytest.raises(WheelError, match="built for another key"):
        verify(str(renamed), other)


@pytest.mark.parametrize("at", [60, 300, -600])
def test_a_damaged_wheel_is_refused(stamped: Path, at: int) -> None:
    data = bytearray(stamped.read_bytes())
    data[at] ^= 0xFF
    stamped.write_bytes(data)
    try:
        verify(str(stamped), key())
    except WheelError:
        return
    with zipfile.ZipFile(stamped) as wheel:  # a flipped bit outside of any content harms nothing
        assert wheel.testzip() is None


def test_half_a_wheel_is_refused(stamped: Path) -> None:
    stamped.write_bytes(stamped.read_bytes()[:-100])
    with pytest.raises(WheelError, match="cannot be read as a wheel"):
        verify(str(stamped), key())


def test_a_wheel_that_leads_out_of_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "tiny-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("../evil.py", "")
    with pytest.raises(WheelError, match="leads out"):
        unpack(str(path), str(tmp_path / "out"))


def test_published_and_found(stamped: Path, tmp_path: Path) -> None:
    house = str(tmp_path / "house")
    assert _wheelhouse.find(house, key()) is None
    place = _wheelhouse.publish(house, key(), str(stamped))
    found = _wheelhouse.find(house, key())
    assert found
    assert found[0] == place
    assert found[1]["built"] == {"seconds": 5}
    assert _wheelhouse.find(house, key(torch="2.13.0+cu130")) is None
    assert sorted(path.name for path in Path(house).iterdir()) == [key().digest()]


def test_publishing_again_replaces(stamped: Path, tmp_path: Path) -> None:
    house = str(tmp_path / "house")
    _wheelhouse.publish(house, key(), str(stamped))
    _wheelhouse.publish(house, key(), str(stamped))
    assert _wheelhouse.find(house, key())
    assert len(list(Path(house).iterdir())) == 1


def test_a_wheel_of_another_key_is_not_published(stamped: Path, tmp_path: Path) -> None:
    with pytest.raises(WheelError, match="another key"):
        _wheelhouse.publish(str(tmp_path / "house"), key(libc="glibc-2.41"), str(stamped))
    assert not (tmp_path / "house").exists()


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda wheel, manifest: wheel.write_bytes(wheel.read_bytes() + b"x"), "does not have the checksum"),
        (lambda wheel, manifest: wheel.unlink(), "not in the folder"),
        (lambda wheel, manifest: manifest.write_text("{"), "cannot be used"),
        (lambda wheel, manifest: manifest.write_text("{}"), "cannot be used"),
    ],
)
def test_what_was_harmed_in_the_house_is_refused(harm, sentence: str, stamped: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    wheel = Path(_wheelhouse.publish(str(tmp_path / "house"), key(), str(stamped)))
    harm(wheel, wheel.parent / "manifest.json")
    with pytest.raises(WheelError, match=sentence):
        _wheelhouse.find(str(tmp_path / "house"), key())


def test_a_replaced_wheel_with_a_fitting_manifest_is_still_of_another_key(stamped: Path, tmp_path: Path) -> None:
    wheel = Path(_wheelhouse.publish(str(tmp_path / "house"), key(), str(stamped)))
    other = key(gpu_targets=["sm_80"])
    (tmp_path / "other").mkdir()
    wheel.write_bytes(Path(stamp(str(stamped), other, {}, str(tmp_path / "other"))).read_bytes())
    manifest = wheel.parent / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "sha256": sha256(str(wheel))}))
    with pytest.raises(WheelError, match="another key"):
        _wheelhouse.find(str(tmp_path / "house"), key())
