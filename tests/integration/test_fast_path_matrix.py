# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The binding under real wheels of transformers, one release for each way that it has had, on a CPU build of torch.

causal_conv1d, fla and mamba_ssm are FAKES (tests/fast_path_fakes.py) where the test does not say "real", and the GPU is
claimed: none is here, and releases up to 5.14 bind nothing without one. The broken library is compiled by the real gcc.
The environments are made once, in build/fast_path (three minutes); with them all this takes about a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.proxmox_gpu.training.plugins.module_utils._fast_path import archive, child, families
from tests import fast_path_environments as environments
from tests import fast_path_fakes as fakes

pytestmark = pytest.mark.timeout(900)

RELEASES = list(environments.RELEASES)
# What each modeling file of each release is, as read from the wheels by hand: M module flag, I mixer flag (__init__),
# F forward flag, D decorator, - no such family.
DESIGNS = {"M": "module flag", "I": "mixer flag", "F": "forward flag", "D": "decorator"}
TABLE = """
                   4.57.6 5.5.4 5.14.1 5.15.1 5.17.0 5.24.0
qwen3_5            -      M     M      D      D      D
qwen3_5_moe        -      M     M      D      D      D
qwen3_next         M      M     M      D      D      D
olmo_hybrid        -      M     M      D      D      D
kimi_linear        -      -     -      -      D      D
mamba              F      F     F      D      D      D
falcon_mamba       F      F     F      D      D      D
mamba2             M      I     I      D      D      D
jamba              M      I     I      D      D      D
bamba              M      I     I      D      D      D
falcon_h1          M      I     I      D      D      D
granitemoehybrid   M      I     I      D      D      D
nemotron_h         -      I     I      D      D      D
zamba              M      I     I      D      D      D
zamba2             M      I     I      D      D      D
lfm2               M      M     M      D      D      D
lfm2_moe           -      M     M      D      D      D
"""
ROWS = {row.split()[0]: row.split()[1:] for row in TABLE.strip().splitlines()[1:]}
ALL = list(families.FAMILIES)
# The delta net of each release that is broken on purpose below.
NET = {release: "qwen3_next" if release == "4.57.6" else "qwen3_5" for release in RELEASES}
# What a release of the package kernels requires beyond the base environment.
KERNELS = {"0.15.2": "kernels-data tomlkit", "0.17.2": "kernels-data tomlkit"}
Answers = Callable[..., dict[str, Any]]


def design(family: str, release: str) -> str:
    return DESIGNS.get(ROWS[family][RELEASES.index(release)], "-")


CASES = [(f, r) for f in ALL for r in RELEASES if design(f, r) != "-"]
FLAGS = [release for release in RELEASES if design("mamba2", release) != "decorator"]
DECORATED = [release for release in RELEASES if release not in FLAGS]


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with fakes, by what is wrong with them."""
    root = tmp_path_factory.mktemp("sites")
    names = ("good", "broken", "half", "raising", "core", "bare", "no_metadata")
    folders = {name: root / name for name in names}
    for folder in folders.values():
        folder.mkdir()
    for name in ("good", "broken", "half", "raising", "no_metadata"):
        fakes.mamba_ssm(fakes.fla(folders[name]))
    fakes.conv(folders["good"])
    fakes.broken_library(folders["broken"])
    fakes.conv(folders["half"], fakes.CONV.replace("def causal_conv1d_update", "def _causal_conv1d_update"))
    fakes.conv(folders["raising"], "raise OSError('libcudart.so.12: cannot open shared object file')\n")
    fakes.conv(folders["no_metadata"], version=None)
    fakes.fla(fakes.conv(folders["core"]), whole=False)
    return folders


def jobs(sites: dict[str, Path]) -> dict[tuple[str, str], dict[str, Any]]:
    """{(release, start): request to the driver}. Each is one process; its scenarios are forks of it."""

    def scenario(name: str, wanted: list[str], gpu: bool = True) -> dict[str, Any]:
        return {"name": name, "site": str(sites.get(name, "")) or None, "gpu": gpu, "families": wanted}

    wanted: dict[tuple[str, str], dict[str, Any]] = {}
    for release in RELEASES:
        there = [family for family in ALL if design(family, release) != "-"]
        net = [NET[release]]
        wanted[release, "good"] = {
            "scenarios": [
                scenario("good", ALL),
                scenario("no gpu", there, gpu=False),
                scenario("broken", [*net, "bamba"]),
                scenario("half", net),
                scenario("raising", [*net, "mamba2"]),
            ],
            "count": there if release in ("5.14.1", "5.24.0") else [],
        }
        wanted[release, "bare"] = {"scenarios": [scenario("bare", there, gpu=release in FLAGS)]}
    wanted["4.57.6", "no_metadata"] = {"scenarios": [scenario("no_metadata", ["lfm2", "qwen3_next"])]}
    wanted["5.15.1", "core"] = {"scenarios": [scenario("core", ["qwen3_5"], gpu=False)]}
    for release, kernels, switch in (
        ("5.5.4", "0.12.3", ""),
        ("5.5.4", "0.12.3", "0"),
        ("5.14.1", "0.15.2", ""),
        ("5.14.1", "0.15.2", "0"),
        ("5.14.1", "0.17.2", ""),
        ("5.24.0", "0.17.2", ""),
    ):
        environment = {"USE_HUB_KERNELS": switch} if switch else {}
        wanted[release, f"kernels {kernels} {switch}".strip()] = {
            "scenarios": [scenario("kernels", ["bamba", NET[release]])],
            "environment": environment,
            "more": [f"kernels=={kernels} {KERNELS.get(kernels, '')}"],
        }
    return wanted


def ask(program: Path, sites: dict[str, Path], release: str, start: str, request: dict[str, Any]) -> dict[str, Any]:
    more = [str(environments.packages(*one.split())) for one in request.pop("more", [])]
    folder = sites.get(start, sites["good"])
    full = {
        "archive": str(program),
        "start": str(folder),
        "overlay": [*more, *environments.transformers(release)],
        **request,
        "environment": {"HF_HUB_OFFLINE": "1", "HF_HOME": str(sites["bare"]), **request.get("environment", {})},
    }
    done = subprocess.run(
        [str(environments.base()), "-B", str(Path(__file__).with_name("fast_path_driver.py"))],
        input=json.dumps(full),
        capture_output=True,
        text=True,
        timeout=600,
        env={"PATH": os.environ["PATH"], "HOME": str(sites["bare"]), **full["environment"]},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="session")
def answers(sites: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """answers(release, start, scenario) -> {family: binding}; all processes run at once, as many as processors are."""
    program = tmp_path_factory.mktemp("program") / "program.zip"
    program.write_bytes(archive.build())
    environments.base()
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        futures: dict[tuple[str, str], Future[dict[str, Any]]] = {
            job: pool.submit(ask, program, sites, *job, request) for job, request in jobs(sites).items()
        }

        def get(release: str, start: str = "good", name: str | None = None) -> dict[str, Any]:
            found = futures[release, start].result()[name or start]
            assert "raised" not in found, found
            return dict(found["answer"])

        yield get


@pytest.mark.parametrize(("family", "release"), CASES, ids=lambda value: str(value))
def test_with_everything_installed(answers: Answers, family: str, release: str) -> None:
    found = answers(release)[family]
    assert (found["design"], found["transformers"]) == (design(family, release), release), found["sentence"]
    slow = {f["name"]: f["error"] for f in found["functions"] if f["bound"] is not True}
    if release == "5.15.1" and "gated delta net" in found["kind"]:
        assert list(slow) == ["recurrent_gated_delta_rule"]
        assert "install transformers 5.17.0" in found["sentence"]
    elif family == "falcon_mamba" and release in ("5.5.4", "5.14.1"):
        assert set(slow) == {"selective_scan_fn", "mamba_inner_fn", "selective_state_update"}
        assert "from the hub alone (causal-conv1d, falcon_mamba-ssm), never from mamba-ssm" in found["sentence"]
    else:
        assert (found["state"], slow) == ("ok", {}), found["sentence"]
        # What the table of families promises is what the release calls, but for what 5.14's olmo_hybrid takes from fla.
        promised = set(families.census(families.EXAMPLES[family])["functions"])
        called = {f["name"] for f in found["functions"]}
        assert called == promised or family == "olmo_hybrid" or called < promised and family == "zamba"


@pytest.mark.parametrize(("family", "release"), CASES, ids=lambda value: str(value))
def test_with_nothing_installed(answers: Answers, family: str, release: str) -> None:
    found = answers(release, "bare")[family]
    assert (found["design"], found["state"]) == (design(family, release), "absent"), found["sentence"]
    assert found["functions"] and not any(f["bound"] for f in found["functions"])


@pytest.mark.parametrize(("family", "release"), CASES, ids=lambda value: str(value))
def test_without_a_gpu_flags_are_undecided_and_decorators_are_not(answers: Answers, family: str, release: str) -> None:
    found = answers(release, "good", "no gpu")[family]
    if release in FLAGS:
        assert (found["state"], {f["bound"] for f in found["functions"]}) == ("unknown", {None}), found["sentence"]
    else:
        assert found["state"] == answers(release)[family]["state"]


@pytest.mark.parametrize("release", RELEASES)
def test_families_that_a_release_lacks_are_unknown(answers: Answers, release: str) -> None:
    for family in ALL:
        if design(family, release) == "-":
            found = answers(release)[family]
            assert (found["state"], found["functions"]) == ("unknown", [])
            assert f"transformers {release} has no model family '{family}'" in found["sentence"]


@pytest.mark.parametrize("release", ["5.14.1", "5.24.0"])
def test_census_counts_the_layers_that_transformers_builds(answers: Answers, release: str) -> None:
    built = answers(release, "good", "count")
    assert len(built) >= 16
    assert built == {family: families.census(families.EXAMPLES[family])["fast_layers"] for family in built}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("family", ["net", "bamba"])
def test_a_broken_library_is_broken_by_its_true_error(answers: Answers, release: str, family: str) -> None:
    found = answers(release, "good", "broken")[NET[release] if family == "net" else family]
    assert found["state"] == "broken"
    assert "undefined symbol: _ZN3c104cuda29c10_cuda_of_another_torchEv" in found["sentence"]
    assert "not installed" not in found["sentence"]
    by_name = {f["name"]: f for f in found["functions"]}
    assert by_name["causal_conv1d_fn"]["state"] == by_name["causal_conv1d_update"]["state"] == "broken"
    assert not by_name["causal_conv1d_fn"]["bound"]


@pytest.mark.parametrize("release", RELEASES)
def test_half_a_package(answers: Answers, release: str) -> None:
    found = answers(release, "good", "half")[NET[release]]
    assert found["state"] == "broken"
    by_name = {f["name"]: f for f in found["functions"]}
    assert by_name["causal_conv1d_update"]["error"].startswith(
        "half a package: causal_conv1d has no causal_conv1d_update"
    )
    if release in DECORATED:
        assert by_name["causal_conv1d_fn"]["bound"] is True
    else:  # the modeling file imports both in one line
        assert "cannot import name 'causal_conv1d_update'" in found["sentence"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("family", ["net", "mamba2"])
def test_an_exception_at_import_is_shown(answers: Answers, release: str, family: str) -> None:
    found = answers(release, "good", "raising")[NET[release] if family == "net" else family]
    assert found["state"] == "broken"
    assert "OSError: libcudart.so.12: cannot open shared object file" in found["sentence"]


def test_a_module_without_metadata_is_not_taken_by_4_57(answers: Answers) -> None:
    for family in ("lfm2", "qwen3_next"):
        found = answers("4.57.6", "no_metadata")[family]
        assert found["state"] == "broken"
        assert (
            "causal_conv1d imports but has no package metadata, which transformers 4.57.6 demands" in found["sentence"]
        )


def test_fla_core_alone_is_not_found_by_5_15(answers: Answers) -> None:
    found = answers("5.15.1", "core")["qwen3_5"]
    bound = {f["name"]: f["bound"] for f in found["functions"]}
    assert bound["chunk_gated_delta_rule"] is False and bound["causal_conv1d_fn"] is True
    assert "fla-core is installed alone" in found["sentence"]


@pytest.mark.parametrize("job", ["kernels 0.12.3", "kernels 0.12.3 0"])
def test_5_5_asks_the_hub_while_kernels_is_installed_whatever_the_switch(answers: Answers, job: str) -> None:
    """The real package kernels, whose cache is empty here: what an online job would get cannot be told."""
    found = answers("5.5.4", job, "kernels")
    assert (found["bamba"]["state"], {f["bound"] for f in found["bamba"]["functions"]}) == ("unknown", {None})
    assert "takes them from the hub while the package kernels (0.12.3) is installed" in found["bamba"]["sentence"]
    assert found["bamba"]["sentence"].endswith("; uninstall kernels.")
    assert found["qwen3_5"]["state"] == "ok"


def test_5_14_asks_the_hub_unless_the_switch_is_off(answers: Answers) -> None:
    asking = answers("5.14.1", "kernels 0.15.2", "kernels")["bamba"]
    assert (asking["state"], asking["warnings"]) == ("unknown", [])
    assert asking["sentence"].endswith("; set USE_HUB_KERNELS=0 or uninstall kernels.")
    assert answers("5.14.1", "kernels 0.15.2 0", "kernels")["bamba"]["state"] == "ok"


@pytest.mark.parametrize(
    ("release", "window"), [("5.14.1", "0.15.2 or later, and before 0.16.0"), ("5.24.0", "0.18.2")]
)
def test_kernels_outside_of_the_window_are_off_and_said_so(answers: Answers, release: str, window: str) -> None:
    found = answers(release, "kernels 0.17.2", "kernels")["bamba"]
    assert found["state"] == "ok"
    (warning,) = found["warnings"]
    assert f"kernels 0.17.2 is not what transformers {release} takes ({window}" in warning


def real(release: str, site: list[str], family: str = "qwen3_5") -> dict[str, Any]:
    """By the way of production: a child of the interpreter, nothing claimed, nothing imported ahead."""
    path = os.pathsep.join([*site, *environments.transformers(release)])
    found = child.run(
        str(environments.base()), {"action": "binding", "family": family}, 300, environment={"PYTHONPATH": path}
    )
    assert "output" not in found, found
    return found


def test_the_real_way_says_the_same_as_the_driver(answers: Answers, sites: dict[str, Path]) -> None:
    found, driven = real("5.17.0", [str(sites["good"])]), answers("5.17.0", "good", "no gpu")["qwen3_5"]
    differs = ("python", "warnings")
    assert {k: v for k, v in found.items() if k not in differs} == {k: v for k, v in driven.items() if k not in differs}
    assert found["gpu"] == {
        "count": 0,
        "devices": [],
        "visible": None,
        "cuda": None,
        "reason": "torch is built without CUDA",
    }


def test_real_fla_core_is_bound_by_5_17(sites: dict[str, Path]) -> None:
    """The real wheels of fla-core and triton: their functions are imported and their arguments are read."""
    fla = environments.packages("fla-core==0.5.2", "triton==3.6.0")
    found = real("5.17.0", [str(fla)])
    by_name = {f["name"]: f for f in found["functions"]}
    for name in ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"):
        assert by_name[name]["bound"] is True, by_name[name]
        assert (by_name[name]["version"], by_name[name]["note"]) == ("0.5.2", None)
        assert by_name[name]["implementation"].startswith("fla.ops.gated_delta_rule.")
    assert (found["state"], found["triton"]) == ("absent", "3.6.0")
    assert "causal_conv1d_fn): no module 'causal_conv1d' here" in found["sentence"]
