"""docs/reproduction.md: every claim of a run, what chance may have turned, and the answers at other seeds."""

import json
import re

import pytest

from benchmarks import reproduction, reproduction_wide, seeds
from oneword.experiments.claims import verdict
from oneword.experiments.judging import write_verdict
from tests.fake_results import RUN, results


@pytest.fixture(scope="module")
def claims():
    return verdict(results())


@pytest.fixture
def folder(tmp_path, claims, monkeypatch):
    write_verdict(claims, tmp_path / "verdict.json")
    about = RUN | {"cells": 100, "cells_kept_from_before": 0}
    (tmp_path / "run.json").write_text(json.dumps(about), encoding="utf-8")
    monkeypatch.setattr(reproduction, "read_results", lambda path: results())
    monkeypatch.setattr(seeds, "TARGET", tmp_path / "seeds.json")
    return tmp_path


def answers(claims, holds):
    """The claims with one of them, T1, answered in another way."""
    return [claim.to_json() | ({"holds": holds} if claim.id == "T1" else {}) for claim in claims]


def test_every_claim_is_on_the_page_once_with_what_chance_may_have_turned(folder, claims):
    page = reproduction.page(folder)
    for claim in claims:
        assert page.count(f"| {claim.id}: ") == 1, claim.id
    total = sum(claim.intervals for claim in claims)
    assert f"{total} in all. Each interval misses" in page
    assert "Deep RF: d = 192, k = D" in page
    assert "600 texts to pre-train on, 20 new ones" in page
    assert "python -m benchmarks.seeds DIR 1-10" in page


def test_answers_at_other_seeds_are_counted(folder, claims):
    three = {str(seed): answers(claims, holds) for seed, holds in ((1, True), (2, None), (3, False))}
    found = {"scale": "quick", "figures": ["fig2"], "seeds": three}
    lines = {line.split(" | ")[0]: line for line in seeds.table(found)}
    t1 = next(claim for claim in claims if claim.id == "T1")
    assert lines["| T1"].startswith(f"| T1 | {t1.predicted} | 1 | 1 | 1 | ")
    assert lines["| T4a"].startswith("| T4a | ≤ 10⁻⁹ | 3 | 0 | 0 | ")
    seeds.TARGET.write_text(json.dumps(found), encoding="utf-8")
    page = reproduction.page(folder)
    assert "## 3 other seeds" in page
    assert lines["| T1"] in page


def test_the_page_at_the_papers_width_has_every_claim_beside_the_other_run(folder, claims, monkeypatch):
    monkeypatch.setattr(reproduction_wide, "read_results", lambda path: results())
    about = json.loads((folder / "run.json").read_text()) | {"command": "oneword reproduce --encoder mpnet --out x"}
    (folder / "run.json").write_text(json.dumps(about), encoding="utf-8")
    other = folder / "other.md"
    other.write_text(
        "| T1: S of RF decays (n = 1) | exponent ≤ −0.45 | −0.52 [−0.53, −0.51] | yes |\n", encoding="utf-8"
    )
    monkeypatch.setattr(reproduction, "TARGET", other)
    page = reproduction_wide.page(folder)
    for claim in claims:
        assert page.count(f"| {claim.id}: ") == 1, claim.id
    (line,) = [line for line in page.splitlines() if line.startswith("| T1: ")]
    assert line.endswith("| −0.52 [−0.53, −0.51] | yes |")
    assert "--encoder mpnet` on word embeddings" in page
    assert not re.search(r"\{[a-z_]+\}", page)
