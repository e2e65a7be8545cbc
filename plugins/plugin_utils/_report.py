# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""The chain of a host, and of a fleet, as text: a table for a terminal, Markdown, JSON. Pure.

A "chain" here is the result of chain_info, or whatever is left of it: {findings, links, cause, verdict, cost, ...}.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.proxmox_gpu.training.plugins.module_utils._chain.links import HOLDING, LINKS, STATES

Chain = Mapping[str, Any]
Paint = Callable[[str, str], str]

#: What of a chain goes into a JSON report: everything but the raw facts and the wishes.
KEPT = ("verdict", "cause", "cost", "links", "findings", "seconds")
#: State -> the colour names of Ansible.
COLOURS = {
    "ok": "green",
    "not_applicable": "dark gray",
    "unknown": "yellow",
    "drifted": "bright yellow",
    "absent": "bright red",
    "broken": "bright red",
}
_LINK, _STATE = 12, 15
#: Below the reports of a run in which something does not hold, for who reads one for the first time.
LEGEND = (
    "Fast training hangs on the links above, each on those before it. The first one that does not hold is the cause: "
    "repair it, and what follows from it goes away. A link holds when it is ok or not_applicable; absent: something is "
    "not there; broken: it is there and cannot work; drifted: it works today and is not what was wanted; unknown: it "
    "could not be found out, which is never taken for good. Each [id] is explained in docs/errors.md."
)


def plain(text: str, _state: str) -> str:
    return text


def table(host: str, chain: Chain, width: int = 100, paint: Paint = plain, details: bool = False) -> str:
    """One line a link and below it the cause, what it costs and what to run; nothing wider than width.

    details: also what each finding that does not hold expected and saw.
    """
    lines = [f"{host}: {headline(chain)}"]
    for link, entry in _ordered(chain):
        lines += _row(link, entry, _notes(chain, link), width, paint)
    return "\n".join([*lines, *_conclusion(chain, width), *(_details(chain, width) if details else [])])


def legend(width: int = 100) -> str:
    return "\n".join(_wrapped(LEGEND, width))


def headline(chain: Chain) -> str:
    """ "9 links hold, 1 does not" in words."""
    entries = [entry for _link, entry in _ordered(chain)]
    holding = sum(bool(entry["holds"]) for entry in entries)
    failing = len(entries) - holding
    if not failing:
        return f"all {holding} links hold" if holding else "nothing was judged"
    return f"{holding} of {len(entries)} links hold, verdict {chain.get('verdict')}"


def _ordered(chain: Chain) -> list[tuple[str, Mapping[str, Any]]]:
    links = chain.get("links") or {}
    return [(link, links[link]) for link in LINKS if link in links]


def _notes(chain: Chain, link: str) -> list[str]:
    """The further sentences of a link that does not hold for several reasons."""
    shown = (chain.get("links") or {}).get(link, {}).get("sentence")
    findings = [item for item in chain.get("findings") or [] if item["link"] == link]
    return [item["sentence"] for item in findings if item["sentence"] != shown]


def _row(link: str, entry: Mapping[str, Any], notes: list[str], width: int, paint: Paint) -> list[str]:
    sentence = str(entry["sentence"])
    if entry.get("consequence_of") and not str(entry["id"]).endswith(".not_observed"):
        sentence += f" (Follows from {entry['consequence_of']}.)"
    indent = " " * (2 + _LINK + _STATE)
    texts = [wrapped for text in (sentence, *notes) for wrapped in _wrapped(text, width - len(indent))]
    state = str(entry["state"])
    first = f"  {link:<{_LINK}}{paint(f'{state:<{_STATE}}', state)}{texts[0]}"
    return [first.rstrip(), *[indent + text for text in texts[1:]]]


def _conclusion(chain: Chain, width: int) -> list[str]:
    cause = chain.get("cause")
    if not cause:
        return []
    rows = [("cause", f"{cause['sentence']} [{cause['id']}]")]
    if cause.get("evidence"):
        rows.append(("see", str(cause["evidence"])))
    if chain.get("cost"):
        rows.append(("costs", f"{chain['cost']}."))
    if cause.get("remedy"):
        rows.append(("run", str(cause["remedy"])))
    if sum(not entry["holds"] for entry in (chain.get("links") or {}).values()) > 1 and _ours(cause):
        rows.append(("or", str(cause["remedy"]).partition(" --tags")[0]))
        rows.append(("", "(which repairs every link that a role can repair)"))
    for other in others(chain):
        rows += [("also", str(other["sentence"]))] + ([("run", str(other["remedy"]))] if other.get("remedy") else [])
    lines = [""]
    for name, text in rows:
        # A command stays on one line however long it is, so that it can be copied.
        texts = [text] if name in ("run", "or") and text.startswith("ansible-playbook") else _wrapped(text, width - 10)
        lines += [f"  {name:<8}{texts[0]}", *[" " * 10 + more for more in texts[1:]]]
    return lines


def _details(chain: Chain, width: int) -> list[str]:
    """For each finding that does not hold its id, and what was expected, seen, and where."""
    lines = [""]
    for item in chain.get("findings") or []:
        if item["state"] in HOLDING:
            continue
        lines.append(f"  [{item['id']}]")
        for name in ("expected", "observed", "evidence", "remedy"):
            if item.get(name):
                texts = _wrapped(str(item[name]), width - 14)
                lines += [f"    {name:<10}{texts[0]}", *[" " * 14 + more for more in texts[1:]]]
    return lines if len(lines) > 1 else []


def _ours(cause: Mapping[str, Any]) -> bool:
    return str(cause.get("remedy") or "").startswith("ansible-playbook proxmox_gpu.training.provision -l ")


def others(chain: Chain) -> list[Mapping[str, Any]]:
    """Troubles that do not follow from the cause, one a link; what is merely unknown the table says."""
    cause = chain.get("cause") or {}
    found: dict[str, Mapping[str, Any]] = {}
    for item in chain.get("findings") or []:
        alone = item["state"] not in ("ok", "not_applicable", "unknown") and not item.get("consequence_of")
        if alone and item["link"] != cause.get("link"):
            found.setdefault(item["link"], item)
    return list(found.values())


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]


def markdown(host: str, chain: Chain) -> str:
    """A section of a Markdown document."""
    lines = [f"## {host}: {headline(chain)}", "", "| link | state | what was found |", "|---|---|---|"]
    for link, entry in _ordered(chain):
        texts = [str(entry["sentence"]), *_notes(chain, link)]
        if entry.get("consequence_of"):
            texts.append(f"Follows from {entry['consequence_of']}.")
        lines.append(f"| {link} | {entry['state']} | {_cell(' '.join(texts))} |")
    cause = chain.get("cause")
    if cause:
        lines += ["", f"**Cause** (`{cause['id']}`): {cause['sentence']}"]
        lines += ["", f"**Costs**: {chain['cost']}."] if chain.get("cost") else []
        lines += ["", f"**Run**: `{cause['remedy']}`"] if cause.get("remedy") else []
    for other in others(chain):
        lines += ["", f"**Also** (`{other['id']}`): {other['sentence']}"]
        lines += ["", f"**Run**: `{other['remedy']}`"] if other.get("remedy") else []
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def as_data(fleet: Mapping[str, Chain]) -> dict[str, Any]:
    """{hosts: {name: chain without facts}, summary: {...}}, ready for JSON."""
    hosts = {host: {key: chain[key] for key in KEPT if key in chain} for host, chain in fleet.items()}
    return {"hosts": hosts, "summary": counted(fleet)}


def as_json(fleet: Mapping[str, Chain]) -> str:
    return json.dumps(as_data(fleet), indent=2, sort_keys=True, default=str)


def counted(fleet: Mapping[str, Chain]) -> dict[str, Any]:
    """{hosts: n, verdicts: {state: n}, causes: {id: [hosts]}}."""
    causes: dict[str, list[str]] = {}
    for host, chain in fleet.items():
        if chain.get("cause"):
            causes.setdefault(str(chain["cause"]["id"]), []).append(host)
    verdicts = Counter(str(chain.get("verdict")) for chain in fleet.values())
    return {"hosts": len(fleet), "verdicts": dict(verdicts), "causes": causes}


def summary(fleet: Mapping[str, Chain]) -> str:
    """One line for all hosts: "3 hosts: 1 ok, 2 absent (repository.absent: ct200, ct201)"."""
    count = counted(fleet)
    verdicts = ", ".join(f"{count['verdicts'][state]} {state}" for state in STATES if state in count["verdicts"])
    ordered = sorted(count["causes"].items(), key=lambda item: (-len(item[1]), item[0]))
    causes = "; ".join(f"{identity}: {_few(hosts)}" for identity, hosts in ordered)
    noun = "host" if count["hosts"] == 1 else "hosts"
    return f"{count['hosts']} {noun}: {verdicts or 'nothing was judged'}" + (f" ({causes})" if causes else "")


def _few(names: Iterable[str], most: int = 5) -> str:
    known = sorted(names)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")
