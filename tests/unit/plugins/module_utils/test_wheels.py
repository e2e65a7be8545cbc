# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wheel files and the wheelhouse: what goes in comes out, and nothing else does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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

CHECKOUT = Path(__file__).resolve().parents[4]


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


def test_a_wheel_that_carries_a_key_gets_another_one_in_its_place(stamped: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    again = stamp(str(stamped), key(libc="glibc-2.41"), {}, str(tmp_path / "again"))
    assert read_record(again)["key"]["libc"] == "glibc-2.41"
    with zipfile.ZipFile(again) as wheel:
        assert len(wheel.namelist()) == len(set(wheel.namelist()))


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


def set_folder(house: str | Path) -> Path:
    return Path(house) / _wheelhouse.set_of(key())


def test_published_and_found(stamped: Path, tmp_path: Path) -> None:
    house = str(tmp_path / "house")
    assert _wheelhouse.find(house, key()) is None
    place = _wheelhouse.publish(house, key(), str(stamped))
    found = _wheelhouse.find(house, key())
    assert found
    assert found[0] == place
    assert found[1]["built"] == {"seconds": 5}
    assert _wheelhouse.find(house, key(torch="2.13.0+cu130")) is None
    assert sorted(path.name for path in Path(house).iterdir()) == [_wheelhouse.SOURCES, _wheelhouse.set_of(key())]
    assert sorted(path.suffix for path in set_folder(house).iterdir()) == [".json", ".whl"]


def test_the_sources_of_a_version_are_known_from_the_first_build(stamped: Path, tmp_path: Path) -> None:
    house = str(tmp_path / "house")
    assert _wheelhouse.source_sha256(house, "tiny", "1.0") is None
    _wheelhouse.publish(house, key(), str(stamped))
    assert _wheelhouse.source_sha256(house, "tiny", "1.0") == "ab" * 32


def test_a_set_is_one_environment() -> None:
    sets = [
        key(),
        key(torch="2.13.0+cu130"),
        key(python_tag="cp312"),
        key(libc="glibc-2.41"),
        key(machine="aarch64"),
        key(cxx11_abi=False),
        key(gpu_targets=["sm_80"]),
        key(gpu_targets=[]),
    ]
    assert len({_wheelhouse.set_of(one) for one in sets}) == len(sets)
    assert _wheelhouse.set_of(key(package="other")) == _wheelhouse.set_of(key())


def test_pip_of_people_without_us_finds_it(stamped: Path, tmp_path: Path) -> None:
    house = str(tmp_path / "house")
    wheel = _wheelhouse.publish(house, key(), str(stamped))
    tags = ["--only-binary=:all:", "--platform=linux_x86_64", "--python-version=3.11", "--implementation=cp"]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-index", "--no-deps", *tags]
    subprocess.run([*command, "-f", str(set_folder(house)), "-d", str(tmp_path / "got"), "tiny==1.0"], check=True)
    assert [path.name for path in (tmp_path / "got").iterdir()] == [Path(wheel).name]


def test_publishing_again_replaces(stamped: Path, tmp_path: Path) -> None:
    house = str(tmp_path / "house")
    _wheelhouse.publish(house, key(), str(stamped))
    _wheelhouse.publish(house, key(), str(stamped))
    assert _wheelhouse.find(house, key())
    assert len(list(set_folder(house).iterdir())) == 2


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
    harm(wheel, wheel.parent / f"{key().digest()}.json")
    with pytest.raises(WheelError, match=sentence):
        _wheelhouse.find(str(tmp_path / "house"), key())


def test_a_replaced_wheel_with_a_fitting_manifest_is_still_of_another_key(stamped: Path, tmp_path: Path) -> None:
    wheel = Path(_wheelhouse.publish(str(tmp_path / "house"), key(), str(stamped)))
    other = key(gpu_targets=["sm_80"])
    (tmp_path / "other").mkdir()
    wheel.write_bytes(Path(stamp(str(stamped), other, {}, str(tmp_path / "other"))).read_bytes())
    manifest = wheel.parent / f"{key().digest()}.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "sha256": sha256(str(wheel))}))
    with pytest.raises(WheelError, match="another key"):
        _wheelhouse.find(str(tmp_path / "house"), key())


KILLED = """
import os, signal, sys
from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import key_from_dict
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import read_record
house, wheel, call = sys.argv[1:]
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
owner = {"copyfileobj": _wheelhouse.shutil, "replace": _wheelhouse.os, "write_json": _wheelhouse}[call]
setattr(owner, call, die)
_wheelhouse.publish(house, key_from_dict(read_record(wheel)["key"]), wheel)
"""


@pytest.mark.parametrize("call", ["copyfileobj", "replace", "write_json"])
def test_killed_while_publishing_there_is_no_wheel_and_the_next_one_publishes(
    call: str, stamped: Path, tmp_path: Path
) -> None:
    house = tmp_path / "house"
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "build" / "tree")}
    command = [sys.executable, "-c", KILLED, str(house), str(stamped), call]
    for published_again in (True, False):
        assert subprocess.run(command, env=environment, check=False).returncode == -9
        if not published_again:
            next(house.rglob(f"{key().digest()}.json")).unlink()
        assert _wheelhouse.find(str(house), key()) is None
        if published_again:
            _wheelhouse.publish(str(house), key(), str(stamped))
            assert _wheelhouse.find(str(house), key())
        _wheelhouse.prune(str(house), now=time.time() + 2 * 86400)
        assert not [path for path in house.rglob(".*") if path.is_file()]
        assert len(list(house.rglob("*.whl"))) == published_again


def test_a_full_disk_leaves_nothing_of_a_wheel(stamped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full says what a full disk does; a file system that really is full: tests/integration."""
    full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
    monkeypatch.setattr(_wheelhouse.shutil, "copyfileobj", lambda source, copy: full.write(b"x"))
    with full, pytest.raises(OSError, match="No space left on device"):
        _wheelhouse.publish(str(tmp_path / "house"), key(), str(stamped))
    assert not [path for path in (tmp_path / "house").rglob("*") if path.is_file()]


# ---- one builder at a time

BUILDER = """
import sys, time
from ansible_collections.proxmox_gpu.training.plugins.module_utils import _wheelhouse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_key import key_from_dict
from ansible_collections.proxmox_gpu.training.plugins.module_utils._wheel_file import read_record
house, wheel, who = sys.argv[1:]
key = key_from_dict(read_record(wheel)["key"])
with _wheelhouse.turn(house, key, who, 60):
    if _wheelhouse.find(house, key):
        print("found")
    else:
        print("building", flush=True)
        time.sleep(300 if who == "hangs" else 0.5)
        _wheelhouse.publish(house, key, wheel)
"""


def builder(house: Path, stamped: Path, who: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "build" / "tree")}
    command = [sys.executable, "-c", BUILDER, str(house), str(stamped), who]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_builders_at_once_make_one_build(stamped: Path, tmp_path: Path) -> None:
    processes = [builder(tmp_path / "house", stamped, f"ct{number}") for number in range(4)]
    said = sorted(process.communicate(timeout=50)[0].strip() for process in processes)
    assert said == ["building", "found", "found", "found"]


def test_the_next_one_takes_over_from_a_builder_that_died(stamped: Path, tmp_path: Path) -> None:
    first = builder(tmp_path / "house", stamped, "hangs")
    assert first.stdout
    assert first.stdout.readline() == "building\n"
    waited: list[str] = []
    with (
        pytest.raises(_wheelhouse.Busy, match=r"hangs \(process .* builds this wheel and was not done after 1 seconds"),
        _wheelhouse.turn(str(tmp_path / "house"), key(), "second", 1, waited.append),
    ):
        pass
    assert waited
    assert waited[0].startswith("hangs")
    first.kill()
    first.communicate()
    with _wheelhouse.turn(str(tmp_path / "house"), key(source_sha256="00" * 32), "second", 1):
        pass


# ---- cleaning up, and what is learnt from what is there


def test_what_was_not_used_for_long_is_removed(stamped: Path, tmp_path: Path) -> None:
    house = str(tmp_path / "house")
    wheel = _wheelhouse.publish(house, key(), str(stamped))
    manifest = Path(house, _wheelhouse.manifest_path(key()))
    os.utime(manifest, (1000, 1000))
    assert _wheelhouse.prune(house, unused_since=2000, dry=True) == [wheel]
    assert _wheelhouse.find(house, key())  # which is a use
    assert _wheelhouse.prune(house, unused_since=2000) == []
    os.utime(manifest, (1000, 1000))
    assert _wheelhouse.prune(house, unused_since=2000) == [wheel]
    assert not set_folder(house).exists()


def test_what_nobody_wants_is_removed(stamped: Path, tmp_path: Path) -> None:
    house = str(tmp_path / "house")
    wheel = _wheelhouse.publish(house, key(), str(stamped))
    assert _wheelhouse.prune(house, unwanted=lambda manifest: manifest["key"]["torch"] == "2.13.0+cu130") == []
    assert _wheelhouse.prune(house, unwanted=lambda manifest: manifest["key"]["torch"] == "2.14.1+cu130") == [wheel]
    assert _wheelhouse.find(house, key()) is None


def test_how_long_a_build_is_likely_to_take(stamped: Path, tmp_path: Path) -> None:
    house = str(tmp_path / "house")
    assert _wheelhouse.earlier_seconds(house, key()) is None
    _wheelhouse.publish(house, key(), str(stamped))
    assert _wheelhouse.earlier_seconds(house, key(version="1.1")) == 5
    assert _wheelhouse.earlier_seconds(house, key(gpu_targets=["sm_80", "sm_90", "sm_120"])) == 15
    assert _wheelhouse.earlier_seconds(house, key(package="other")) is None
