"""The paper's experiments: the specs that ship, other encoders, and what a reproduction leaves behind."""

import json
from pathlib import Path

import pandas as pd
import pytest

from oneword.errors import UnknownNameError
from oneword.experiments import paper
from oneword.experiments.cell import TextCell
from tests.text.tiny_bert import WIDTH, needs_minilm, write_tiny


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_figure_of_a_scale_has_cells_that_fit_this_project(scale: str) -> None:
    assert paper.figures(scale) == ["fig1", "fig2", "fig3", "fig4-5", "review", "scores", "words"]
    cells = paper.cells(scale)
    assert len({cell.key for cell in cells}) == len(cells) > 100
    assert {cell.kind for cell in cells} == {"sensitivity", "learning", "review", "attention_map"}
    families = {(c.map, c.words_from) for c in cells if isinstance(c, TextCell) and c.kind == "sensitivity"}
    assert families >= {(m, w) for m in ("rf", "drf", "attention") for w in ("corpus", "gaussian", "clustered")}
    assert max(cell.estimate_bytes() for cell in cells) < 9e9  # two at a time on a machine of 24 GB


def test_figures_are_chosen_by_name_and_seeds_and_trials_given_from_outside() -> None:
    assert {cell.kind for cell in paper.cells("quick", ["fig1"])} == {"attention_map"}
    more = paper.cells("quick", ["fig3"], seed=5, trials=7)
    assert {cell.trial for cell in more} == set(range(7))
    assert {cell.seed for cell in more} == {5}
    with pytest.raises(UnknownNameError, match="fig4-5"):
        paper.cells("quick", ["fig4"])
    with pytest.raises(UnknownNameError, match="quick"):
        paper.cells("quik")


def test_another_encoder_is_measured_at_the_same_shares_of_its_width(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path / "model")
    cells = paper.cells("quick", ["fig2"], encoder=str(folder))
    widths = {cell.d for cell in cells if cell.words_from == "corpus" and cell.map == "rf"}
    assert widths == {WIDTH // 4, WIDTH // 2, WIDTH}
    assert all(cell.k == cell.n * cell.d for cell in cells)
    assert {cell.d for cell in cells if cell.words_from == "gaussian" and cell.map == "rf"} == {96}


@needs_minilm
def test_a_figure_alone_leaves_page_verdicts_table_and_figures(tmp_path: Path) -> None:
    done = paper.reproduce(tmp_path, "quick", ["fig1"], workers=0, command="oneword reproduce fig1")
    assert {claim.holds for claim in done.claims} == {None}  # nothing was measured that could decide one
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"report.html", "verdict.json", "results.parquet", "run.json", "cells.sqlite", "figures"}
    assert list((tmp_path / "figures").glob("*.pdf"))
    table = pd.read_parquet(tmp_path / "results.parquet")
    assert set(table["text"]) == {"I love her much", "I love her smile"}
    assert [claim["id"] for claim in json.loads((tmp_path / "verdict.json").read_text())["claims"]] == [
        c.id for c in done.claims
    ]
    page = (tmp_path / "report.html").read_text()
    assert "oneword reproduce fig1" in page
    before = (tmp_path / "results.parquet").read_bytes()
    paper.reproduce(tmp_path, "quick", ["fig1"], workers=0)
    assert (tmp_path / "results.parquet").read_bytes() == before
