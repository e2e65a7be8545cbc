# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After the plan the CUDA repository has one entry, and nothing of anybody else's has moved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.proxmox_gpu.training.plugins.module_utils._apt_sources import concerns_cuda, parse
from ansible_collections.proxmox_gpu.training.plugins.module_utils._cuda_sources_plan import plan, stanza

URL = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
FOLDER = "/etc/apt/sources.list.d/"
PATH = FOLDER + "cuda-debian12-x86_64.sources"
OURS = stanza(URL, KEYRING)
DEBIAN = "deb http://deb.debian.org/debian bookworm main\n"


def after(files: dict[str, str], urls: tuple[str, ...] = ()) -> dict[str, str]:
    result = dict(files)
    for change in plan(files, PATH, OURS, [URL, *urls]):
        assert result.get(change.path) == change.before
        if change.after is None:
            del result[change.path]
        else:
            result[change.path] = change.after
    return result


def test_a_fresh_system_gets_the_one_file() -> None:
    files = {"/etc/apt/sources.list": DEBIAN}
    assert after(files) == {**files, PATH: OURS}
    (entry,) = parse(PATH, OURS)
    assert (entry.uri, entry.suites, entry.signed_by) == (URL + "/", ("/",), KEYRING)


def test_what_the_keyring_package_and_old_recipes_leave() -> None:
    files = {
        "/etc/apt/sources.list": DEBIAN + f"deb {URL.replace('https', 'http')} /\n# mine\n",
        FOLDER + "cuda.list": f"deb {URL} /\n",
        FOLDER + "cuda-debian12-x86_64.list": f"deb [signed-by={KEYRING}] {URL}/ /\n",
        FOLDER + "nvidia.sources": f"Types: deb\nURIs: {URL}\nSuites: /\nSigned-By: /etc/apt/keyrings/nvidia.asc\n",
        FOLDER + "upgraded.list": f"deb {URL.replace('debian12', 'debian11')} /\n",
        FOLDER + "local.list": "deb [signed-by=/k.gpg] file:///var/cuda-repo-debian12-12-8-local /\n",
        FOLDER + "node.list": "deb https://deb.nodesource.com/node_20.x nodistro main\n",
    }
    assert after(files) == {
        "/etc/apt/sources.list": DEBIAN + "# mine\n",
        FOLDER + "node.list": files[FOLDER + "node.list"],
        PATH: OURS,
    }
    removed = [entry.file for change in plan(files, PATH, OURS, [URL]) for entry in change.removed]
    assert len(removed) == 6


def test_others_go_before_ours_comes() -> None:
    """Two entries with different Signed-By stop apt for every repository: there must be no moment with both."""
    files = {FOLDER + "zzz.list": f"deb {URL} /\n", FOLDER + "aaa.list": f"deb {URL} /\n"}
    assert [change.path for change in plan(files, PATH, OURS, [URL])][-1] == PATH


def test_a_second_run_changes_nothing() -> None:
    files = {FOLDER + "cuda.list": f"deb {URL} /\n", PATH: f"Types: deb\nURIs: {URL}\nSuites: /\nEnabled: no\n"}
    done = after(files)
    assert done == {PATH: OURS}
    assert plan(done, PATH, OURS, [URL]) == []


def test_a_disabled_entry_is_not_ours_to_remove() -> None:
    files = {
        FOLDER + "off.sources": f"Types: deb\nURIs: {URL}\nSuites: /\nEnabled: no\n",
        FOLDER + "x.list": f"#deb {URL} /\n",
    }
    assert after(files) == {**files, PATH: OURS}


def test_a_mirror_that_is_left_for_another() -> None:
    files = {FOLDER + "old.list": "deb http://mirror.example/nv/debian12/x86_64 /\n"}
    assert after(files) == {**files, PATH: OURS}
    assert after(files, ("http://mirror.example/nv",)) == {PATH: OURS}


def test_repositories_that_somebody_added_to_our_file_stay() -> None:
    other = "# other\nTypes: deb\nURIs: http://a.example/\nSuites: /\n"
    done = after({PATH: OURS.replace("debian12", "debian11") + "\n" + other})
    assert done == {PATH: OURS + "\n" + other}
    assert plan(done, PATH, OURS, [URL]) == []


_line = st.sampled_from(
    [
        f"deb {URL} /",
        f"deb [signed-by=/x] {URL}/ /",
        DEBIAN.rstrip(),
        "# note",
        "",
        f"Types: deb\nURIs: {URL} http://a.example/\nSuites: /\n",
        f"Types: deb\nURIs: {URL}\nSuites: /\n",
        "Types: deb\nURIs: http://b.example/\nSuites: /\n",
        OURS,
    ]
)
_files = st.dictionaries(
    st.sampled_from(["/etc/apt/sources.list", FOLDER + "a.list", FOLDER + "b.sources", PATH]),
    st.lists(_line, max_size=5).map("\n".join),
)


@given(_files)
def test_any_sources_end_with_one_entry(files: dict[str, str]) -> None:
    def strangers(texts: dict[str, str]) -> list[str]:
        entries = [entry for name in sorted(texts) for entry in parse(name, texts[name])]
        return sorted(entry.uri for entry in entries if not concerns_cuda(entry))

    done = after(files)
    cuda = [entry for name in done for entry in parse(name, done[name]) if concerns_cuda(entry)]
    assert [(entry.file, entry.uri, entry.signed_by) for entry in cuda] == [(PATH, URL + "/", KEYRING)]
    assert strangers(done) == strangers(files)
    assert plan(done, PATH, OURS, [URL]) == []
