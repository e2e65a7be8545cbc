# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each fault that apt can meet gets its own sentence, on texts that real apts printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._apt_errors import AptProblem, Context, explain

FIXTURES = Path(__file__).parent / "fixtures" / "apt"


def _samples(name: str) -> dict[str, str]:
    """Sections of one fixture file, without the exit status that closes each."""
    sections = (FIXTURES / name).read_text(encoding="utf-8").split("\n##### ")[1:]
    return {title: text.rpartition("rc ")[0] for title, _newline, text in (one.partition("\n") for one in sections)}


APT_2_6 = _samples("apt_2.6.1.txt")
APT_3_0 = _samples("apt_3.0.4.txt")
OTHERS = _samples("apt_locks_and_dpkg.txt")
PROXIES = {
    "proxy_refused": "http://user:secret@127.0.0.1:2/",
    "proxy_no_such_host": "no-such-proxy.invalid:3128",
    "proxy_denied": "http://127.0.0.1:18080/",
    "proxy_login": "http://127.0.0.1:18080/",
}
# sample: (kind, transient, words that the sentence must hold)
EXPECTED = {
    "missing_key": ("missing_key", False, ["90E56915F900176B"]),
    "bad_signature": ("bad_signature", False, ["http://127.0.0.1:18080/badsig", "cuda_repository_mirror"]),
    "unsigned": ("unsigned", False, ["http://127.0.0.1:18080/unsigned", "cuda_repository_mirror"]),
    "size_mismatch": ("upstream_publishing", True, ["/size", "unexpected size", "retry later"]),
    "hash_mismatch": ("upstream_publishing", True, ["/hash", "Hash Sum mismatch", "retry later"]),
    "index_missing": ("upstream_publishing", True, ["/missingpackages/Packages", "404", "retry later"]),
    "index_malformed": ("upstream_publishing", True, ["nopackageheader_Packages", "retry later"]),
    "login_page": ("login_page", False, ["http://127.0.0.1:18080/portal", "login page"]),
    "no_such_path": ("no_repository", False, ["http://127.0.0.1:18080/nothere", "404", "cuda_repository_mirror"]),
    "code401": ("denied", False, ["401 Unauthorized"]),
    "code403": ("denied", False, ["403 Forbidden"]),
    "code500": ("server_error", True, ["500 Internal Server Error"]),
    "code503": ("server_error", True, ["503 Service Unavailable"]),
    "dropped": ("unreachable", True, ["/drop", "Connection failed"]),
    "refused": ("unreachable", True, ["http://127.0.0.1:1/good", "Connection refused", "cuda_repository_mirror"]),
    "no_such_host": ("unreachable", True, ["Could not resolve 'no-such-host.invalid'"]),
    "proxy_refused": ("proxy", True, ["the proxy 127.0.0.1:2 cannot be reached", "cuda_repository_proxy"]),
    "proxy_no_such_host": ("proxy", True, ["the proxy no-such-proxy.invalid:3128 cannot be reached"]),
    "proxy_denied": ("proxy", False, ["the proxy 127.0.0.1:18080 refused", "403 Forbidden", "cuda_repository_proxy"]),
    "proxy_login": ("proxy", False, ["the proxy 127.0.0.1:18080 refused", "407 Proxy Authentication Required"]),
    "tls_issuer": ("tls", False, ["https://localhost:18443/good", "bootstrap_ca_certificates"]),
    "tls_name": ("tls", False, ["https://127.0.0.1:18443/good"]),
    "tls_no_ca": ("tls", False, ["https://localhost:18443/good", "/etc/ssl/none.crt"]),
    "tls_not_spoken": ("tls", False, ["https://127.0.0.1:18080/good"]),
    "malformed": ("malformed", False, ["entry 1 of /etc/apt/sources.list.d/cuda.list"]),
    "unknown_type": ("malformed", False, ["entry 1 of /etc/apt/sources.list.d/cuda.list"]),
    "release_expired": ("release_expired", False, ["182d", "cuda_repository_mirror"]),
    "clock_behind": ("clock", False, ["clock", "in the future"]),
}
ONLY_2_6 = {
    # Before sqv, a keyring file that is not there looks just like one without the key.
    "missing_keyring": ("missing_key", False, ["90E56915F900176B", "missing or unreadable"]),
    "key_expired": ("key_expired", False, ["7835084A5A4EEE31"]),
    "conflict": (
        "conflict",
        False,
        [
            "http://127.0.0.1:18080/good/",
            "Signed-By",
            "one with Signed-By '/usr/share/keyrings/good.gpg' and one with ''",
        ],
    ),
}
ONLY_3_0 = {
    "missing_keyring": ("missing_keyring", False, ["/usr/share/keyrings/none.gpg"]),
    "sha1_key": (
        "sha1_key",
        False,
        ["C6760E549FCA83BBA9513D362DED9D8F2FD54D5A", "SHA1", "2026-02-01", "never an insecure"],
    ),
}
DPKG = {
    "lists_locked": ("locked", True, ["process 29815 (python3) holds /var/lib/apt/lists/lock"]),
    "dpkg_locked_at_once": ("locked", True, ["process 29865 (python3) holds /var/lib/dpkg/lock-frontend"]),
    "dpkg_locked_after_waiting": (
        "locked",
        True,
        ["process 29865 (unattended-upgr) holds /var/lib/dpkg/lock-frontend"],
    ),
    "dpkg_inner_lock": ("locked", True, ["process 29992 (python3) holds /var/lib/dpkg/lock"]),
    "dpkg_itself_locked": ("locked", True, ["process 5 holds dpkg's frontend lock"]),
    "archives_locked": ("locked", True, ["process 30117 (python3) holds /var/cache/apt/archives/lock"]),
    "lists_no_space": ("no_space", False, ["disk is full"]),
    "label_changed": ("label_changed", False, ["from 'NVIDIA CUDA' to 'Other'"]),
    "package_script_failed": ("package_script_failed", False, ["the package boom"]),
    "dpkg_interrupted": ("interrupted", False, ["dpkg --configure -a"]),
    "no_such_package": ("no_such_package", False, ["the package cuda-nvcc-13-0"]),
    "no_such_version": ("no_such_version", False, ["version 99 of the package base-files"]),
}
CASES = [
    pytest.param(samples[name], PROXIES.get(name, ""), *expected, id=f"{version}-{name}")
    for version, samples, table in (
        ("2.6", APT_2_6, EXPECTED | ONLY_2_6),
        ("3.0", APT_3_0, EXPECTED | ONLY_3_0),
        ("dpkg", OTHERS, DPKG),
    )
    for name, expected in table.items()
]


def _explain(output: str, proxy: str = "") -> AptProblem | None:
    return explain(output, Context(proxy, "cuda_repository_mirror", "cuda_repository_proxy"))


@pytest.mark.parametrize(("output", "proxy", "kind", "transient", "words"), CASES)
def test_each_fault_has_its_sentence(output: str, proxy: str, kind: str, transient: bool, words: list[str]) -> None:
    problem = _explain(output, proxy)
    assert problem is not None
    assert (problem.kind, problem.transient) == (kind, transient), problem.sentence
    for word in words:
        assert word in problem.sentence
    assert "\n" not in problem.sentence
    assert "secret" not in problem.sentence
    assert "  " not in problem.sentence
    assert "()" not in problem.sentence
    assert problem.evidence


def test_every_sample_is_told() -> None:
    """A sample without an expectation would be a hole; these are the ones that apt takes without complaint."""
    fine = {"good", "sha1_key"}
    assert set(APT_2_6) - set(EXPECTED | ONLY_2_6) == fine
    assert set(APT_3_0) - set(EXPECTED | ONLY_3_0) == {"good", "key_expired", "conflict"}
    assert set(OTHERS) == set(DPKG)
    assert explain(APT_2_6["good"]) is None
    assert explain(APT_2_6["sha1_key"]) is None


def test_carriage_returns_do_not_matter() -> None:
    assert _explain(APT_2_6["refused"].replace("\n", "\r\n")) == _explain(APT_2_6["refused"])


def test_a_refusal_is_the_proxy_s_only_when_a_proxy_is_set() -> None:
    problem = _explain(APT_2_6["proxy_refused"])
    assert problem is not None
    assert problem.kind == "unreachable"


def test_an_unknown_error_is_quoted() -> None:
    problem = explain("Reading...\nE: Something  new.\nE: And more\n")
    assert problem == AptProblem("other", "apt failed: Something new", False, "E: Something  new.")


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    problem = explain(text)
    assert problem is None or "\n" not in problem.sentence
