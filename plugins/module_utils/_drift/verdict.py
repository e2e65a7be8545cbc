# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The verdict on one host: ok, drift, unknown or not_provisioned, and one line for each thing that a person must know.

Pure. A line comes from the lock (something moved) or from the chain (something does not fit the wishes any more, or
could not be told); what follows from another line is none of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from .. import _training_lock as lock_of
from .._chain.catalogue import CATALOGUE, provision
from .._chain.links import HOLDING, LINKS, RESTS_ON, UNKNOWN
from . import compare
from .compare import Difference

OK, DRIFT, UNKNOWN_RESULT, NOT_PROVISIONED = "ok", "drift", "unknown", "not_provisioned"
#: From harmless to worst, with the exit status of the nightly command.
EXIT = {OK: 0, DRIFT: 2, UNKNOWN_RESULT: 3, NOT_PROVISIONED: 4}

PROVISION = "ansible-playbook proxmox_gpu.training.provision -l HOST"
ACCEPT = "ansible-playbook proxmox_gpu.training.drift_check -l HOST -e drift_accept=true"
#: Findings about a proof that nobody made: no news where the lock has none either.
NO_PROOF = ("proof.no_gpu", "proof.never")
EXPIRES_SOON = 30 * 86400
AS_WISHED = "as wished"

Line = dict[str, Any]


def worst(results: Any) -> str:
    return max(results, key=lambda result: EXIT[result], default=OK)


def judge(host: str, chain: Mapping[str, Any], now: float, extra: list[Line] | None = None) -> dict[str, Any]:
    """{result, lines, links, ...} of one host.

    :param chain: the result of chain_info for all links.
    :param now: seconds since 1970.
    :param extra: lines of what was looked at besides: a proof, the driver on the node's disk.
    """
    facts = chain.get("facts") or {}
    lines = _lines(chain, facts, now) + list(extra or [])
    for one in lines:
        one["remedy"] = one["remedy"].replace("HOST", host) if one.get("remedy") else None
        one["key"] = _key(host, one)
    proof = (facts.get("proof") or {}).get("record") or {}
    binding = facts.get("binding") or {}
    return {
        "host": host,
        "result": worst(one["kind"] for one in lines),
        "lines": lines,
        "links": _links(chain, lines),
        "ratio": proof.get("ratio") if proof.get("ok") else None,
        "proven": proof.get("when"),
        "fast_layers": binding.get("fast_layers"),
        "layers": binding.get("total"),
        "cost": chain.get("cost"),
        "set": _set(facts),
    }


def could_not_look(host: str, reason: str) -> dict[str, Any]:
    """The verdict where the check itself could not be made: a variable that cannot be rendered, a time limit."""
    one = line(UNKNOWN_RESULT, "reach", "observation", "an answer", reason or "the check gave no answer")
    chain: dict[str, Any] = {"facts": {}, "findings": [], "links": {}}
    lines = [{**one, "key": _key(host, one)}]
    return {**judge(host, chain, 0.0), "lines": lines, "links": _links(chain, lines)}


def line(kind: str, link: str, what: str, was: str, now: str, remedy: str | None = None, evidence: str | None = None,
         identity: str | None = None) -> Line:  # fmt: skip
    """One line of a report."""
    made = {"kind": kind, "link": link, "what": what, "was": was, "is": now, "remedy": remedy, "evidence": evidence}
    return {**made, "id": identity}


def _key(host: str, one: Line) -> str:
    """The same line has the same key on each night that it is seen, however a reason that is not known is worded."""
    parts = (one["what"], one["was"], one["is"]) if one["kind"] == DRIFT else (one["kind"],)
    text = "\0".join(str(part) for part in (host, one["link"], *parts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lines(chain: Mapping[str, Any], facts: Mapping[str, Any], now: float) -> list[Line]:
    findings = [item for item in chain.get("findings") or [] if item["state"] not in HOLDING]
    first = findings[0] if findings else None
    if first and first["link"] == "reach":
        return [_unknown(first)]
    if first and first["id"] == "base.python3_missing":
        return [_bare("container", "bare: " + str(first["sentence"]))]
    proof = facts.get("proof") or {}
    if proof.get("error") or not proof:
        nothing = line(UNKNOWN_RESULT, "reach", "observation", "an answer", "the container gave no facts")
        return [_unknown(item) for item in findings[:1]] or [nothing]
    lock = proof.get("lock")
    if lock is None and not proof.get("lock_exists"):
        why = f"; {first['sentence']}" if first and first["id"] not in NO_PROOF else ""
        told = f"no lock at {proof.get('lock_file')}: no good provision was finished here, or it was removed{why}"
        return [_bare("lock", told)]
    unreadable = _unreadable(lock, str(proof.get("lock_file")))
    differences: list[Difference] = []
    if not unreadable:
        try:
            differences = compare.differences(lock or {}, facts)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            # Anybody may have edited the file: a strange one is no lock.
            unreadable = _damaged(str(proof.get("lock_file")))
    fresh = [unreadable] if unreadable else [_moved(one, findings, differences) for one in differences]
    fresh += _expiring(facts, now)
    locked_proof = not unreadable and bool((lock or {}).get("proof"))
    kept = [item for item in findings if _tells(item, findings, differences, locked_proof)]
    return sorted(fresh + [_found(item) for item in kept], key=lambda one: LINKS.index(one["link"]))


def _bare(what: str, sentence: str) -> Line:
    return line(NOT_PROVISIONED, "base", what, "a training host", sentence, PROVISION)


def _unknown(item: Mapping[str, Any]) -> Line:
    remedy = item.get("remedy")
    return line(
        UNKNOWN_RESULT, item["link"], item["link"], "known", item["sentence"], remedy, item.get("evidence"), item["id"]
    )


def _unreadable(lock: Any, path: str) -> Line | None:
    """The line about a lock that cannot be compared with; None for a good one."""
    schema = lock.get("schema") if isinstance(lock, Mapping) else None
    if schema == lock_of.SCHEMA:
        return None
    if isinstance(schema, int) and schema > lock_of.SCHEMA:
        now = f"written by a newer release of the collection (schema {schema}, this one reads {lock_of.SCHEMA})"
        return line(
            UNKNOWN_RESULT, "base", f"lock {path}", "readable", now, "Upgrade the collection on the control node.", path
        )
    return _damaged(path)


def _damaged(path: str) -> Line:
    now = "damaged: it is no lock that this collection wrote"
    remedy = f"Look at {path} on the host, move it away, then: {PROVISION}"
    return line(UNKNOWN_RESULT, "base", f"lock {path}", "readable", now, remedy, path)


def _moved(one: Difference, findings: list[Any], others: list[Difference]) -> Line:
    """The line of a difference. What does not hold any more has the chain's own remedy, else a person decides."""
    same = next((item for item in findings if one.covers(item["id"], item["sentence"]) and item.get("remedy")), None)
    fails = [item for item in findings if item["state"] != UNKNOWN and one.link in _rests_on(item)]
    rests_on_it = [item for item in fails if not any(other.covers(item["id"], item["sentence"]) for other in others)]
    if same:
        remedy = same["remedy"]
    elif rests_on_it:
        remedy = f"Undo it, or make what rests on it fit: {PROVISION}"
    else:
        remedy = f"Undo it, or accept it: {ACCEPT}"
    return line(
        DRIFT, one.link, one.what, one.was, one.now, remedy, one.evidence, same["id"] if same else f"{one.link}.moved"
    )


def _expiring(facts: Mapping[str, Any], now: float) -> list[Line]:
    """A key that ends within a month will stop apt, whatever the lock says."""
    keyring = (facts.get("repository") or {}).get("keyring") or {}
    ends = [when for when in (keyring.get("expires") or {}).values() if when is not None]
    if not ends or max(ends) > now + EXPIRES_SOON:
        return []
    word = "expired" if max(ends) <= now else "expires"
    remedy = provision("cuda_repository")
    what = "key of the repository"
    return [
        line(DRIFT, "repository", what, "valid", f"{word} on {compare.day(max(ends))}", remedy, keyring.get("path"))
    ]


def _tells(item: Mapping[str, Any], findings: list[Any], moved: list[Difference], locked_proof: bool) -> bool:
    """Whether a finding is a line of its own: neither what a difference says already, nor what follows from one."""
    if item["id"] in NO_PROOF and (not locked_proof or any(one.link == "gpu" for one in moved)):
        return False
    if any(one.covers(item["id"], item["sentence"]) for one in moved):
        return False
    if any(one.link in _rests_on(item) for one in moved):
        return False
    cause = item.get("consequence_of")
    # What could not be told explains only what could not be told either.
    certain = any(other["link"] == cause and other["state"] != UNKNOWN for other in findings)
    return not (cause and (certain or item["state"] == UNKNOWN))


def _rests_on(item: Mapping[str, Any]) -> tuple[str, ...]:
    """The links whose trouble explains a finding."""
    entry = CATALOGUE.get(item["id"])
    return RESTS_ON[item["link"]] if entry is None or entry.rests_on is None else entry.rests_on


def _found(item: Mapping[str, Any]) -> Line:
    if item["state"] == UNKNOWN:
        return _unknown(item)
    what = item["id"].partition(".")[2].replace("_", " ")
    words = (item["remedy"], item["evidence"], item["id"])
    return line(DRIFT, item["link"], what, AS_WISHED, item["sentence"], *words)


def _links(chain: Mapping[str, Any], lines: list[Line]) -> dict[str, dict[str, Any]]:
    """{link: {state, sentence}}: the worst of a link's lines, else what the chain says of it."""
    shown: dict[str, dict[str, Any]] = {}
    judged = chain.get("links") or {}
    for link in LINKS:
        mine = [one for one in lines if one["link"] == link]
        found = judged.get(link)
        if mine:
            one = max(mine, key=lambda each: EXIT[each["kind"]])
            shown[link] = {"state": one["kind"], "sentence": sentence(one)}
        elif found is None:
            shown[link] = {"state": "not_looked_at", "sentence": "Not looked at."}
        else:
            state = (
                found["state"]
                if found["state"] in HOLDING
                else "follows"
                if found["state"] != UNKNOWN
                else "not_looked_at"
            )
            shown[link] = {"state": state, "sentence": found["sentence"]}
    return shown


def sentence(one: Mapping[str, Any]) -> str:
    """A line without its host and link: what, was, is."""
    if one["kind"] == DRIFT and one.get("was") not in (AS_WISHED, None):
        return f"{one['what']}: was {one['was']}, is {one['is']}"
    return str(one["is"])


def _set(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The few versions by which a person knows a host."""
    torch, toolkit = facts.get("torch") or {}, facts.get("toolkit") or {}
    return {
        "system": ((facts.get("base") or {}).get("os") or {}).get("pretty_name"),
        "driver": (facts.get("gpu") or {}).get("module_version"),
        "gpus": [gpu.get("name") for gpu in (facts.get("gpu") or {}).get("gpus") or []],
        "torch": torch.get("version"),
        "transformers": (torch.get("distributions") or {}).get("transformers"),
        "nvcc": (toolkit.get("default_nvcc") or {}).get("version"),
    }
