"""A map from outside the package brings its own Probe, set, search and certificate; only public names are needed."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import oneword as ow
from tests.changes import outside_map_check

SCRIPT = Path(outside_map_check.__file__)


def test_an_outside_map_is_measured_between_its_own_bounds() -> None:
    outside_map_check.main()


def test_it_imports_nothing_of_the_package_but_its_public_names() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [name for name in imported if name.startswith("oneword")] == ["oneword"]


def _measured(search: ow.Search | None = None) -> ow.Sensitivity:
    phi = outside_map_check.MeanFeatures(torch.eye(3, dtype=torch.float64))
    return ow.sensitivity(phi, ow.gaussian(4, 3), search=search, baseline=0)


def test_a_certificate_that_a_search_beats_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_map_check.Box, "reach", lambda self, x: 1e-6 + 0 * x[..., 0])
    with pytest.raises(ow.OnewordError, match=r"expected upper bounds of at least .* 'operator norm of A'"):
        _measured()


def test_a_search_that_leaves_the_set_or_gives_another_change_is_refused() -> None:
    class Outside(outside_map_check.Signs):
        def run(self, probe, rows, within, **options):
            found = super().run(probe, rows, within, **options)
            return replace(found, y=found.y + 1, search=self)

    class Rooted(outside_map_check.Signs):
        def run(self, probe, rows, within, **options):
            found = super().run(probe, rows, within, **options)
            return replace(found, change2=found.change2.sqrt(), search=self)

    with pytest.raises(ow.OnewordError, match="expected Outside to give rows within the set"):
        _measured(Outside())
    with pytest.raises(ow.OnewordError, match="expected Rooted to give the squared change"):
        _measured(Rooted())


def test_a_map_of_ones_own_is_measured_beside_others_and_nothing_is_invented_about_it() -> None:
    phi = outside_map_check.MeanFeatures(torch.eye(3, dtype=torch.float64))
    table = ow.measure(ow.gaussian(4, 3), phi)
    assert table.about["seeds"] == []
    assert table.about["within"] == {"MeanFeatures": "|Δ| ≤ 1 in each coordinate"}
    assert (table.words["value"] <= table.words["upper"]).all()
    B = torch.eye(384, dtype=torch.float64)[:3]
    plain = ow.measure(
        "I love her", lambda X: X.mean(-2) @ B.T, effort="quick"
    ).words  # words of a text are float64, too
    assert set(plain["kind"]) == {"sample"}
