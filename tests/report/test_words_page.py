"""The page of a table of words: one small file, every text escaped, every gap a dash; and a browser that agrees."""

import dataclasses
import math
import re
import sys

import pytest

from oneword.errors import MissingExtraError
from oneword.report import app_views
from oneword.report.templating import check_installed
from oneword.report.words.lines import over_seeds, pieces
from oneword.report.words.page import ACROSS, MOST_TEXTS, render
from oneword.report.words.passages import LONG, TOP, parts_of
from tests.pages import SCHEMES, SIZES, assert_names_nothing_outside, opened
from tests.word_tables import EVIL, MODEL, NOISE, QUOTES, REVIEW, TWIN, bare, lengths, word_table

TEXT = f"I love {EVIL} and {QUOTES} very much"


def evil():
    """Texts that would break a page, in every place where texts can be."""
    table = word_table(TEXT, maps=("attention", "rf"), models=(EVIL, TWIN), seeds=(0, 1))
    words = table.words.assign(replacement=table.words["replacement"].mask(table.words["replacement"].notna(), QUOTES))
    subjects = [dataclasses.replace(each, title=EVIL, certificate=QUOTES, within=EVIL) for each in table.subjects]
    subjects[2] = dataclasses.replace(subjects[2], what=QUOTES, about={EVIL: {QUOTES: EVIL}})
    layers, about = table.layers.assign(how=EVIL), {**table.about, EVIL: {QUOTES: EVIL}}
    return dataclasses.replace(
        table, words=words, subjects=tuple(subjects), layers=layers, notes=(EVIL, QUOTES), about=about
    )


@pytest.fixture(scope="module")
def evil_path(tmp_path_factory):
    return render(evil(), tmp_path_factory.mktemp("out") / "words.html", command=f"oneword '{QUOTES}'", top=2)


@pytest.fixture(scope="module")
def table():
    return word_table(TEXT, maps=("attention", "rf"), models=(MODEL, TWIN), seeds=(0, 1))


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    return table.save_html(tmp_path_factory.mktemp("out") / "words.html", command=f"oneword '{QUOTES}'", top=2)


def test_texts_are_escaped_everywhere(evil_path):
    page = evil_path.read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;document.title") > 10
    assert "onerror=alert(&#39;1&#39;)" in page


def test_nothing_outside_the_file_is_named(evil_path):
    assert_names_nothing_outside(evil_path)


def test_a_notebook_shows_every_subject_with_its_texts_escaped():
    shown = evil()._repr_html_()
    assert "<script" not in shown
    assert "<img" not in shown
    assert shown.count("<table") == 4
    assert not re.search(r"\bnan\b|\bNone\b|<NA>", shown)


# Sizes ----------------------------------------------------------------------------------------------------------------


def text_of(words: int, sentence: int = 12) -> str:
    """So many words, a full stop after every twelfth."""
    return " ".join(f"word{i}" + "." * (i % sentence == sentence - 1) for i in range(words))


@pytest.mark.parametrize("subjects", [{"maps": ("attention", "attention-relu", "rf")},
                                      {"maps": ("attention", "rf"), "models": (MODEL,)}])  # fmt: skip
def test_a_review_is_a_small_page_with_all_its_words(tmp_path, subjects):
    place = render(word_table(text_of(250), special=False, **subjects), tmp_path / "a.html")
    page = place.read_text()
    assert place.stat().st_size < 300_000
    assert page.count('<svg class="plot"') == 3
    assert "in colour only" not in page
    assert page.count("<tr><td>") == 250


def test_a_review_has_a_line_and_a_column_for_each_of_its_words(tmp_path):
    place = render(word_table(text_of(LONG - 2), models=(MODEL,)), tmp_path / "p.html")  # and two special tokens
    page = place.read_text()
    assert place.stat().st_size < 400_000
    assert page.count('<table class="heat bare">') == -(-LONG // ACROSS)
    assert page.count("<tr><td>") == LONG
    assert "in colour only" not in page


@pytest.mark.parametrize(("words", "kind", "parts"), [(700, "sentence", 59), (5000, "window", 60)])
def test_a_long_text_is_shown_in_parts_with_the_words_that_do_most(tmp_path, words, kind, parts):
    table = word_table(text_of(words), maps=("attention",))
    place = render(table, tmp_path / "a.html")
    page = place.read_text()
    assert place.stat().st_size < 2_000_000  # of a map
    assert page.count("<tr><td>") == parts + TOP
    assert f"{kind.capitalize()} by {kind}" in page
    assert f"{words - TOP:,} less sensitive words are in colour only; the tables (CSV, Parquet, JSON) have" in page
    assert f">word{words - 1}" in page  # the text is whole
    best = table.words.sort_values("value", ascending=False)["word"].head(TOP)
    rows = page[page.index("The words that do most") :]
    assert re.findall(r'<td class="w"><b>(\S+?)</b>', rows) == list(best)
    assert '<svg class="plot"' not in page


@pytest.mark.parametrize("words", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_long_text_of_several_models_has_parts_and_layers_of_each(tmp_path, words):
    table = word_table(text_of(words, sentence=30), models=(MODEL, TWIN))
    place = render(table, tmp_path / "p.html")
    page = place.read_text()
    assert place.stat().st_size < 6_000_000
    parts = 34 if words == 1000 else 60
    assert page.count("<tr><td>") == 2 * parts + TOP
    assert page.count("Sentence by sentence:" if words == 1000 else "Window by window:") == 2
    hidden = f"{words + 2 - TOP:,}"
    assert page.count(f"{hidden} less sensitive words are in colour only; the tables") == 1
    assert page.count(f"{hidden} more are in the tables.") == 2
    assert page.count(f">word{words - 1}") >= 2  # the text itself is whole


def test_a_longer_text_says_what_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr("oneword.report.words.page.MOST_WORDS", 400)
    page = render(word_table(text_of(407), maps=("attention",)), tmp_path / "b.html").read_text()
    assert "7 more words are not on this page; the tables" in page
    assert ">word399" in page
    shown = page[page.index('<p class="review') : page.index("</p>", page.index('<p class="review'))]
    assert "word400" not in shown


def test_many_texts_are_shown_as_one_long_one(tmp_path):
    page = render(word_table(*[text_of(40)] * 10, maps=("attention", "rf")), tmp_path / "a.html").read_text()
    assert page.count("10 less sensitive words are in colour only") == 10


def test_many_texts_have_one_row_each(tmp_path):
    texts = [f"film number {k} was good" for k in range(MOST_TEXTS + 2)]
    page = render(word_table(*texts, models=(MODEL,)), tmp_path / "p.html").read_text()
    assert page.count(", word by word") == MOST_TEXTS
    assert "2 more texts are in the table above only" in page
    assert f"film number {MOST_TEXTS + 1} was good" in page


# What it says ---------------------------------------------------------------------------------------------------------


def test_every_part_has_its_section(path):
    page = path.read_text()
    titles = [
        "Side by side",
        "The text, word by word",
        "The text, layer by layer",
        "The text, head by head",
        "The text, the numbers",
        "What the numbers are",
        "How it was made",
    ]
    places = [page.index(f"<h2>{title}") for title in titles]
    assert places == sorted(places)


def test_several_texts_have_a_summary(tmp_path):
    table = word_table("I love her much", "not a good film", maps=("attention", "rf"))
    page = render(table, tmp_path / "a.html").read_text()
    assert page.index("Side by side") < page.index("Text 0, word by word") < page.index("Text 1, word by word")


def test_the_kinds_of_number_are_named(path):
    page = path.read_text()
    for kind in (
        "that a search found",
        "a lower bound",
        "S ≤ of a map is certified",
        "S ≤ of a model is a ceiling",
        "Δ is a vector; as a rule no word has that embedding",
        "‖Δ‖ ≤ √d for maps, ‖Δ‖ ≤ ‖x‖ for models",
        "the word’s own embedding",
        "and no bound",
        "from 5 words of tiny, that changes most. Exact over them: attention, rf",
        "a lower bound (≥), from a gradient shortlist: all-MiniLM",
        "2 seeds (0, 1)",
        "only its own words",
    ):
        assert kind in page, kind


def test_the_best_word_is_a_lower_bound_unless_all_were_tried(tmp_path):
    def cells(kind):
        one = word_table("I love her", maps=("attention",))
        found = dataclasses.replace(one, words=one.words.assign(kind=kind))
        page = render(found, tmp_path / "a.html").read_text()
        return page[page.index("the numbers</h2>") : page.index("What the numbers are")].count("≥ 0.")

    assert [cells(kind) for kind in ("exact", "shortlist", "sample")] == [0, 2, 2]


@pytest.mark.parametrize("gaps", ["none of it", "holes"])
def test_what_was_not_measured_is_a_dash_or_not_there(gaps, tmp_path):
    one = bare() if gaps == "none of it" else word_table("The film was not good at all", models=(MODEL,))
    if gaps == "holes":
        one.words.loc[::2, ["value", "first_order", "random", "random_word", "best_word"]] = math.nan
        one.layers.loc[::3, "value"] = math.nan
        one.heads.loc[::3, ["before", "after"]] = math.nan
    page = render(one, tmp_path / "p.html").read_text()
    shown = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert not re.search(r"\bnan\b|\bNone\b|<NA>|\bNaT\b", shown)
    for section in ("layer by layer", "head by head"):
        assert (section in shown) == (gaps == "holes")
    assert "Side by side" not in shown
    assert (">–" in shown) == (gaps == "holes")


def test_words_below_the_noise_are_grey_and_counted(tmp_path):
    one = word_table(REVIEW, models=(MODEL,))
    below = int(one.words["below_noise"].sum())
    assert below > 0
    page = render(one, tmp_path / "p.html").read_text()
    assert f"{below} of {len(one.words)} words stay below it and are grey" in page
    assert page.count('<span class="faint"') == below
    (subject,) = one.subjects
    loud = dataclasses.replace(
        one, words=one.words.assign(below_noise=False), subjects=(dataclasses.replace(subject, noise=0.0),)
    )
    quiet = render(loud, tmp_path / "p.html").read_text()
    assert "every word is above it" in quiet
    assert 'faint"' not in quiet


def test_the_noise_is_the_largest_of_all_texts(tmp_path):
    table = word_table("not a good film", "I love her much", models=(MODEL,))
    louder = dataclasses.replace(table.subjects[1], noise=10 * NOISE)
    page = render(dataclasses.replace(table, subjects=(table.subjects[0], louder)), tmp_path / "p.html").read_text()
    assert page.count("batch size and padding alone move it by 2.0e−05 of its norm") == 1


@pytest.mark.parametrize("maps", [(), ("attention",)], ids=["models alone", "beside a map"])
@pytest.mark.parametrize("texts", [(REVIEW,), (REVIEW, "not a good film")], ids=["one text", "two texts"])
def test_what_is_common_to_all_models_is_said_once(tmp_path, maps, texts):
    page = render(word_table(*texts, maps=maps, models=(MODEL, TWIN)), tmp_path / "p.html").read_text()
    assert page.count("torch 2.13.0") == 1
    assert page.count("revision 0123abc0") == page.count("revision 0123abc1") == len(texts)
    assert ("<h3>All models</h3>" in page) == bool(maps)


def test_what_a_model_rests_on_does_not_replace_what_maps_rest_on(tmp_path):
    table = word_table(REVIEW, maps=("attention",), models=(MODEL,))
    known = [dataclasses.replace(each, about={"d": 384} if each.kind == "model" else {}) for each in table.subjects]
    page = render(dataclasses.replace(table, subjects=tuple(known)), tmp_path / "p.html").read_text()
    assert page.count("<dt>d</dt><dd>8</dd>") == page.count("<dt>d</dt><dd>384</dd>") == 1


def test_the_radius_is_the_one_that_was_asked_for(tmp_path):
    wider = bare(within="‖Δ‖ ≤ 3", about={"within": {"shown": "‖Δ‖ ≤ 3"}, "positions": [0, 1]})
    page = render(wider, tmp_path / "p.html").read_text()
    assert "moves by Δ, ‖Δ‖ ≤ 3. That" in page
    assert "own embedding" not in page
    assert "<dt>positions</dt><dd>0–1</dd>" in page
    assert "‖Δ‖ ≤ ‖x‖, where ‖x‖ is the norm" in render(bare(), tmp_path / "p.html").read_text()


def test_layers_say_how_they_were_found(path):
    page = path.read_text()
    assert page.count("Layers 0–5: at the change of pooled, layer 6; layer 6: searched.") == 2


def test_pieces_give_the_text_back(table):
    for part in table.parts[:1] + table.parts[2:]:  # rf measures some words only, and the rest stands between them
        assert "".join(piece.shown for piece in pieces(part)) == TEXT
    assert "".join(piece.shown for piece in pieces(table.parts[1])) == TEXT


def test_means_are_over_seeds_and_the_replacement_is_of_the_best():
    words = word_table("I love her much", maps=("attention",), seeds=(0, 1)).words
    lines = over_seeds(words)
    first = words[words["index"] == 1]
    assert lines["value"].iloc[0] == pytest.approx(first["value"].mean())
    assert lines["value_spread"].iloc[0] == pytest.approx(first["value"].std())
    assert over_seeds(words[words["seed"] == 0])["value_spread"].isna().all()
    words.loc[first["best_word"].idxmax(), ["replacement", "distance"]] = "zebra", 1.9
    assert over_seeds(words)["replacement"].iloc[0] == "zebra"
    assert over_seeds(words)["distance"].iloc[0] == 1.9


def test_spreads_are_shown_where_there_are_seeds(path, tmp_path):
    assert "<small>± 0." in path.read_text()
    assert "±" not in render(word_table("I love her much", maps=("attention",)), tmp_path / "a.html").read_text()


def test_a_missing_extra_is_one_line_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oneword\[page\]'"):
        check_installed()


def test_empty_lengths_make_no_plot():
    for empty in (lengths().iloc[:0], lengths().assign(sup=0.0, best_word=math.nan, random_word=0.0, first_order=0.0)):
        assert "<svg" not in app_views.lengths(empty)
        assert "does one word weigh less as the text grows" in app_views.lengths(empty)
    assert "<svg" in app_views.lengths(lengths())


# Parts of a long text -------------------------------------------------------------------------------------------------


def test_sentences_end_where_their_marks_and_lines_do():
    text = "It was 3.5 long. Was it?  Yes\nNo: really"
    spans = [match.span() for match in re.finditer(r"[\w.]+\w|\w+|[.?:]", text)]
    found = parts_of(text, spans)
    assert [part.shown for part in found.parts] == ["It was 3.5 long.", "Was it?", "Yes", "No: really"]
    assert found.kind == "sentence"
    covered = [k for part in found.parts for k in range(part.first, part.last + 1)]
    assert covered == list(range(len(spans)))


def test_parts_have_the_mean_and_the_largest_of_their_words():
    words, values = ["a", "b.", "c", "d"], [1.0, 3.0, math.nan, math.nan]
    (first, second) = parts_of("a b. c d", [(0, 1), (2, 4), (5, 6), (7, 8)]).summary(words, values)
    assert first == {"mean": 2.0, "max": 3.0, "word": "b."}
    assert second["word"] == "–"
    assert math.isnan(second["mean"])


# A browser ------------------------------------------------------------------------------------------------------------


@SIZES
@SCHEMES
def test_the_browser_shows_it_in_silence(browser, evil_path, width, scheme):
    with opened(browser, evil_path, width, scheme) as tab:
        assert tab.title() == "How far can one word move it?"
        for review in tab.locator(".review").all():
            assert review.inner_text().split() == TEXT.split()
        shade = "getComputedStyle(document.querySelector('.review span')).backgroundColor"
        before = tab.evaluate(shade)
        tab.locator(".choice label").nth(1).click()  # another scale of colours, without a script
        assert tab.evaluate(shade) != before
