"""Words of two texts matched: every word once, the same whichever text comes first."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from oneword.comparison.changes import pair_words
from oneword.text.context import Context


def text(*words: str) -> Context:
    """With a special token before and after."""
    every = ("[CLS]", *words, "[SEP]")
    return Context(torch.ones(len(every), 1), words=every, special=(True, *(False for _ in words), True))


def said(a: Context, b: Context) -> list[tuple[str | None, str | None, str]]:
    return [
        (None if p.a is None else a.words[p.a], None if p.b is None else b.words[p.b], p.how) for p in pair_words(a, b)
    ]


words = st.lists(st.sampled_from(["a", "b", "c", "[CLS]"]), max_size=7)


@given(words, words)
def test_every_word_is_in_one_pair_in_order_and_swapping_the_texts_swaps_the_pairs(first, second):
    a, b = text(*first), text(*second)
    pairs = pair_words(a, b)
    assert [p.a for p in pairs if p.a is not None] == list(range(len(a.words)))
    assert [p.b for p in pairs if p.b is not None] == list(range(len(b.words)))
    assert tuple(p.swapped() for p in pairs) == pair_words(b, a)
    assert all(
        (p.how == "equal") == (p.a is not None and p.b is not None and a.words[p.a] == b.words[p.b]) for p in pairs
    )
    assert (pairs[0].a, pairs[0].b) == (0, 0)  # special tokens match each other
    assert (pairs[-1].a, pairs[-1].b) == (len(a.words) - 1, len(b.words) - 1)


def test_one_word_takes_the_place_of_another():
    found = said(text("I", "love", "her", "much"), text("I", "love", "her", "smile"))
    assert [pair for pair in found if pair[2] != "equal"] == [("much", "smile", "replace")]


def test_a_word_that_comes_has_no_counterpart():
    found = said(text("a", "good", "film"), text("a", "not", "good", "film"))
    assert [pair for pair in found if pair[2] != "equal"] == [(None, "not", "insert")]


def test_case_counts():
    assert ("good", "Good", "replace") in said(text("good"), text("Good"))


def test_several_words_for_one_are_paired_from_the_first():
    found = said(text("a", "film"), text("x", "y", "film"))
    assert found[1:3] == [("a", "x", "replace"), (None, "y", "insert")]
