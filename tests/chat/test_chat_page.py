"""The page of prompts: every text escaped, no script, no request; and a browser that agrees."""

import dataclasses

import pytest
from rich.console import Console

from oneword.chat.prompts import Prompt
from oneword.chat.verb import ask
from tests.pages import SCHEMES, SIZES, assert_names_nothing_outside, opened

EVIL, QUOTES = "<script>1</script>", '"><img src=x>'
SETS = ((EVIL, "It was bad."), (QUOTES, "I love it."))


@pytest.fixture(scope="module")
def found(tiny):
    prompts = [
        Prompt(user=f"I {{word}} {EVIL}", words=(QUOTES, "a\x1b[31m"), answers=SETS, name=f"{QUOTES} {EVIL}"),
        Prompt(user="It was {word}", words=("bad", "good")),
    ]
    result = ask(prompts, tiny["gpt2"].phi, tokens=5, samples=1)
    return dataclasses.replace(result, about=result.about | {"model": EVIL}, notes=(*result.notes, EVIL))


@pytest.fixture(scope="module")
def path(found, tmp_path_factory):
    return found.save_html(tmp_path_factory.mktemp("out") / "chat.html", command=f"oneword '{QUOTES}'")


def test_texts_are_escaped_everywhere(path, found):
    for page in (path.read_text(), found._repr_html_()):
        assert "<script" not in page
        assert "<img" not in page
        assert "&lt;script&gt;1&lt;/script&gt;" in page


def test_nothing_outside_the_file_is_named(path):
    assert_names_nothing_outside(path)


def test_terminals_are_sent_no_control_characters(found):
    console = Console(record=True, width=100, force_terminal=False)
    console.print(found)
    said = console.export_text()
    assert "\x1b" not in said
    for what in ("log-odds", "tokens in common", "attention to the changed word", "sample 1", "divergence along"):
        assert what in said


def test_many_heads_are_left_out_so_that_the_page_stays_small(found, tmp_path, monkeypatch):
    assert "by layer and head" in found.save_html(tmp_path / "a.html").read_text()
    monkeypatch.setattr("oneword.report.chat_page.MOST_CELLS", 1)
    page = found.save_html(tmp_path / "b.html").read_text()
    assert "by layer and head" not in page
    assert "head 0 of layer" in page or "head 1 of layer" in page


def test_prompts_without_answers_are_a_page_too(tiny, tmp_path):
    result = ask(Prompt(user="It was {word}", words=("bad", "good")), tiny["gpt2"].phi, tokens=3)
    page = result.save_html(tmp_path / "a.html").read_text()
    assert "no flip is decided" in page
    assert "Give two sets of answers" in page


@SIZES
@SCHEMES
def test_the_browser_shows_it_in_silence(browser, path, width, scheme):
    with opened(browser, path, width, scheme) as tab:
        assert tab.title() == "One word of a prompt"
        assert tab.locator(".reply:visible").count() == 4
        tab.locator("summary").first.click()  # what was sent, without a script
        assert tab.locator("pre.sent:visible").count() == 2
