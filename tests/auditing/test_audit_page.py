"""The page of an audit, in a real browser: whole, silent, narrow and wide, light and dark."""

import re

import pytest

import oneword as ow
from oneword.report.auditing_page import render
from tests.auditing.cases import DEAF, KEEN, Bag, reviews
from tests.pages import SCHEMES, SIZES, assert_names_nothing_outside, opened
from tests.word_tables import EVIL, QUOTES


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    pytest.importorskip("jinja2")
    texts = [f"{text} {EVIL} {QUOTES}" for text in reviews()]
    edits = ("negation", "antonym", "stop word", "typo", "case")
    found = ow.audit([KEEN, DEAF], texts, references=Bag(f"bag {QUOTES}"), lengths=(8, 32), edits=edits, resamples=99)
    place = tmp_path_factory.mktemp("out") / "audit.html"
    return render(found.tables, found.about, [*found.notes, EVIL], place, command=f"oneword '{QUOTES}'")


def test_texts_are_escaped_and_nothing_outside_is_named(path):
    page = path.read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert_names_nothing_outside(path)


def test_the_page_says_what_was_missed_and_what_the_numbers_are(path):
    page = path.read_text()
    assert re.search(r"\d+ of \d+ thresholds missed", page)
    for what in ("deaf to negation", "How long may chunks be?", "bootstrap over texts", "the tokenizer cannot see it"):
        assert what in page


@SIZES
@SCHEMES
def test_the_browser_shows_it_in_silence(browser, path, width, scheme):
    with opened(browser, path, width, scheme) as tab:
        assert tab.title() == "Does the encoder notice?"
        assert tab.locator("svg.plot[role=img]").count() >= 2
