# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each fault that pip and uv can meet gets its own sentence, on texts that they really printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._pip_errors import PipProblem, explain

FIXTURES = Path(__file__).parent / "fixtures" / "pip"


def _samples(name: str) -> dict[str, tuple[str, str]]:
    """{title: (output, log)}"""
    found = {}
    for section in (FIXTURES / name).read_text(encoding="utf-8").split("\n##### ")[1:]:
        title, _newline, text = section.partition("\n")
        output, _line, log = text.rpartition("rc ")[0].partition("--- log\n")
        found[title] = (output, log)
    return found


SAMPLES = {
    "pip 23": _samples("pip_23.0.1.txt"),
    "pip 25": _samples("pip_25.3.txt"),
    "uv": _samples("uv_0.13.9.txt"),
}
INDEXES = "torch_environment_index_url, torch_environment_extra_index_urls and torch_environment_find_links"
NOT_MOVED = "nothing that is installed is moved for another package"
PIP = {
    "no_such_version": ("no_such_version", False, ["no index offers einops==99", "0.8.1, 0.8.2, 0.9.0.dev0"]),
    "no_such_package": ("no_such_package", False, ["no index offers einops-does-not-exist-xyz==1", INDEXES]),
    "refused": (
        "unreachable",
        True,
        ["http://127.0.0.1:1/simple/einops/ cannot be reached (Connection refused)", INDEXES],
    ),
    "no_such_host": ("unreachable", True, ["no-such-host.invalid", "Name or service not known"]),
    "silent": ("unreachable", True, ["http://127.0.0.1:18080/slow/einops/", "ReadTimeoutError"]),
    "tls_issuer": ("tls", False, ["https://localhost:18443/", "self-signed certificate", "bootstrap_ca_certificates"]),
    "cert_missing": ("ca_bundle", False, ["/etc/ssl/none.pem", "torch_environment_ca_bundle"]),
    "proxy_refused": ("proxy", True, ["the proxy cannot be reached (Connection refused)", "torch_environment_proxy"]),
    "proxy_denied": ("proxy", False, ["the proxy refused", "403 Forbidden", "torch_environment_proxy"]),
    "code403": ("denied", False, ["403 Client Error", "http://127.0.0.1:18080/code403/einops/"]),
    "code503": ("server_error", True, ["503", "retry later"]),
    "not_an_index": ("no_such_package", False, ["einops==0.8.0", INDEXES]),
    "conflict_of_dependency": (
        "conflict",
        False,
        [
            "flash-linear-attention 0.6.0 needs transformers<6 and >=5.6.2",
            "transformers==4.57.6 is installed",
            NOT_MOVED,
        ],
    ),
    "conflict_of_wishes": ("conflict", False, ["transformers==5.17.0 is wanted", "transformers==4.57.6 is installed"]),
    "python_too_old": (
        "python_too_old",
        False,
        ["ansible-core==2.21.5 needs Python >=3.12", "torch_environment_python"],
    ),
    "no_space": ("no_space", False, ["disk is full", "pct resize"]),
    "build_failed": ("build_failed", False, ["no wheel for this Python and machine"]),
    "bad_requirement": ("invalid", False, ["'einops=0.8' is no requirement"]),
}
UV = {
    "conflict_of_dependency": (
        "conflict",
        False,
        ["flash-linear-attention needs transformers>=5.6.2,<6", "transformers==4.57.6 is installed", NOT_MOVED],
    ),
    "no_such_version": ("no_such_version", False, ["no index offers idna==99"]),
    "no_such_package": ("no_such_package", False, ["no index offers idna-does-not-exist-xyz==1"]),
    "refused": ("unreachable", True, ["http://127.0.0.1:1/simple/packaging/ cannot be reached (Connection refused)"]),
    "no_such_host": ("unreachable", True, ["no-such-host.invalid", "(Name or service not known)"]),
    "proxy_refused": ("proxy", True, ["the proxy cannot be reached (Connection refused)"]),
    "proxy_denied": ("proxy", False, ["the proxy refused"]),
    "not_an_index": ("no_such_package", False, ["packaging==24.0"]),
    "tls": ("tls", False, ["https://pypi.org/simple/packaging/", "UnknownIssuer"]),
    "http_403": ("denied", False, ["http://127.0.0.1:18080/code403/", "403 Forbidden"]),
    "bad_requirement": ("invalid", False, ["'idna=3.4' is no requirement"]),
    "python": ("python_too_old", False, ["numpy==2.4.6 needs Python >=3.11"]),
    "no_space": ("no_space", False, ["disk is full"]),
}
CASES = [
    pytest.param(*SAMPLES[program][title], *expected, id=f"{program}-{title}")
    for program, table in (("pip 23", PIP), ("pip 25", PIP), ("uv", UV))
    for title, expected in table.items()
]


@pytest.mark.parametrize(("output", "log", "kind", "transient", "words"), CASES)
def test_each_fault_has_its_sentence(output: str, log: str, kind: str, transient: bool, words: list[str]) -> None:
    problem = explain(output, log)
    assert problem is not None
    assert (problem.kind, problem.transient) == (kind, transient), problem.sentence
    for word in words:
        assert word in problem.sentence
    assert "\n" not in problem.sentence
    assert "()" not in problem.sentence


def test_every_sample_is_told() -> None:
    assert set(SAMPLES["pip 23"]) == set(SAMPLES["pip 25"]) == set(PIP)
    assert set(SAMPLES["uv"]) == set(UV)


def test_the_log_tells_what_the_output_hides() -> None:
    """A server that refuses looks like a package that does not exist, by the output alone."""
    output, log = SAMPLES["pip 25"]["code403"]
    without, with_log = explain(output), explain(output, log)
    assert (without and without.kind, with_log and with_log.kind) == ("no_such_package", "denied")


def test_a_login_in_an_index_is_not_shown() -> None:
    log = "Could not fetch URL https://user:secret@index.example/simple/x/: 403 Client Error: Forbidden - skipping"
    problem = explain("ERROR: No matching distribution found for x", log)
    assert problem is not None
    assert "https://index.example/simple/x/" in problem.sentence
    assert "secret" not in problem.sentence + problem.evidence


def test_the_barred_cpu_build_is_not_part_of_the_name() -> None:
    """The requirement for a CUDA build bars the CPU build of the same version, which is no news to the reader."""
    text = "ERROR: Could not find a version that satisfies the requirement torch!=9.9+cpu,==9.9 (from versions: {})\n"
    sentences = {versions: explain(text.format(versions)) for versions in ("none", "2.14.1, 2.15.0", "2.15.0, 9.9+cpu")}
    kinds = [problem and problem.kind for problem in sentences.values()]
    assert kinds == ["no_such_package", "no_such_version", "cpu_build_only"]
    assert all("torch==9.9" in str(sentences[versions]) for versions in ("none", "2.14.1, 2.15.0"))
    assert "torch 9.9 as a CPU build only" in str(sentences["2.15.0, 9.9+cpu"])


def test_an_unknown_error_is_quoted() -> None:
    assert explain("Collecting x\nERROR: Something  new.\n") == PipProblem(
        "other", "the installation failed: ERROR: Something new", False, "ERROR: Something new"
    )
    crash = explain("ERROR: Exception:\nTraceback (most recent call last):\n  File x\nValueError: bad port\n")
    assert crash is not None
    assert crash.sentence == "the installation failed: ValueError: bad port"
    assert explain("Successfully installed x") is None


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    problem = explain(text, text)
    assert problem is None or "\n" not in problem.sentence
