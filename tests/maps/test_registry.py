"""One registry of names: what a person types, sweeps, figures and the app agree on the maps there are."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from oneword.app.subjects import Subjects
from oneword.errors import RangeError, UnknownNameError
from oneword.experiments.cell import TextCell
from oneword.experiments.cells import SensitivityCell
from oneword.experiments.draws import draw_maps
from oneword.maps import registry
from oneword.maps.scores import SCORES
from oneword.plot import look
from oneword.report import looks

TYPED = [f"{known.name}-2" if known.has_depth else known.name for known in registry.MAPS.values()]


def test_names_need_no_torch() -> None:
    code = "import sys, oneword.maps.registry as r, oneword.report.looks; r.names(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_score_is_a_map_with_its_own_name() -> None:
    assert {score.name: score for score in SCORES.values()} == SCORES
    for name in SCORES:
        phi = registry.draw(f"attention-{name}", 3, 4)
        assert phi.describe()["score"] == name


@pytest.mark.parametrize("name", TYPED)
def test_a_name_draws_the_same_map_in_a_measurement_and_in_a_sweep(name: str) -> None:
    known, depth = registry.find(name)
    X = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cell: TextCell = SensitivityCell(map=known.name, n=3, d=4, depths=() if depth is None else (depth,))
    ((of_depth, swept),) = draw_maps(cell)
    assert of_depth == depth
    measured = registry.draw(name, 3, 4, seed=swept.describe()["seed"])
    assert torch.equal(measured(X), swept(X))


def test_every_map_has_a_look_and_a_title() -> None:
    assert list(looks.MAPS) == list(registry.MAPS)
    assert len({registry.title(name) for name in TYPED}) == len(TYPED)
    assert registry.title("drf-3") == "Three fully connected layers"
    assert registry.title("drf-40") == "40 fully connected layers"
    offered = {key for _, key in Subjects(models=()).choices}
    assert offered == set(registry.in_app())


@pytest.mark.parametrize(
    ("name", "hint"), [("atention", "'attention'"), ("attention-rleu", "'attention-relu'"), ("drf", "drf-L")]
)
def test_an_unknown_name_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint) as caught:
        registry.draw(name, 3, 4)
    assert "--" not in str(caught.value)


def test_a_depth_is_at_least_1() -> None:
    with pytest.raises(RangeError, match="at least 1"):
        registry.find("drf-0")


def test_a_repeated_name_is_refused() -> None:
    with pytest.raises(RangeError, match="'rf' 2 times"):
        registry.each_once(["rf", "attention", "rf"])


def test_looks_are_of_the_palette() -> None:
    for known in registry.MAPS.values():
        assert known.color in (*look.SERIES, "sky"), known.name
        assert known.mark in look.MARKS, known.name
