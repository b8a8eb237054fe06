"""The page of a survey: one small file, every text escaped, no script, no request; and a browser that agrees."""

import sys

import pandas as pd
import pytest

from oneword.errors import MissingExtraError
from oneword.report.words.page import MOST_WORDS, check_installed, render
from oneword.report.words.tables import over_seeds, pieces
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


def test_a_long_review_is_a_small_page_and_a_longer_one_says_what_it_leaves_out(tmp_path):
    text = " ".join(f"word{i}" for i in range(250))
    words = table(text, maps=("attention", "attention-relu", "rf"), seeds=(0,))
    place = render([text], words, replacements(words), about((0,)), [], tmp_path / "a.html", top=1)
    assert place.stat().st_size < 300_000
    assert "more words are not on this page" not in place.read_text()
    longer = " ".join(f"word{i}" for i in range(MOST_WORDS + 7))
    words = table(longer, seeds=(0,))
    page = render([longer], words, replacements(words), about((0,)), [], tmp_path / "b.html").read_text()
    assert "7 more words are not on this page" in page
    assert f"word{MOST_WORDS} " not in page


def test_the_kinds_of_number_are_named(path):
    page = path.read_text()
    for kind in (
        "searched (a lower bound)",
        "certified",
        "exact over 5 words of tiny",
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
    first = words[words["index"] == 0]
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
