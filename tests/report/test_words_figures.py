"""Models at texts as figures for a paper, and the bars of a page."""

import numpy as np
import pytest

from oneword.errors import RangeError
from oneword.plot import legend
from oneword.report.words.chart import chart
from oneword.report.words.figures import heads_figure, layers_figure, lengths_figure, lengths_plot
from oneword.report.words.lines import by_word
from tests.word_tables import MODEL, QUOTES, bare, exponents, lengths, word_table


def part_of(text: str):
    (part,) = word_table(text, models=(MODEL,)).parts
    return part


def test_figures_are_drawn_with_their_words():
    one = part_of(f"The film $cost {QUOTES} $5")
    texts = [label.get_text() for label in layers_figure(one).axes[0].get_xticklabels()]
    assert texts[1:4] == ["The", "film", r"\$cost"]
    assert "order of the text" in layers_figure(part_of(" ".join(["word"] * 100))).axes[0].get_xlabel()
    assert len(heads_figure(one).axes[0].get_xticklabels()) == 12
    assert len([axes for axes in lengths_figure(lengths(), exponents()).axes if axes.get_xscale() == "log"]) == 2


def test_a_figure_of_nothing_says_what_to_measure():
    (nothing,) = bare().parts
    for draw in (layers_figure, heads_figure):
        with pytest.raises(RangeError, match="first"):
            draw(nothing)
    with pytest.raises(RangeError, match="lengths"):
        lengths_figure(lengths().iloc[:0])


def test_fits_go_through_the_middle_of_the_trials_with_the_slope_given():
    table, slopes = lengths(), exponents()
    panel = lengths_plot(table, slopes).panels[0]
    (line, *_) = [mark for mark in panel.marks if mark.form == "line"]
    (slope,) = np.diff(np.log(line.y)) / np.diff(np.log(line.x))
    assert slope == pytest.approx(-0.05, abs=1e-4)
    mine = table[table["model"] == MODEL]
    middle = np.exp(np.log(mine["sup"]).mean()), np.exp(np.log(mine["n"]).mean())
    assert np.interp(np.log(middle[1]), np.log(line.x), np.log(line.y)) == pytest.approx(np.log(middle[0]), abs=1e-5)
    labels = [mark.label for panel in lengths_plot(table, slopes).panels for mark in panel.marks if mark.label]
    assert "searched (S ≥): slope −0.05 [−0.08, −0.01]" in labels
    assert "searched (S ≥): slope −0.50" in labels
    assert len(labels) == 8


def test_bars_stand_at_their_words_and_gaps_stay_empty():
    (_, part) = word_table("I love her much", maps=("attention", "rf")).parts
    words = by_word(part.words)
    real, every = chart(["I", "love", "her", "much"], [words[0].get("rf"), None, words[1].get("rf"), None]).panels
    (best, *_) = real.marks
    assert best.x == (0,)  # no real word fits in the place of "her"
    (value, upper, _) = every.marks
    assert value.x == upper.x == (0, 2)
    assert np.all(np.array(upper.y) > value.y)


def test_marks_of_one_panel_are_told_apart_without_colour():
    words = by_word(word_table("I love her much", maps=("attention",)).parts[0].words)
    plot = chart(["I", "love", "her", "much"], [word["attention"] for word in words])
    for panel in plot.panels:
        assert len({(mark.form, mark.dash) for mark in panel.marks}) == len(panel.marks)
    assert legend(plot).count("<li>") == 4
