"""One way to count words: # of every table, --position of the command and positions of the library are the same."""

from __future__ import annotations

import json
import re

import pytest

import oneword as ow
from tests.text.tiny_bert import write_tiny
from tests.text.tiny_models import write_model

TEXT = "not a good film"
FAST = ["--map", "attention", "--seeds", "1", "--effort", "quick"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(write_tiny(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="module")
def text(folder):
    return ow.Encoder.load(folder).encode(TEXT)


@pytest.fixture
def measure(oneword, folder):
    def run(*arguments):
        done = oneword("measure", TEXT, "--encoder", folder, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def _numbered(table):
    """{word: #} of the lines of a table in a terminal."""
    return {word: int(number) for number, word in re.findall(r"^ *(\d+) +(\S+) ", table, re.M)}


@pytest.mark.parametrize("options", [[], ["--among", "none"], ["--position", "all"]], ids=" ".join)
def test_the_number_in_the_table_is_that_of_the_option_and_of_the_library(measure, text, options):
    numbers = _numbered(measure(*FAST, *options))
    assert {"not", "a", "good", "film"} <= set(numbers)
    phi = ow.AttentionFeatures.draw(text.d, seed=0)
    for word, number in numbers.items():
        again = json.loads(measure(*FAST, "--position", str(number), "--json", "-"))
        assert [(line["word"], line["index"]) for line in again["words"]] == [(word, number)]
        found = ow.sensitivity(phi, text, positions=[number], search="quick", baseline=0)
        assert (found.word, found.position) == (word, number)


def test_the_page_has_the_same_numbers(measure, tmp_path):
    page = tmp_path / "page.html"
    numbers = _numbered(measure(*FAST, "--html", str(page)))
    cells = dict(re.findall(r'<tr><td>(\d+)<td class="w"><b>(.*?)</b>', page.read_text(encoding="utf-8")))
    assert {word: int(number) for number, word in cells.items()} == numbers


def test_several_words_at_once_count_the_same(measure, text):
    shown = measure("--map", "attention", "--together", "2", "--effort", "quick", "--position", "3", "--position", "4")
    assert "positions 3, 4" in " ".join(shown.split())
    assert [text.words[i] for i in (3, 4)] == ["good", "film"]


def test_models_count_the_same(oneword, tmp_path):
    pytest.importorskip("transformers")
    write_model(tmp_path / "tiny", "bert", layers=1, spread=0.3)
    for number, word in ((1, "I"), (3, "this")):
        run = oneword(
            "measure",
            "I love this film",
            "--model",
            str(tmp_path / "tiny"),
            "--effort",
            "quick",
            "--position",
            str(number),
        )
        assert run.returncode == 0, run.stderr
        assert _numbered(run.stdout) == {word: number}


def test_windows_count_on_as_the_whole_text_does(folder):
    encoder = ow.Encoder.load(folder)
    content = " ".join([TEXT] * 4)
    whole = encoder.encode(content)
    found = ow.measure(content, "attention", encoder=encoder, seeds=1, window=7, special=True, words=False)
    assert len(found.words["window"].unique()) > 1
    numbered = found.words[found.words["index"].notna()]
    assert {int(i): word for i, word in zip(numbered["index"], numbered["word"], strict=True)} == dict(
        enumerate(whole.words)
    )
    assert set(found.words.loc[found.words["index"].isna(), "word"]) == {"[CLS]", "[SEP]"}  # those between windows
    one = ow.measure(content, "attention", encoder=encoder, seeds=1, window=7, positions=[9], words=False)
    assert [(line.index_, line.word) for line in one.words.rename(columns={"index": "index_"}).itertuples()] == [
        (9, whole.words[9])
    ]
