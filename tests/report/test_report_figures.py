"""Figures of the report: what is drawn is what the table says, and nothing is drawn of rows that are not there."""

import math

import numpy as np
import pandas as pd
import pytest

from oneword.experiments.rows import CHOSEN, complete, figure_rows, fits, learning_rows, one_word, several_words
from oneword.plot import Axis, Look, Mark, Plot
from oneword.plot.description import span, ticks
from oneword.report.paper import figures as drawing
from tests.fake_results import LEARNT, SENTENCES, results


def figures(table: pd.DataFrame, fitted: pd.DataFrame | None = None) -> list[Plot]:
    return drawing.figures(figure_rows(table), fitted)


@pytest.fixture(scope="module")
def table():
    return results()


@pytest.fixture(scope="module")
def drawn(table) -> dict[str, Plot]:
    return {figure.id: figure for figure in figures(table, fits(table))}


def marks(figure: Plot, panel: int = 0, form: str = "points") -> dict[str, Mark]:
    return {mark.label: mark for mark in figure.panels[panel].marks if mark.form == form}


def test_every_figure_is_drawn_and_says_which_kind_of_number_it_shows(drawn):
    assert len(drawn) == 15
    for figure in drawn.values():
        assert figure.panels, figure.id
        assert not figure.missing
        kinds = ("earched", "ertifi", "xact", "ttained", "lower bound", "after retraining on all texts")
        assert any(kind in figure.caption for kind in kinds), figure.id


def test_curves_are_medians_and_dots_are_trials(table, drawn):
    rows = table[(table["map"] == "attention") & (table["words_from"] == "corpus") & (table["d"] == 384)]
    rows = rows[(rows["changed"] == 1).fillna(False)]
    figure = drawn["fig3-attention"]
    (curve,) = [mark for label, mark in marks(figure).items() if label.startswith("d = 384")]
    assert curve.y == pytest.approx(rows.groupby("n")["value"].median().tolist(), rel=1e-5)
    dots = [mark for mark in figure.panels[0].marks if mark.form == "dots" and mark.look == curve.look]
    assert sorted(dots[0].y) == pytest.approx(sorted(rows["value"]), rel=1e-5)
    band = [mark for mark in figure.panels[0].marks if mark.form == "band"]
    assert band[0].top == pytest.approx(rows.groupby("n")["upper"].median().tolist(), rel=1e-5)


def test_slopes_in_the_legend_are_those_of_the_fits(table, drawn):
    fitted = fits(table)
    line = fitted[(fitted["map"] == "rf") & (fitted["words_from"] == "corpus") & (fitted["d"] == 384)].iloc[0]
    labels = marks(drawn["fig2-random-features"])
    assert any(f"d = 384: slope −{abs(line['slope']):.3f}" in label for label in labels)
    dashed = [mark for mark in drawn["contrast"].panels[0].marks if mark.dash == "dash"]
    (ours,) = [mark for mark in dashed if mark.x == (line["n_low"], line["n_high"]) and mark.y[0] < 0.2]
    assert math.log(ours.y[1] / ours.y[0]) / math.log(ours.x[1] / ours.x[0]) == pytest.approx(line["slope"], rel=1e-4)


def test_without_fits_there_are_no_slopes(table):
    assert not any("slope −0.5" in mark.label for figure in figures(table) for p in figure.panels for mark in p.marks)


def test_a_map_of_ones_own_is_drawn_beside_the_others(table):
    own = table[(table["map"] == "rf").fillna(False)].assign(map="mine:factory")
    drawn = {figure.id: figure for figure in figures(pd.concat([table, own, own.assign(map="other")]))}
    for name in ("contrast", "m-words"):
        looks = {mark.look.name: mark.look for mark in drawn[name].panels[0].marks if mark.label and mark.look.name}
        assert {"mine:factory", "other", "RF"} <= set(looks)
        assert len({(look.colour, look.mark) for look in looks.values()}) == len(looks)


def test_vacuous_certificates_are_not_drawn(drawn):
    """Those of deep RF lie 8 to 32 times above the values."""
    assert not [mark for mark in drawn["fig2-random-features"].panels[1].marks if mark.form == "band"]


def test_every_map_and_length_of_learning_has_its_panel(drawn):
    for name in ("fig4-fine-tuned", "fig5-retrained"):
        assert len(drawn[name].panels) == len(LEARNT)
        for panel in drawn[name].panels:
            (bound,) = [mark for mark in panel.marks if mark.label == "(2−γ)²"]
            assert bound.y == pytest.approx([max(0, 2 - x) ** 2 for x in bound.x], abs=1e-5)


def test_what_is_shaded_is_out_of_reach_of_random_features_at_that_length(table, drawn):
    """The paper's curve is a limit: RF gets below it at a finite n, and not into the shaded region."""
    rows = learning_rows(complete(table), *CHOSEN)
    for training, name in (("fine-tuned", "fig4-fine-tuned"), ("retrained", "fig5-retrained")):
        for panel, (map_, n) in zip(drawn[name].panels, LEARNT, strict=True):
            own = rows[(rows["map"] == map_) & (rows["n"] == n) & (rows["training"] == training)]
            slack = own["slack"].median()
            (shaded,) = [mark for mark in panel.marks if mark.form == "band"]
            (dashed,) = [mark for mark in panel.marks if mark.label == "bound of RF at this n"]
            assert shaded.top == dashed.y
            assert dashed.y == pytest.approx([max(0, 2 - x - slack) ** 2 for x in dashed.x], abs=1e-5)


def test_lengths_that_were_measured_at_a_few_limits_alone_are_no_curve_of_the_frontier(table):
    few = (table["map"] == "attention") & (table["n"] == 40) & (table["g"] > 0.3)
    (figure,) = [figure for figure in figures(table[~few.fillna(False)]) if figure.id == "frontier"]
    labels = {mark.label for panel in figure.panels for mark in panel.marks}
    assert "RAF (softmax), n = 40" not in labels
    assert "RAF (softmax), n = 120" in labels


def test_the_frontier_shows_the_limit_and_the_bound_at_the_longest_texts_of_rf(drawn):
    for panel in drawn["frontier"].panels:
        (limit,) = [mark for mark in panel.marks if mark.label == "(2−g)²"]
        (finite,) = [mark for mark in panel.marks if mark.label == "bound of RF at n = 40"]
        assert all(low < high for low, high in zip(finite.y, limit.y, strict=True))


def test_the_excess_over_the_bound_of_rf_is_never_negative_for_rf(drawn):
    for panel in drawn["objectives"].panels:
        for mark in panel.marks:
            if mark.form == "dots":
                assert all(y >= 0 for x, y in zip(mark.x, mark.y, strict=True) if round(x) in (0, 1))


def test_attention_maps_keep_tokens_and_weights_in_order(table, drawn):
    figure = drawn["fig1-attention-maps"]
    assert [panel.title for panel in figure.panels] == [f"“{text}”" for text in SENTENCES]
    heat = figure.panels[1].heat
    assert heat.tokens == ("[CLS]", "i", "love", "her", "smile", "[SEP]")
    assert np.sum(heat.weights, axis=1) == pytest.approx(np.ones(6), abs=1e-4)
    assert "all-MiniLM-L6-v2" in figure.caption


def test_missing_rows_leave_figures_out_with_a_line(table):
    for empty in (pd.DataFrame(), table.iloc[:0]):
        assert all(not figure.panels and figure.missing.startswith("no rows with") for figure in figures(empty))
    learning = {figure.id: bool(figure.panels) for figure in figures(table[table["kind"] == "learning"])}
    assert {name for name, there in learning.items() if there} == {
        "fig4-fine-tuned", "fig5-retrained", "frontier", "objectives",
    }  # fmt: skip


def test_one_trial_of_one_length_can_be_drawn(table):
    rows = table[((table["n"] == 50) & (table["trial"] == 0)).fillna(False)]
    by_id = {figure.id: figure for figure in figures(rows, fits(rows))}
    assert by_id["contrast"].panels


def test_several_words_come_with_m_equal_to_one_and_their_law(table):
    rows = several_words(complete(table))
    rf = rows[rows["map"] == "rf"]
    assert sorted(rf["changed"].unique()) == [1, 5, 12, 25, 50]
    assert (rf["value"] / rf["law"]).between(0.9, 1.1).all()
    assert rows.loc[rows["map"] == "attention", "law"].isna().all()


def test_rows_of_other_activations_and_of_position_zero_are_no_curve(table):
    other = table[table["map"] == "rf"].assign(activation="tanh")
    first = table[table["map"] == "attention"].assign(positions="first")
    rows = one_word(complete(pd.concat([other, first])))
    assert rows.empty


def test_the_bound_of_rf_is_that_of_the_theory():
    row = {
        "kind": "learning",
        "gamma": 0.5,
        "residual": -0.8,
        "rho": 0.25,
        "n": 40,
        "d": 384,
        "k": 15360,
        "training": "retrained",
    }
    both = complete(pd.DataFrame([row, row | {"training": "fine-tuned"}, row | {"gamma": 3.0}]))
    spread = 1.25 * 0.8 * math.sqrt(3) / 40
    assert learning_rows(both)["bound"].tolist() == pytest.approx([(1.5 - 2 * spread) ** 2, (1.5 - spread) ** 2, 0])


@pytest.mark.parametrize(("low", "high"), [(0.08, 0.21), (0.9, 1.1), (1e-3, 5), (10, 250), (49, 152), (0.5, 0.51)])
def test_ticks_of_a_logarithmic_axis_are_few_apart_and_inside(low, high):
    at, names = ticks(Axis("", log=True), low, high)
    assert len(at) == len(names) <= 9
    assert all(low <= value <= high for value in at)
    gaps = np.diff(np.log(at)) / math.log(high / low)
    assert (gaps > 0.1).all()


def test_ticks_are_where_texts_were_measured_unless_they_touch():
    at, _ = ticks(Axis("", log=True, at=(10, 25, 50, 100, 240, 250)), 9, 260)
    assert at == (10, 25, 50, 100, 250)


def test_axes_leave_room_and_ignore_what_cannot_be_drawn():
    line = Mark("line", (1, 2, 3), (0.0, math.nan, 10.0), Look("", ""))
    low, high = span(Axis("", log=True), [line], of_x=False)
    assert 0 < low < 10 < high
    assert span(Axis("", low=0), [line], of_x=False)[0] == 0
    assert span(Axis(""), [], of_x=True) == (0, 1)


def test_maps_of_ones_own_are_in_every_figure_of_several_maps(table, drawn):
    soft = table[table["map"] == "attention"]
    both = pd.concat([table, soft.assign(map="mine"), soft.assign(map="another")], ignore_index=True)
    by_id = {figure.id: figure for figure in figures(both, fits(both))}
    for name in ("contrast", "families", "kinds", "mass", "m-words", "positions", "fig4-fine-tuned", "frontier"):
        said = " ".join([panel.title + mark.label for panel in by_id[name].panels for mark in panel.marks])
        assert "mine" in said, name
        assert "another" in said, name
    looks = {mark.look for mark in by_id["contrast"].panels[0].marks if mark.label}
    assert len({(look.colour, look.mark) for look in looks if look.name}) == len([look for look in looks if look.name])
    assert set(fits(both)["map"]) >= {"mine", "another"}
    for name in ("fig2-random-features", "fig3-attention", "n-over-d", "scores"):  # about maps of the paper
        assert by_id[name] == drawn[name]
