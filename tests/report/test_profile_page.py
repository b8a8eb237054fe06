"""Profiles of trained models as a page, in the terminal and as figures: every text escaped, every gap a dash."""

import dataclasses
import math
import re

import numpy as np
import pandas as pd
import pytest
from oneword.report.profile.figures import heads_figure, layers_figure, lengths_figure
from oneword.report.profile.lengths import lengths_plot
from oneword.report.profile.page import ACROSS, MOST_TEXTS, render
from oneword.report.profile.profiled import Profiled, headline, hows, percent, top_word
from oneword.report.profile.terminal import BLOCKS, ProfileView
from rich.console import Console

from oneword.errors import RangeError
from oneword.report.words.passages import LONG, TOP
from tests.fake_profile import REVIEW, exponents, lengths, profile
from tests.pages import SCHEMES, SIZES, assert_names_nothing_outside, opened

EVIL = "</script><script>document.title='broken'</script>"
QUOTES = "\"><img/src=x/onerror=alert('1')>"
TEXT = f"I love {EVIL} and {QUOTES} very much"
TWIN = "all-MiniLM-L6-v2 re-initialised (seed 0)"


def bare(text: str = "a b", **fields: object) -> Profiled:
    """Nothing but S."""
    words = pd.DataFrame({"position": [0, 1], "word": text.split(), "sup": [0.5, 0.25]})
    return Profiled(**{"model": "m", "text": text, "objective": "cls", "noise": math.nan, "words": words} | fields)


def evil() -> Profiled:
    """Texts that would break a page, in every place where texts can be."""
    one = profile(TEXT, EVIL)
    one.words.loc[one.words["replacement"].notna(), "replacement"] = QUOTES
    layers = one.layers.assign(how=EVIL)
    return dataclasses.replace(one, objective=QUOTES, layers=layers, about={EVIL: {QUOTES: EVIL}}, notes=[EVIL])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    profiles = [evil(), profile(TEXT, TWIN, scale=0.4, seed=1)]
    curves = lengths((EVIL, TWIN)).assign(output=QUOTES)
    place = tmp_path_factory.mktemp("out") / "profile.html"
    return render(profiles, place, lengths=curves, exponents=exponents(), command=f"oneword '{QUOTES}'")


def test_texts_are_escaped_everywhere(path):
    page = path.read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;document.title") > 10
    assert "onerror=alert(&#39;1&#39;)" in page


def test_nothing_outside_the_file_is_named(path):
    assert_names_nothing_outside(path)


def test_the_headline_says_what_one_word_can_do():
    words = pd.DataFrame(
        {"position": [0, 1], "word": ["[CLS]", "not"], "start": [None, 0], "sup": [2.0, 1.04],
         "best_word": [math.nan, 0.71], "replacement": [None, "never"], "kind": [None, "shortlist"],
         "random_word": [math.nan, 0.08]}
    )  # fmt: skip
    one = bare(words=words, model="all-MiniLM-L6-v2", objective="pooled, layer 6")
    assert headline(one) == (
        "Changing “not” can move the pooled vector (layer 6) of all-MiniLM-L6-v2 by 104 % of its length; the best real "
        "word tried, “never”, moves it by 71 %, a random word in its place by 8.0 %."
    )
    assert headline(bare()) == "Changing “a” can move the vector of the first token of m by 50 % of its length."
    assert headline(bare(noise=0.75)).startswith("No single word moves the vector of the first token of m")
    assert headline(bare(words=bare().words.assign(sup=math.nan))) == "No word was measured in m."


def test_a_special_token_leads_only_where_nothing_else_was_measured():
    one = profile("The film was not good")
    one.words["sup"] = [9.0, *([1.0] * 5), 8.0]
    assert top_word(one)["word"] == "The"
    only = one.words[one.words["start"].isna()]
    assert top_word(dataclasses.replace(one, words=only))["word"] == "[CLS]"


def test_per_cents_keep_the_digits_that_say_something():
    assert [percent(x) for x in (1.04, 0.5, 0.08, 0.003)] == ["104 %", "50 %", "8.0 %", "0.3 %"]


def test_every_part_has_its_section(path):
    page = path.read_text()
    titles = [
        "Models beside each other",
        "The text, word by word",
        "The text, layer by layer",
        "The text, head by head",
    ]
    titles += ["The text, the numbers", "As the text grows", "What the numbers are", "How it was made"]
    places = [page.index(f"<h2>{title}") for title in titles]
    assert places == sorted(places)


@pytest.mark.parametrize("gaps", ["none of it", "holes"])
def test_what_was_not_measured_is_a_dash_or_not_there(gaps, tmp_path):
    one = bare() if gaps == "none of it" else profile("The film was not good at all")
    if gaps == "holes":
        one.words.loc[::2, ["sup", "first_order", "random_ball", "random_word"]] = math.nan
        one.layers.loc[::3, "value"] = math.nan
        one.heads.loc[::3, ["before", "after"]] = math.nan
    page = render([one], tmp_path / "p.html").read_text()
    shown = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert not re.search(r"\bnan\b|\bNone\b|<NA>|\bNaT\b", shown)
    for section in ("layer by layer", "head by head"):
        assert (section in shown) == (gaps == "holes")
    assert "As the text grows" not in shown
    assert "Models beside each other" not in shown


def test_empty_lengths_make_no_section(tmp_path):
    for empty in (lengths().iloc[:0], lengths().assign(sup=0.0, best_word=math.nan, random_word=0.0, first_order=0.0)):
        assert "As the text grows" not in render([bare()], tmp_path / "p.html", lengths=empty).read_text()


def test_words_below_the_noise_are_grey_and_counted(tmp_path):
    one = profile(REVIEW)
    below = int(one.words["below_noise"].sum())
    page = render([one], tmp_path / "p.html").read_text()
    assert f"{below} of {len(one.words)} words stay below it and are grey" in page
    assert page.count('<span class="faint"') == below
    loud = dataclasses.replace(one, words=one.words.assign(below_noise=False), noise=0.0)
    quiet = render([loud], tmp_path / "p.html").read_text()
    assert "every word is above it" in quiet
    assert 'class="faint"' not in quiet


def test_a_review_has_a_line_and_a_column_for_each_of_its_words(tmp_path):
    one = profile(" ".join(f"word{i}" for i in range(LONG - 2)))  # and two special tokens
    place = render([one], tmp_path / "p.html")
    page = place.read_text()
    assert place.stat().st_size < 400_000
    assert page.count('<table class="heat bare">') == -(-LONG // ACROSS)
    assert page.count("<tr><td>") == LONG
    assert "in colour only" not in page


@pytest.mark.parametrize("words", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_long_text_is_shown_in_parts_with_the_words_that_do_most(tmp_path, words):
    one = profile(" ".join(f"word{i}" + "." * (i % 30 == 29) for i in range(words)))
    place = render([one, dataclasses.replace(one, model=TWIN)], tmp_path / "p.html")
    page = place.read_text()
    assert place.stat().st_size < 6_000_000
    parts = 34 if words == 1000 else 60
    assert page.count("<tr><td>") == 2 * (parts + TOP)
    assert ("Sentence by sentence" if words == 1000 else "Window by window") in page
    hidden = f"{words + 2 - TOP:,}"
    assert page.count(f"{hidden} less sensitive words are in colour only; --csv, --parquet or --json") == 2
    assert page.count(f"{hidden} more are in the tables of --json and --out") == 2
    assert f">word{words - 1}" in page  # the text itself is whole


def test_many_texts_have_one_line_each(tmp_path):
    profiles = [profile(f"film number {k} was good") for k in range(MOST_TEXTS + 2)]
    page = render(profiles, tmp_path / "p.html").read_text()
    assert page.count(", word by word") == MOST_TEXTS
    assert "2 more texts are in the table of models only" in page
    assert f"film number {MOST_TEXTS + 1} was good" in page


def test_kinds_of_number_are_told_apart(path):
    page = path.read_text()
    for kind in (
        "a lower bound",
        "S ≤ is a ceiling",
        "vector, not a word",
        "the word’s own embedding",
        "and no bound",
    ):
        assert kind in page


def test_what_is_common_to_all_models_is_said_once(tmp_path):
    page = render([profile(), profile(model=TWIN, seed=1)], tmp_path / "p.html").read_text()
    assert page.count("torch 2.13.0") == 1
    assert page.count("revision 0123abc0") == page.count("revision 0123abc1") == 1


def test_the_radius_is_the_one_that_was_asked_for(tmp_path):
    wider = bare(about={"within": {"shown": "‖Δ‖ ≤ 3"}, "positions": [0, 1]})
    page = render([wider], tmp_path / "p.html").read_text()
    assert "moves by Δ, ‖Δ‖ ≤ 3. That" in page
    assert "own embedding" not in page
    assert "<dt>positions</dt><dd>0–1</dd>" in page
    assert "‖Δ‖ ≤ ‖x‖, where ‖x‖ is the norm" in render([bare()], tmp_path / "p.html").read_text()


def test_layers_say_how_they_were_measured():
    layers = pd.DataFrame({"layer": [0, 1, 2, 5, 6], "how": ["there"] * 4 + ["searched"]})
    assert hows(layers) == "layers 0–2, 5: there; layer 6: searched"


# Lengths --------------------------------------------------------------------------------------------------------------


def test_fits_go_through_the_middle_of_the_trials_with_the_slope_given():
    table, slopes = lengths(), exponents()
    panel = lengths_plot(table, slopes).panels[0]
    (line, *_) = [mark for mark in panel.marks if mark.form == "line"]
    (slope,) = np.diff(np.log(line.y)) / np.diff(np.log(line.x))
    assert slope == pytest.approx(-0.05, abs=1e-4)
    mine = table[table["model"] == "all-MiniLM-L6-v2"]
    middle = np.exp(np.log(mine["sup"]).mean()), np.exp(np.log(mine["n"]).mean())
    assert np.interp(np.log(middle[1]), np.log(line.x), np.log(line.y)) == pytest.approx(np.log(middle[0]), abs=1e-5)
    labels = [mark.label for panel in lengths_plot(table, slopes).panels for mark in panel.marks if mark.label]
    assert "searched (S ≥): slope −0.05 [−0.08, −0.01]" in labels
    assert "searched (S ≥): slope −0.50" in labels
    assert len(labels) == 8


# Terminal and figures -------------------------------------------------------------------------------------------------


def printed(view: ProfileView, width: int = 150) -> str:
    console = Console(width=width, no_color=True, highlight=False)
    with console.capture() as caught:
        console.print(view)
    return caught.get()


def test_the_terminal_shows_the_most_sensitive_words_first():
    one = profile("The film was not good at all")
    lines = printed(ProfileView([one])).splitlines()
    first = next(k for k, line in enumerate(lines) if line.lstrip().startswith("#"))
    words = [line.split()[1] for line in lines[first + 1 : first + 1 + len(one.words)]]
    assert words == one.words.sort_values("sup", ascending=False)["word"].tolist()
    assert set(BLOCKS) & set(lines[first + 1])


def test_the_terminal_has_a_line_a_model_and_the_slopes():
    out = printed(ProfileView([profile(), profile(model=TWIN, seed=1)], lengths(), exponents()))
    assert sum(line.startswith((TWIN + "  ", "all-MiniLM-L6-v2  ")) for line in out.splitlines()) == 2
    assert "slope −0.70 [−0.75, −0.66]" in out


def test_the_terminal_sends_no_escapes_and_no_gaps():
    one = profile("a \x1b[31mred\x1b[0m b")
    out = printed(ProfileView([one, bare()]))
    assert "\x1b[31m" not in out
    assert "nan" not in out
    assert "None" not in out


def test_figures_are_drawn_with_their_words():
    one = profile(f"The film $cost {QUOTES} $5")
    texts = [label.get_text() for label in layers_figure(one).axes[0].get_xticklabels()]
    assert texts[1:4] == ["The", "film", r"\$cost"]
    assert "order of the text" in layers_figure(profile(" ".join(["word"] * 100))).axes[0].get_xlabel()
    assert len(heads_figure(one).axes[0].get_xticklabels()) == 12
    assert len([axes for axes in lengths_figure(lengths(), exponents()).axes if axes.get_xscale() == "log"]) == 2


def test_a_figure_of_nothing_says_what_to_measure():
    for draw in (layers_figure, heads_figure):
        with pytest.raises(RangeError, match="first"):
            draw(bare())
    with pytest.raises(RangeError, match="lengths"):
        lengths_figure(lengths().iloc[:0])


# A browser ------------------------------------------------------------------------------------------------------------


@SIZES
@SCHEMES
def test_the_browser_shows_it_in_silence(browser, path, width, scheme):
    with opened(browser, path, width, scheme) as tab:
        assert tab.title() == "What can one word do to it?"
        assert tab.locator(".review").first.inner_text().split() == TEXT.split()
        shade = "getComputedStyle(document.querySelector('.review span')).backgroundColor"
        before = tab.evaluate(shade)
        tab.locator(".choice label").nth(1).click()  # another scale of colours, without a script
        assert tab.evaluate(shade) != before
