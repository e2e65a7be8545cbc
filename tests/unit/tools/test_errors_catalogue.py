# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/errors.md is what the code says, and says everything that the code can say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import errors_catalogue


def test_page_is_not_stale() -> None:
    text = errors_catalogue.page(errors_catalogue.catalogue(), errors_catalogue.proofs())
    assert errors_catalogue.PAGE.read_text(encoding="utf-8") == text, "run: python tools/errors_catalogue.py"


def test_coverage_is_not_stale() -> None:
    rows = errors_catalogue.coverage(errors_catalogue.load_reports(), errors_catalogue.recipes_of_rows())
    text = rows + errors_catalogue.repairs()
    assert errors_catalogue.COVERAGE.read_text(encoding="utf-8") == text, "run: python tools/errors_catalogue.py"


def test_each_report_is_covered_or_says_why_not() -> None:
    reports, recipes = errors_catalogue.load_reports(), errors_catalogue.recipes_of_rows()
    assert [report["row"] for report in reports] == list(range(1, len(reports) + 1))
    assert [r["row"] for r in reports if r["row"] not in recipes and not r.get("reason")] == []
    assert [r["row"] for r in reports if r["row"] in recipes and r.get("reason")] == []
    assert set(recipes) <= {report["row"] for report in reports}


def test_page_has_every_id_once() -> None:
    lines = errors_catalogue.PAGE.read_text(encoding="utf-8").splitlines()
    titles = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    assert sorted(titles) == sorted(errors_catalogue.catalogue().CATALOGUE)


def test_recipes_name_ids_of_the_catalogue() -> None:
    assert set(errors_catalogue.proofs()) <= set(errors_catalogue.catalogue().CATALOGUE)


def test_recipe_is_named_as_the_proof(tmp_path: Path) -> None:
    (tmp_path / "apt.yml").write_text("- name: two lists\n  finding: repository.duplicate\n")
    assert errors_catalogue.proofs(tmp_path) == {"repository.duplicate": ["apt: two lists"]}


def test_check_fails_for_a_stale_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errors_catalogue, "PAGE", tmp_path / "errors.md")
    monkeypatch.setattr(errors_catalogue, "COVERAGE", tmp_path / "coverage.md")
    assert errors_catalogue.main(["--check"]) == 1
    assert "errors.md is stale" in capsys.readouterr().err
    assert errors_catalogue.main([]) == 0
    assert errors_catalogue.main(["--check"]) == 0
