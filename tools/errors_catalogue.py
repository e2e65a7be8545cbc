# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/errors.md and docs/diagnose_coverage.md: ``python tools/errors_catalogue.py`` (``--check`` compares).

errors.md is the chain's catalogue. Each finding gets its sentence, why it happens, what to run, and the case that
provokes it: a recipe of tests/integration/cases, which makes the mess in a container, else a case of the unit tests.
diagnose_coverage.md says which troubles that users reported in public are covered by a recipe, and why others are not.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
PAGE = CHECKOUT / "docs" / "errors.md"
COVERAGE = CHECKOUT / "docs" / "diagnose_coverage.md"
CASES = CHECKOUT / "tests" / "integration" / "cases"
REPORTS = CHECKOUT / "tests" / "integration" / "field_reports.yml"
CHAIN = "ansible_collections.proxmox_gpu.training.plugins.module_utils._chain"
HEAD = """\
<!--
Copyright (c) 2026, the proxmox_gpu.training authors
SPDX-License-Identifier: GPL-3.0-or-later
Written by tools/errors_catalogue.py from the findings in plugins/module_utils/_chain/rules. Do not edit.
-->

# Error catalogue

Every sentence that `chain_info` and the playbooks built on it can say of a host. The ids are stable: search this
page for the one in square brackets after the cause. Words in braces are filled in for the host; `HOST` is its name
and `VMID` the container's id.

A finding whose state is `ok` or `not_applicable` holds. The first one that does not is the cause, and what is marked as
its consequence goes away with it. *Proven by* names the recipe in `tests/integration/cases` that makes this mess for
real in a container, or the unit test's case where a container without a GPU cannot be brought there.
"""

COVERAGE_HEAD = """\
<!--
Copyright (c) 2026, the proxmox_gpu.training authors
SPDX-License-Identifier: GPL-3.0-or-later
Written by tools/errors_catalogue.py from tests/integration/cases and tests/integration/field_reports.yml. Do not edit.
-->

# What diagnose is tested with

Troubles that users of such machines reported in public, each with one place to read more. {covered} of {all} are made
for real in a container by a recipe of `tests/integration/cases`; of the others it is said why not.

| row | reported | what users see | covered by |
|---|---|---|---|
"""


REPAIRS_HEAD = """
## Who repairs it

Of {all} messes that the recipes make, `provision` repairs {ours}: afterwards diagnose finds nothing, a second run
changes nothing, and the host has the packages and files of one that was never damaged. The others:

| recipe | finding | why `provision` does not |
|---|---|---|
"""


def catalogue() -> ModuleType:
    """The catalogue with all rules read into it."""
    if CHAIN.partition(".")[0] not in sys.modules:
        sys.path.insert(0, str(CHECKOUT / "build" / "tree"))
    importlib.import_module(f"{CHAIN}.judge")
    return importlib.import_module(f"{CHAIN}.catalogue")


def proofs(folder: Path = CASES) -> dict[str, list[str]]:
    """{id: names of the recipes whose first finding it is}."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.yml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")) or []:
            if case["finding"] != "nothing":
                found.setdefault(case["finding"], []).append(f"{path.stem}: {case['name']}")
    return found


def recipes_of_rows(folder: Path = CASES) -> dict[int, list[str]]:
    """{row of the field reports: names of the recipes that cover it}."""
    found: dict[int, list[str]] = {}
    for path in sorted(folder.glob("*.yml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")) or []:
            for row in case.get("rows", []):
                found.setdefault(row, []).append(f"{path.stem}: {case['name']}")
    return found


def coverage(reports: list[dict[str, Any]], recipes: dict[int, list[str]]) -> str:
    """The text of docs/diagnose_coverage.md."""
    lines = []
    for report in reports:
        covered = "; ".join(recipes.get(report["row"], [])) or f"no case: {report.get('reason')}"
        lines.append(f"| {report['row']} | {report['report']} | {report['symptom']} | {covered} |")
    count = sum(report["row"] in recipes for report in reports)
    return COVERAGE_HEAD.format(covered=count, all=len(reports)) + "\n".join(lines) + "\n"


def repairs(folder: Path = CASES) -> str:
    """The part of docs/diagnose_coverage.md that says of each recipe who repairs it."""
    messes = [
        (f"{path.stem}: {case['name']}", case)
        for path in sorted(folder.glob("*.yml"))
        for case in yaml.safe_load(path.read_text(encoding="utf-8")) or []
        if case["finding"] != "nothing"
    ]
    ours = [name for name, case in messes if case.get("repair", "provision") == "provision"]
    rows = [f"| {name} | {case['finding']} | {case['reason']} |" for name, case in messes if name not in ours]
    return REPAIRS_HEAD.format(ours=len(ours), all=len(messes)) + "\n".join(rows) + "\n"


def load_reports() -> list[dict[str, Any]]:
    return list(yaml.safe_load(REPORTS.read_text(encoding="utf-8")))


def page(entries: ModuleType, proven: dict[str, list[str]]) -> str:
    """The text of docs/errors.md."""
    links = importlib.import_module(f"{CHAIN}.links").LINKS
    parts = [HEAD]
    for number, link in enumerate(links, start=1):
        parts.append(f"## {number}. {link}\n")
        mine = [entry for entry in entries.CATALOGUE.values() if entry.link == link]
        for entry in sorted(mine, key=lambda entry: entry.state in ("ok", "not_applicable")):
            parts.append(section(entry, proven.get(entry.id, [])))
    return "\n".join(parts)


def section(entry: object, cases: list[str]) -> str:
    lines = [f"### {entry.id}\n", f"`{entry.state}`: {entry.sentence}\n"]  # type: ignore[attr-defined]
    if entry.cause:  # type: ignore[attr-defined]
        lines.append(f"- Why: {entry.cause}")  # type: ignore[attr-defined]
    if entry.remedy:  # type: ignore[attr-defined]
        lines.append(f"- Run: `{entry.remedy}`" if _command(entry.remedy) else f"- Do: {entry.remedy}")  # type: ignore[attr-defined]
    lines.append(f"- Proven by: {'; '.join(cases) or 'the unit tests'}")
    return "\n".join(lines) + "\n"


def _command(remedy: str) -> bool:
    return remedy.startswith("ansible-playbook ")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the pages that are generated from the chain and its tests.")
    parser.add_argument("--check", action="store_true", help="only say whether the pages are what they would be")
    check = parser.parse_args(arguments).check
    pages = {
        PAGE: page(catalogue(), proofs()),
        COVERAGE: coverage(load_reports(), recipes_of_rows()) + repairs(),
    }
    stale = [path for path, text in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            print(f"docs/{path.name} is stale; run: python tools/errors_catalogue.py", file=sys.stderr)
        else:
            path.write_text(pages[path], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
