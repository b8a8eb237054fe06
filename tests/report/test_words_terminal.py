"""The table of words in the terminal and in sentences: the most sensitive words, no escapes, every gap a dash."""

import dataclasses
import math
import re

import pandas as pd
import pytest
from rich.console import Console

from oneword.report.table import MOST_LINES, shown
from oneword.report.words.lines import top_line
from oneword.report.words.sentences import headline, layers_found, percent
from oneword.report.words.table import WordTable, words_frame
from oneword.report.words.terminal import BLOCKS, MOST_TEXTS, WordsView
from tests.word_tables import MODEL, REVIEW, TWIN, bare, word_table

MAPS = ("attention", "rf")


def printed(table: WordTable, width: int = 150, top: int = 1) -> str:
    console = Console(width=width, no_color=True, highlight=False)
    with console.capture() as caught:
        console.print(WordsView(table, top))
    return caught.get()


def rows(out: str) -> dict[str, str]:
    """The rows of the first table by their words."""
    lines = out.splitlines()
    first = next(k for k, line in enumerate(lines) if re.match(r" *# +word", line))
    table = lines[first + 1 : lines.index("", first)]
    return {line.split()[1]: line for line in table if re.match(r" *(\d+|–) +\S", line)}  # replacements may be folded


# Sentences ------------------------------------------------------------------------------------------------------------


def test_the_headline_says_what_one_word_can_do():
    known = [
        {"position": 0, "word": "[CLS]", "value": 2.0},
        {"position": 1, "word": "not", "start": 0, "end": 3, "value": 1.04, "best_word": 0.71, "replacement": "never",
         "kind": "shortlist", "random_word": 0.08},
    ]  # fmt: skip
    same = {"text": 0, "window": 0, "tokens": 1, "n": 2, "by": "m"}
    one = bare("a b", title="all-MiniLM-L6-v2", what="pooled, layer 6")
    one = dataclasses.replace(one, words=words_frame([same | line for line in known]))
    assert said(one) == (
        "Changing “not” can move the pooled vector (layer 6) of all-MiniLM-L6-v2 by 104 % of its norm; the best real "
        "word tried, “never”, moves it by 71 %, a random word in its place by 8.0 %."
    )
    assert said(bare()) == "Changing “a” can move the vector of the first token of m by 50 % of its norm."
    assert said(bare(noise=0.75)).startswith("No single word moves the vector of the first token of m")
    assert said(bare(values=(math.nan, math.nan))) == "No word was measured in m."


def said(table: WordTable) -> str:
    (part,) = table.parts
    return headline(part)


def test_a_special_token_leads_only_where_nothing_else_was_measured():
    one = word_table("The film was not good", models=(MODEL,))
    one.words["value"] = [9.0, *([1.0] * 5), 8.0]
    assert top_line(one.parts[0])["word"] == "The"
    only = dataclasses.replace(one, words=one.words[one.words["start"].isna()])
    assert top_line(only.parts[0])["word"] == "[CLS]"


def test_per_cents_keep_the_digits_that_say_something():
    assert [percent(x) for x in (1.04, 0.5, 0.08, 0.003)] == ["104 %", "50 %", "8.0 %", "0.3 %"]


def test_layers_say_how_they_were_measured():
    layers = pd.DataFrame({"layer": [0, 1, 2, 5, 6], "how": ["there"] * 4 + ["searched"]})
    assert layers_found(layers) == "layers 0–2, 5: there; layer 6: searched"


# Terminal -------------------------------------------------------------------------------------------------------------


def test_the_sentence_comes_first_and_the_words_in_its_order():
    text = "The film was not good at all"
    out = printed(word_table(text, maps=("attention",)))
    assert out.splitlines()[0] == text
    assert list(rows(out)) == text.split()


@pytest.mark.parametrize("subjects", [{"maps": ("attention",)}, {"models": (MODEL,)}])
def test_of_a_long_text_the_most_sensitive_words_are_shown_and_the_rest_is_counted(subjects):
    table = word_table(" ".join(f"word{k}" for k in range(MOST_LINES + 7)), special=False, **subjects)
    out = printed(table)
    most = table.words.sort_values("value", ascending=False)["word"].head(MOST_LINES)
    assert set(rows(out)) == set(most)
    assert "… and 7 less sensitive words: the page and the files have them all" in out


def test_layers_of_the_most_sensitive_words_are_shades():
    table = word_table("The film was not good at all", models=(MODEL,))
    lines = printed(table).splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("word") and "layers 0–6" in line)
    words = [line.split()[0] for line in lines[first + 1 : first + 6]]
    assert words == table.words.sort_values("value", ascending=False)["word"].head(5).tolist()
    assert all(set(BLOCKS) & set(line[10:]) - {" "} for line in lines[first + 1 : first + 6])
    assert "layer 6: searched" in lines[first + 6]


def test_every_subject_has_a_row_and_the_first_a_headline():
    table = word_table(REVIEW, maps=MAPS, models=(MODEL, TWIN))
    out = printed(table)
    summary = out[: out.index(headline(table.parts[0])[:40])].split("\n\n")[-2]
    assert sum(line.startswith((*MAPS, TWIN + " ", MODEL + " ")) for line in summary.splitlines()) == 4


def test_many_texts_have_one_row_each():
    texts = [f"film{k} was good" for k in range(MOST_TEXTS + 1)]
    out = printed(word_table(*texts, models=(MODEL,)))
    assert sum(text in out for text in texts) == len(texts)
    assert "layers 0–6" not in out


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
@pytest.mark.parametrize("width", [80, 100, 150])
def test_nothing_is_cut_off_where_the_terminal_is_narrow(width, seeds):
    table = word_table("The film was not good at all", maps=MAPS, models=(MODEL,), seeds=seeds)
    out = printed(table, width)
    assert max(map(len, out.splitlines())) <= width
    summary = out[: out.index(headline(table.parts[0])[:40])].split("\n\n")[-2]
    for part in table.parts:
        top = top_line(part)
        for name in ("value", "upper", "best_word", "random_word"):
            assert re.search(rf"(?<![\d.]){re.escape(shown(top[name], 2))}(?!\d)", summary), (part.subject.by, name)
        for line in part.words.to_dict("records"):
            for name in ("value", "upper", "best_word", "random_word"):
                assert pd.isna(line[name]) or shown(line[name], 2) in out, (part.subject.by, line["word"], name)


def test_seeds_are_a_mean_and_a_spread():
    table = word_table("I love her much", maps=("attention",), seeds=(0, 1))
    first = table.words[table.words["word"] == "love"]["value"]
    assert f"{first.mean():.2f} ± {first.std():.2f}" in rows(printed(table))["love"]
    assert "±" not in printed(word_table("I love her much", maps=("attention",)))


def test_as_many_replacements_as_were_asked_for():
    table = word_table("I love her much", models=(MODEL,))
    assert "zebra" in printed(table, top=2)
    assert "zebra" not in printed(table)


def test_the_terminal_sends_no_escapes_and_no_gaps():
    one = word_table("a \x1b[31mred\x1b[0m b", maps=MAPS, models=("m\x1b[31m",))
    one.words.loc[::2, ["value", "first_order", "random", "random_word"]] = math.nan
    for table in (one, bare(), bare(values=(math.nan, math.nan))):
        out = printed(dataclasses.replace(table, notes=("\x1b[31m",)))
        assert "\x1b[31m" not in out
        assert not re.search(r"\bnan\b|\bNone\b|<NA>", out)


def test_words_below_the_noise_are_counted():
    table = word_table(REVIEW, models=(MODEL,))
    below = int(table.words["below_noise"].sum())
    out = " ".join(printed(table).split())
    assert f"{below} of {len(table.words)} words stay below it and are grey" in out
