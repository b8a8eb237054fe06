"""The page of two texts: every text escaped, no script, no request; and a browser that agrees."""

import pytest

from oneword.comparison.verb import compare
from oneword.report.comparison_page import draw_all, render
from tests.pages import SCHEMES, SIZES, assert_names_nothing_outside, opened

EVIL, QUOTES = "<script>1</script>", '"><img src=x>'  # short: the window of a tiny model is small
A, B = f"I love {QUOTES} film", f"I love {EVIL} film"


@pytest.fixture(scope="module")
def found(tiny):
    phi = tiny["gpt2"]
    comparison = compare(A, B, by=phi, top=4)
    return comparison, comparison.tables(1, 1)


@pytest.fixture(scope="module")
def path(found, tmp_path_factory):
    comparison, tables = found
    place = tmp_path_factory.mktemp("out") / "compare.html"
    about = {**comparison.about, "model": EVIL}
    return render((A, B), tables, about, [EVIL], place, layer=1, head=1, command=f"oneword '{QUOTES}'")


def test_texts_are_escaped_everywhere(path):
    page = path.read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;1&lt;/script&gt;" in page
    assert "&#34;&gt;&lt;img src=x&gt;" in page


def test_nothing_outside_the_file_is_named(path):
    assert_names_nothing_outside(path)


def test_long_texts_are_maps_of_colours_and_longer_ones_are_left_to_the_figures(tiny, tmp_path, monkeypatch):
    text = "I love this film " * 10
    comparison = compare(text + "good", text + "bad", by=tiny["gpt2"])

    def page() -> str:
        return render((text, text), comparison.tables(1), comparison.about, [], tmp_path / "a.html").read_text()

    assert 'class="heat bare"' in page()
    assert "the second text" in page()
    monkeypatch.setattr("oneword.report.comparison_page.MOST_WORDS", 40)
    assert "too long for maps on a page" in page()


@pytest.mark.slow
def test_figures_are_the_same_bytes_again(found, tmp_path):
    _, tables = found
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        files = draw_all((A, B), tables, tmp_path / folder, layer=1, head=1)
    assert {path.name for path in files} == {
        f"{name}.{kind}" for name in ("attention", "layers", "heads", "answers") for kind in ("pdf", "svg", "png")
    }
    for path in files:
        assert path.read_bytes() == (tmp_path / "one" / path.name).read_bytes()


@SIZES
@SCHEMES
def test_the_browser_shows_it_in_silence(browser, path, width, scheme):
    with opened(browser, path, width, scheme) as tab:
        assert tab.title() == "What did one word change?"
        assert tab.locator(".squares:visible").count() == 1
        assert tab.locator("#attention label:has(:checked)").inner_text() == "layer 1, head 1"
        shade = "getComputedStyle(document.querySelector('.both .changed span')).backgroundColor"
        before = tab.evaluate(shade)
        tab.locator("#words .choice label").first.click()  # another layer, without a script
        assert tab.evaluate(shade) != before
