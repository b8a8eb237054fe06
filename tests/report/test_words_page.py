"""The page of a survey: one small file, every text escaped, no script, no request; and a browser that agrees."""

import math
import re
import sys

import pandas as pd
import pytest
from oneword.report.words.tables import over_seeds, pieces

from oneword.errors import MissingExtraError
from oneword.report.words.page import check_installed, render
from oneword.report.words.passages import TOP, parts_of
from tests.pages import SCHEMES, SIZES, assert_names_nothing_outside, opened
from tests.survey_cases import EVIL, QUOTES, about, replacements, table

TEXT = f"I love {EVIL} and {QUOTES} much"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    words = table(TEXT)
    place = tmp_path_factory.mktemp("out") / "words.html"
    return render([TEXT], words, replacements(words), about(), [EVIL], place, command=f"oneword '{QUOTES}'", top=2)


def test_texts_are_escaped_everywhere(path):
    page = path.read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;document.title" in page
    assert "onerror=alert(&#39;1&#39;)" in page


def test_nothing_outside_the_file_is_named(path):
    assert_names_nothing_outside(path)


def page_of(words: int, place, *, maps=("attention", "attention-relu", "rf")):
    """The page of a text of so many words, a full stop after every twelfth."""
    text = " ".join(f"word{i}" + "." * (i % 12 == 11) for i in range(words))
    lines = table(text, maps=maps, seeds=(0,))
    return render([text], lines, replacements(lines), about((0,)), [], place, top=1), lines


def test_a_review_is_a_small_page_with_all_its_words(tmp_path):
    place, _ = page_of(250, tmp_path / "a.html")
    page = place.read_text()
    assert place.stat().st_size < 300_000
    assert page.count('<svg class="plot"') == 3
    assert "in colour only" not in page
    assert page.count("<tr><td>") == 250


@pytest.mark.parametrize(("words", "kind", "parts"), [(700, "sentence", 59), (5000, "window", 60)])
def test_a_long_text_is_shown_in_parts_with_the_words_that_do_most(tmp_path, words, kind, parts):
    place, lines = page_of(words, tmp_path / "a.html", maps=("attention",))
    page = place.read_text()
    assert place.stat().st_size < 2_000_000  # of a map
    assert page.count("<tr><td>") == parts + TOP
    assert f"{kind.capitalize()} by {kind}" in page
    assert f"{words - TOP:,} more words of this text are in colour only; --csv, --parquet or --json" in page
    assert f">word{words - 1}" in page  # the text is whole
    best = lines[lines["map"] == "attention"].sort_values("S_word", ascending=False)["word"].head(TOP)
    rows = page[page.index("The words that do most") :]
    assert re.findall(r'<td class="w"><b>(\S+?)</b>', rows) == list(best)
    assert 'class="plot bars"' not in page


def test_a_longer_text_says_what_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr("oneword.report.words.page.MOST_WORDS", 400)
    place, _ = page_of(407, tmp_path / "b.html", maps=("attention",))
    assert "7 more words are not on this page; --csv" in place.read_text()
    assert ">word399" in place.read_text()
    assert "word400" not in place.read_text()


def test_many_texts_are_shown_as_one_long_one(tmp_path):
    texts = [" ".join(f"word{k}" for k in range(40))] * 10
    words = pd.concat([table(text, number=k, seeds=(0,)) for k, text in enumerate(texts)], ignore_index=True)
    page = render(texts, words, replacements(words), about((0,)), [], tmp_path / "a.html").read_text()
    assert page.count("10 more words of this text are in colour only") == 10


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


def test_the_kinds_of_number_are_named(path):
    page = path.read_text()
    for kind in (
        "searched (a lower bound)",
        "certified",
        "from 5 words of tiny; exact over them",
        "2 seeds",
        "only its own words",
    ):
        assert kind in page


def test_several_texts_have_a_summary(tmp_path):
    texts = ["I love her much", "not a good film"]
    words = pd.concat([table(text, number=k) for k, text in enumerate(texts)], ignore_index=True)
    page = render(texts, words, replacements(words), about(), [], tmp_path / "a.html").read_text()
    assert page.index("All texts") < page.index("Text 0, word by word") < page.index("Text 1, word by word")


def test_pieces_give_the_text_back():
    assert "".join(piece.shown for piece in pieces(TEXT, over_seeds(table(TEXT)))) == TEXT


def test_means_are_over_seeds_and_the_replacement_is_of_the_best():
    words = table("I love her much", maps=("attention",))
    lines = over_seeds(words)
    first = words[words["index"] == 1]
    assert lines["S_ball"].iloc[0] == pytest.approx(first["S_ball"].mean())
    assert lines["S_ball_spread"].iloc[0] == pytest.approx(first["S_ball"].std())
    assert over_seeds(words[words["seed"] == 0])["S_ball_spread"].isna().all()
    words.loc[first["S_word"].idxmax(), "replacement"] = "zebra"
    assert over_seeds(words)["replacement"].iloc[0] == "zebra"


def test_a_missing_extra_is_one_line_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oneword\[page\]'"):
        check_installed()


@SIZES
@SCHEMES
def test_the_browser_shows_it_in_silence(browser, path, width, scheme):
    with opened(browser, path, width, scheme) as tab:
        assert tab.title() == "How far does one word move it?"
        assert tab.locator(".review").inner_text().split() == TEXT.split()
        shade = "getComputedStyle(document.querySelector('.review span')).backgroundColor"
        before = tab.evaluate(shade)
        tab.locator(".choice label").nth(1).click()  # another scale of colours, without a script
        assert tab.evaluate(shade) != before
