# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Differences between a host's lock and today's facts, link by link: one entry for one thing that moved. Pure.

What moves together is one difference: a pip install that brought three packages, a toolkit with its twelve. What the
lock does not hold (an older release wrote it) is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from .. import _training_lock as lock_of
from .._chain.links import RESTS_ON

Section = Mapping[str, Any]
#: A package that decides more than the others names a change of several.
WEIGHT = ("transformers", "triton", "flash-linear-attention", "fla-core", "kernels", "tokenizers")
NOTHING = "nothing"


@dataclass(frozen=True)
class Difference:
    """One thing that moved. ``explains``: ids of the chain's findings that say the same, "gpu.*" for all of a link;
    with ``name`` those alone whose sentence names it."""

    link: str
    what: str
    was: str
    now: str
    explains: tuple[str, ...] = ()
    evidence: str | None = None
    name: str | None = None

    def covers(self, identity: str, sentence: str) -> bool:
        link = identity.partition(".")[0]
        named = identity in self.explains or f"{link}.*" in self.explains
        return named and (self.name is None or self.name in sentence)


def differences(lock: Section, facts: Section) -> list[Difference]:
    """What moved since the lock, in the chain's order. A section of the facts that was not observed is not compared."""
    today = lock_of.content(facts, {}) if _section(facts, "torch").get("version") else _without_torch(facts)
    parts = {"base": _system, "gpu": _gpu, "torch": _torch, "repository": _repository, "toolkit": _toolkit}
    parts |= {"compiler": _compiler, "extensions": _extensions, "binding": _binding}
    found: list[Difference] = []
    for link, compare in parts.items():
        if _section(facts, link) or (link == "extensions" and link in facts and not facts[link]):
            made = list(compare(lock, today, facts))
            # What is built on something that moved moves with it.
            upstream = {one.link for one in found} & set(RESTS_ON[link])
            found += [one for one in made if not (upstream and one.link == "binding")]
    return found


def _section(facts: Section, link: str) -> Section:
    found = facts.get(link)
    return found if isinstance(found, Mapping) and not found.get("error") else {}


def _without_torch(facts: Section) -> dict[str, Any]:
    """The lock that these facts would make, had they a torch; its own part then says that there is none."""
    torch = {**_section(facts, "torch"), "version": NOTHING}
    made = lock_of.content({**facts, "torch": torch}, {})
    made["torch"]["version"] = None
    return made


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or NOTHING
    return str(value) if value not in (None, "") else NOTHING


def _moved(was: Section, now: Section) -> dict[str, tuple[Any, Any]]:
    """{name: (was, is)} of what differs; a value that the lock does not know at all is None there."""
    names = sorted({**was, **now})
    return {name: (was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)}


def _few(names: list[str]) -> list[str]:
    return names[:3] + ([f"{len(names) - 3} more"] if len(names) > 3 else [])


def _and_more(head: str, others: list[str]) -> str:
    if not others:
        return head
    listed = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    return f"{head} (with {listed})"


def _system(lock: Section, today: Section, facts: Section) -> Iterator[Difference]:
    was, now = lock.get("system") or {}, today["system"]
    names = {"version_id": "system", "glibc": "C library", "python": "system's Python", "machine": "machine"}
    moved = [name for name in names if name in was and was[name] != now.get(name)]
    if moved:
        head, others = moved[0], [names[name] for name in moved[1:]]
        shown = [
            f"{one.get('id')} {one.get('version_id')}" if head == "version_id" else one.get(head) for one in (was, now)
        ]
        explains: tuple[str, ...] = ("base.unsupported_system", "base.unsupported_machine")
        yield Difference(
            "base", _and_more(names[head], others), _text(shown[0]), _text(shown[1]), explains, "/etc/os-release"
        )


def _gpu(lock: Section, today: Section, facts: Section) -> Iterator[Difference]:
    was, now = lock.get("gpu") or {}, today["gpu"]
    place = str(_section(facts, "gpu").get("version_file") or "/proc/driver/nvidia/version")
    if was.get("driver") != now["driver"]:
        explains: tuple[str, ...] = (
            "gpu.library_mismatch",
            "gpu.module_not_loaded",
            "torch.driver_too_old",
            "gpu.library_missing",
        )
        explains += ("gpu.not_configured",) if now["driver"] else ("gpu.*",)
        yield Difference("gpu", "driver on the node", _text(was.get("driver")), _text(now["driver"]), explains, place)
        if not now["driver"] or not was.get("driver"):
            return
    elif "libraries" in was and was["libraries"] != now["libraries"]:
        explains = ("gpu.library_mismatch", "gpu.library_missing")
        yield Difference(
            "gpu", "driver libraries", _text(was["libraries"]), _text(now["libraries"]), explains, "libcuda.so.1"
        )
    nodes = (set(was.get("nodes") or []), set(now["nodes"]))
    if "nodes" in was and nodes[0] != nodes[1]:
        gone, new = sorted(nodes[0] - nodes[1]), sorted(nodes[1] - nodes[0])
        explains = ("gpu.node_missing", "gpu.not_a_device", "gpu.absent", "gpu.not_configured")
        what = f"device node{'s' if len(gone or new) > 1 else ''} {', '.join(gone or new)}"
        yield Difference(
            "gpu",
            what,
            "there" if gone else "not there",
            "missing" if gone else "there",
            explains,
            "ls -l /dev/nvidia*",
        )
    elif was.get("gpus") != now["gpus"]:
        names = [_text([str(gpu.get("name")) for gpu in one]) for one in (was.get("gpus") or [], now["gpus"])]
        yield Difference("gpu", "GPUs", names[0], names[1], (), "nvidia-smi -L")


def _torch(lock: Section, today: Section, facts: Section) -> Iterator[Difference]:
    was, now = lock.get("torch") or {}, today["torch"]
    place = f"{_section(facts, 'torch').get('site_packages') or now.get('path')}"
    names = {"path": "training environment", "version": "torch", "cuda": "torch's CUDA", "cxx11_abi": "torch's C++ ABI"}
    names["python_version"] = "the environment's Python"
    moved = [name for name in names if name in was and was[name] != now.get(name)]
    system = (lock.get("system") or {}).get("python") != today["system"]["python"]
    if system and moved == ["python_version"]:
        moved = []  # the system's own line says it
    torch_moved = {"path", "version"} & set(moved)
    if moved:
        head = moved[0]
        others = [] if torch_moved else [names[name] for name in moved[1:]]
        yield Difference(
            "torch", _and_more(names[head], others), _text(was[head]), _text(now.get(head)), ("torch.*",), place
        )
    if moved[:1] != ["path"] and now.get("version"):
        yield from _distributions(lock, today, facts, bool(torch_moved), place)


def _distributions(
    lock: Section, today: Section, facts: Section, torch_moved: bool, place: str
) -> Iterator[Difference]:
    moved = _moved(lock.get("distributions") or {}, today["distributions"])
    ours = {name.replace("_", "-") for name in {**(lock.get("extensions") or {}), **today["extensions"]}}
    with_torch = {"torch"} | {str(item.get("name")) for item in _section(facts, "torch").get("requirements") or []}
    for name in list(moved):
        belongs = name in with_torch or name.startswith(("nvidia-", "triton", "cuda-"))
        if name == "torch" or name in ours or (torch_moved and belongs):
            del moved[name]
    if moved:
        weight = {name: WEIGHT.index(name) if name in WEIGHT else len(WEIGHT) for name in moved}
        head, *others = sorted(moved, key=lambda name: (weight[name], name))
        explains: tuple[str, ...] = ("torch.package_differs", "torch.packages_missing", "torch.dependency_moved")
        yield Difference(
            "torch", _and_more(head, others), _text(moved[head][0]), _text(moved[head][1]), explains, place
        )


def _repository(lock: Section, today: Section, facts: Section) -> Iterator[Difference]:
    was, now = lock.get("repository") or {}, today["repository"]
    entries = [{str(item["file"]): item for item in one.get("entries") or []} for one in (was, now)]
    moved = _moved(*entries) if "entries" in was else {}
    if moved:
        explains: tuple[str, ...] = (
            "absent",
            "malformed_source",
            "conflicting_signed_by",
            "duplicate",
            "wrong_distribution",
            "other_mirror",
        )
        explains += ("wrong_architecture", "unsigned", "keyring_missing", "wrong_key", "not_fetched", "bad_signature")
        head, *others = moved
        shown = _entries(*moved[head])
        ids = tuple(f"repository.{name}" for name in explains)
        yield Difference("repository", _and_more(f"entry {head}", others), shown[0], shown[1], ids, head)
        return
    keys = [list(one.get("fingerprints") or []) for one in (was, now)]
    place = str((_section(facts, "repository").get("keyring") or {}).get("path") or "/usr/share/keyrings")
    if keys[0] != keys[1]:
        explains = tuple(
            f"repository.{name}" for name in ("keyring_missing", "wrong_key", "key_refused", "bad_signature")
        )
        shown = [_text(_few([key[-16:] for key in one])) for one in keys]
        yield Difference("repository", "key of the repository", shown[0], shown[1], explains, place)
    elif "expires" in was and was["expires"] != now["expires"]:
        shown = [_text([day(one.get("expires", {}).get(key)) for key in keys[0]]) for one in (was, now)]
        yield Difference("repository", "expiry of the repository's key", shown[0], shown[1], (), place)


def day(seconds: Any) -> str:
    """2027-03-01 of seconds since 1970; "never" for None."""
    return "never" if seconds is None else datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%d")


def _entries(was: Section | None, now: Section | None) -> list[str]:
    """Both as texts: by their address, or by what else differs where that is the same."""
    if was is None or now is None or was.get("uri") != now.get("uri"):
        return [NOTHING if one is None else str(one.get("uri")) for one in (was, now)]
    names = list(_moved(was, now))
    return [", ".join(f"{name} {_text(one.get(name))}" for name in names) for one in (was, now)]


def _toolkit(lock: Section, today: Section, facts: Section) -> Iterator[Difference]:
    was, now = lock.get("toolkit") or {}, today["toolkit"]
    before, after = was.get("packages") or {}, now["packages"]
    versions = [{name: package.get("version") for name, package in one.items()} for one in (before, after)]
    moved = _moved(*versions)
    if moved:
        head, *others = sorted(moved, key=lambda name: (not name.startswith("cuda-nvcc"), name))
        ids = (
            "absent",
            "incomplete",
            "mixed_set",
            "not_held",
            "wrong_nvcc",
            "wrong_major",
            "wrong_minor",
            "broken_nvcc",
        )
        explains: tuple[str, ...] = tuple(f"toolkit.{name}" for name in ids)
        yield Difference(
            "toolkit",
            _and_more(head, others),
            _text(moved[head][0]),
            _text(moved[head][1]),
            explains,
            "/var/lib/dpkg/status",
        )
    loosed = [name for name in before if name in after and before[name].get("held") != after[name].get("held")]
    if loosed and not moved:
        head, *others = sorted(loosed, key=lambda name: (not name.startswith("cuda-nvcc"), name))
        words = {True: "held", False: "not held"}
        shown = [words[bool(one[head].get("held"))] for one in (before, after)]
        yield Difference(
            "toolkit",
            _and_more(f"hold of {head}", others),
            shown[0],
            shown[1],
            ("toolkit.not_held",),
            "apt-mark showhold",
        )
    yield from _compilers(was, now, set(moved))
    if "pins" in was and was["pins"] != now["pins"]:
        head, *others = _moved(was["pins"], now["pins"])
        shown = [_pins(one.get(head)) for one in (was["pins"], now["pins"])]
        explains = ("toolkit.drivers_not_blocked",)
        yield Difference("toolkit", _and_more(f"pins in {head}", others), shown[0], shown[1], explains, head)


def _pins(records: Any) -> str:
    return f"{len(records)} record{'s' if len(records) > 1 else ''}" if records else NOTHING


def _compilers(was: Section, now: Section, packages: set[str]) -> Iterator[Difference]:
    """Compilers that no moved package explains, and which of them a build takes."""
    before, after = ({str(one["path"]): one for one in each.get("nvccs") or []} for each in (was, now))
    told = bool(packages)
    for path, (old, new) in _moved(before, after).items():
        if {(old or {}).get("package"), (new or {}).get("package")} & packages:
            continue
        told = True
        shown = [
            NOTHING if one is None else f"CUDA {one['version']}" if one.get("version") else "broken"
            for one in (old, new)
        ]
        explains: tuple[str, ...] = (
            "toolkit.wrong_nvcc",
            "toolkit.broken_nvcc",
            "toolkit.absent",
            "toolkit.wrong_major",
        )
        yield Difference("toolkit", f"nvcc at {path}", shown[0], shown[1], explains, f"{path} --version")
    if told:
        return
    if "cuda_link" in was and was["cuda_link"] != now["cuda_link"]:
        shown = [_text(one["cuda_link"]) for one in (was, now)]
        yield Difference(
            "toolkit", "/usr/local/cuda", shown[0], shown[1], ("toolkit.wrong_nvcc",), "readlink -f /usr/local/cuda"
        )
    elif "default_nvcc" in was and was["default_nvcc"] != now["default_nvcc"]:
        shown = [_text(one["default_nvcc"].get("path")) for one in (was, now)]
        yield Difference(
            "toolkit", "nvcc that a build by hand takes", shown[0], shown[1], ("toolkit.wrong_nvcc",), "command -v nvcc"
        )


def _compiler(lock: Section, today: Section, facts: Section) -> Iterator[Difference]:
    was, now = lock.get("compiler") or {}, today["compiler"]
    moved = [name for name in ("gcc", "gxx", "ninja") if name in was and was[name] != now.get(name)]
    pip = _moved(lock.get("distributions") or {}, today["distributions"])
    if "ninja" in moved and ("ninja" in pip or not today["torch"].get("version")):
        moved.remove("ninja")
    if moved:
        explains: tuple[str, ...] = tuple(
            f"compiler.{name}" for name in ("changed", "no_gcc", "no_gxx", "no_ninja", "gcc_too_new", "gcc_too_old")
        )
        words = {"gcc": "gcc", "gxx": "g++", "ninja": "ninja"}
        head, others = moved[0], [words[name] for name in moved[1:]]
        yield Difference(
            "compiler",
            _and_more(words[head], others),
            _text(was[head]),
            _text(now.get(head)),
            explains,
            f"{words[head]} --version",
        )


def _extensions(lock: Section, today: Section, facts: Section) -> Iterator[Difference]:
    if not today["torch"].get("version"):
        return  # they went with their environment
    was, now = lock.get("extensions") or {}, today["extensions"]
    for name, (old, new) in _moved(was, now).items():
        old, new = dict(old or {}), dict(new or {})
        for one in (old, new):  # checksums are made when the lock is written, not each night
            one["modules"] = {
                path: (module or {}).get("gpu_targets") for path, module in (one.get("modules") or {}).items()
            }
        if name not in was:
            yield Difference("extensions", name, NOTHING, _text(new.get("version")), ("extensions.*",), name=name)
            continue
        parts = _moved(old, new)
        if not parts:
            continue
        what, shown = name, [_text(one.get("version")) for one in (old, new)]
        if "version" not in parts and "key" in parts:
            keys = _moved(old.get("key") or {}, new.get("key") or {})
            head, *others = list(keys) or ["record"]
            what = _and_more(f"{name}: {head} of its key", others)
            shown = [_text(one) for one in keys.get(head, ("recorded", "not recorded"))]
        elif "version" not in parts:
            head = list(_moved(old["modules"], new["modules"]))[0]
            what, shown = f"{name}: compiled module {head}", [_text(one["modules"].get(head)) for one in (old, new)]
        yield Difference("extensions", what, shown[0], shown[1], ("extensions.*",), name=name)


def _binding(lock: Section, today: Section, facts: Section) -> Iterator[Difference]:
    was, now = lock.get("binding") or {}, today["binding"]
    if was.get("model") != now.get("model") or was.get("family") != now.get("family"):
        yield Difference("binding", "model", _text(was.get("model")), _text(now.get("model")), ("binding.*",))
        return
    if not _section(facts, "binding").get("functions"):
        return
    moved = _moved(was.get("functions") or {}, now["functions"])
    if moved:
        head, *others = moved
        yield Difference(
            "binding", _and_more(head, others), _text(moved[head][0]), _text(moved[head][1]), ("binding.*",)
        )
