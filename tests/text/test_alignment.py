"""Words and tokens: every token has one word, words are spelt as in the text, gaps and words are the text again."""

import random
import time
from contextlib import nullcontext
from functools import lru_cache

import pandas as pd
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from oneword.errors import MemoryLimitError, RangeError, TextError
from oneword.text.encoders import Encoder
from oneword.text.sources import REVIEWS
from oneword.text.tokens import align
from tests.text.tiny_bert import needs_minilm, needs_reviews
from tests.text.tiny_models import TOKENIZERS, write_model

MADE = {name: make() for name, make in TOKENIZERS.items()}
tokenizers = pytest.mark.parametrize("tokenizer", MADE.values(), ids=MADE.keys())
SPICES = [
    "<br /><br />", "café", "cafe\u0301", "naïve", "😀", "👩‍👩‍👧‍👦", "👍🏽👍🏽", "🇫🇷", "https://www.a-b.org/x?y=1&z=ü#top",
    "漢字かな", "ﷺ", "ﬁlm", "…", "Ⅷ", "a\u200bb", "zero\x00byte", "soft\u00adhyphen", "\ufeff", "x\x0by",
    "a\u00a0b", "\x1c", "\x85", "[SEP]", "<s>", "▁", "Ġ", "##s", "e" + "\u0301" * 30, "w" * 3000, "½", "١٢٣",
    "नमस्ते", "\U0001f3f4\U000e0067",
]  # fmt: skip
texts = st.text(max_size=60) | st.lists(st.sampled_from(SPICES) | st.text(max_size=5), min_size=1, max_size=8).map(
    "".join
)


def assert_round_trip(tokenizer: Tokenizer, text: str) -> None:
    """The properties that tokens.py promises."""
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    found = align(text, offsets)
    if not any(text[start:end].strip() for start, end in offsets):
        assert not found
        return
    assert [row for word in found.rows for row in word] == list(range(len(offsets)))
    assert all(found.rows)
    end, back, outside = 0, [], set(range(len(text)))
    for start, stop in found.spans:
        assert end <= start < stop <= len(text)
        assert text[start:stop].split() == [text[start:stop]]  # no whitespace
        back += [text[end:start], text[start:stop]]
        outside.difference_update(range(start, stop))
        end = stop
    assert "".join(back) + text[end:] == text
    # What is outside of words stems from no token that begins there.
    begins = {stop - len(text[start:stop].lstrip()) for start, stop in offsets if text[start:stop].strip()}
    assert not begins & outside


@tokenizers
@given(text=texts)
@example(text="a\x0bb")  # BERT joins what a control character parts, though Python calls it whitespace
@example(text="  two  spaces\n\n")
@example(text="".join(SPICES))
def test_any_text_makes_the_round_trip(tokenizer: Tokenizer, text: str) -> None:
    assert_round_trip(tokenizer, text)


@pytest.mark.slow
@needs_reviews
@pytest.mark.parametrize("name", MADE)
def test_a_thousand_reviews_make_the_round_trip_plain_and_spiced(name: str) -> None:
    """Each review with two of the six tokenizers: what differs is the tokenizer, and reviews are alike."""
    assert len(raw_reviews()) == 1000
    tokenizer, texts = MADE[name], raw_reviews()[list(MADE).index(name) % 3 :: 3]
    assert sum("<br />" in text for text in texts) > 100
    draw = random.Random(0)
    for number, text in enumerate(texts):
        assert_round_trip(tokenizer, text)
        if number % 10 == 0:
            pieces = text.split(" ")[:80]
            for spice in SPICES:
                pieces.insert(draw.randrange(len(pieces)), spice)
            assert_round_trip(tokenizer, draw.choice((" ", "")).join(pieces))


@needs_minilm
@needs_reviews
def test_words_of_reviews_are_the_words_of_bert(minilm: Encoder) -> None:
    for text in raw_reviews()[:200]:
        found = minilm.tokenizer.encode(text, add_special_tokens=False)
        if not any(letter in text for letter in "\x85\xa0"):  # BERT drops some whitespace without parting words there
            assert align(text, found.offsets).rows == minilm.rows_of_words(found.tokens)


@lru_cache
def raw_reviews() -> list[str]:
    """A thousand reviews as they are published, breaks and all."""
    table = pd.read_csv(next(REVIEWS.folder().rglob("*.csv*")))
    return table.loc[table["source"] == "imdb", "text"].head(1000).tolist()


# What a word is -----------------------------------------------------------------------------------------------------


def spelt(tokenizer: Tokenizer, text: str) -> list[str]:
    found = align(text, tokenizer.encode(text, add_special_tokens=False).offsets)
    return [text[start:end] for start, end in found.spans]


@tokenizers
def test_words_are_those_of_a_reader(tokenizer: Tokenizer) -> None:
    assert spelt(tokenizer, " Café  unhappily,\n😀 good ") == ["Café", "unhappily", ",", "😀", "good"]


def test_the_pieces_of_a_word_are_its_rows_whatever_they_are_called() -> None:
    for tokenizer in MADE.values():
        text = "so unhappily 👩‍👩‍👧 unhappily"
        found = tokenizer.encode(text, add_special_tokens=False)
        aligned = align(text, found.offsets)
        assert [text[slice(*span)] for span in aligned.spans] == text.split()
        assert len(aligned.rows[1]) == len(aligned.rows[3])


def test_what_one_token_covers_is_one_word() -> None:
    assert align("wasn't", [(0, 4), (4, 6)]).spans == ((0, 4), (4, 6))
    assert align("...!", [(0, 3), (3, 4)]).spans == ((0, 3), (3, 4))
    assert align("漢字", [(0, 2)]).spans == ((0, 2),)


def test_whitespace_goes_with_the_next_word_and_at_the_end_with_the_last() -> None:
    assert align("a  b \n", [(0, 1), (1, 2), (2, 4), (4, 6)]).rows == ((0,), (1, 2, 3))
    assert align(" a", [(0, 1), (0, 0), (1, 2)]).rows == ((0, 1, 2),)


def test_a_token_across_whitespace_belongs_to_the_word_it_begins_in() -> None:
    found = align("of the film", [(0, 6), (7, 11)])
    assert (found.spans, found.rows) == (((0, 2), (7, 11)), ((0,), (1,)))


def test_offsets_that_go_back_stay_with_the_word_before() -> None:
    assert align("ab cd", [(3, 5), (0, 2)]).rows == ((0, 1),)


# Contexts -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    write_model(folder, "gpt2")
    return Encoder.load(folder)


@pytest.mark.parametrize("special", [True, False])
def test_a_context_knows_its_text_spans_special_words_and_encoder(tiny: Encoder, special: bool) -> None:
    text = "Not unhappy,<br />\n film"
    found = tiny.encode(text, special=special)
    assert found.text == text
    assert found.encoder is tiny
    spans = [span for span in found.spans if span is not None]
    assert [text[start:end] for start, end in spans] == ["Not", "unhappy", ",", "<", "br", "/", ">", "film"]
    assert [word for word, added in zip(found.words, found.special, strict=True) if added] == (
        ["[CLS]", "[SEP]"] if special else []
    )
    assert [span is None for span in found.spans] == list(found.special)


def test_by_token_every_token_is_a_word(tiny: Encoder) -> None:
    found = tiny.encode("Not unhappy")
    tokens = found.by_token()
    assert tokens.words == found.tokens == ("[CLS]", "not", "un", "##happ", "##y", "[SEP]")
    assert tokens.rows == tuple((row,) for row in range(6))
    assert tokens.special == (True, False, False, False, False, True)
    assert torch.equal(tokens.X, found.X)
    assert tokens.text == found.text


# Odd texts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000", "\x00\x01\x7f", "\u200b\u200d\ufeff", "\x85 \x1c"])
def test_texts_in_which_nothing_can_be_seen_are_refused(tiny: Encoder, gpt2: Encoder, text: str) -> None:
    for encoder in (tiny, gpt2):
        with pytest.raises(TextError, match="at least one word") as caught:
            encoder.encode(text)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 10_000,
        "😀" * 5_000,
        pytest.param("good " * 100_000, marks=pytest.mark.slow),
        pytest.param("." * 100_000, marks=pytest.mark.slow),
        "é" * 10_000,
        " " * 100_000 + "good",
    ],
)
def test_long_texts_give_a_result_or_one_line_that_says_what_to_do(tiny: Encoder, gpt2: Encoder, text: str) -> None:
    for encoder in (tiny, gpt2):
        started = time.monotonic()
        fits = len(encoder.tokenizer.encode(text).ids) <= encoder.longest
        with nullcontext() if fits else pytest.raises(RangeError, match="shorten the text, or cut it with Encoder"):
            encoder.encode(text)
        assert time.monotonic() - started < 60  # work that grows with the square would take minutes


def test_only_emoji_are_words(tiny: Encoder, gpt2: Encoder) -> None:
    for encoder in (tiny, gpt2):
        assert encoder.encode("😀 👍🏽", special=False).words == ("😀", "👍🏽")


def test_no_padding_row_enters(tiny: Encoder, gpt2: Encoder) -> None:
    for encoder in (tiny, gpt2):
        assert encoder.encode("film").tokens == tuple(encoder.tokenizer.encode("film").tokens)


# Windows ------------------------------------------------------------------------------------------------------------


@given(
    words=st.lists(st.sampled_from(["good", "unhappily", "not", ",", "漢"]), min_size=1, max_size=60),
    size=st.integers(6, 24),
    stride=st.none() | st.integers(1, 30),
    special=st.booleans(),
)
def test_windows_cover_every_word_and_hold_the_tokens_of_the_text(
    tiny: Encoder, words: list[str], size: int, stride: int | None, special: bool
) -> None:
    text = "  ".join(words)
    ids = tiny.tokenizer.encode(text, add_special_tokens=False)
    whole = align(text, ids.offsets)
    found = tiny.windows(text, size=size, stride=stride, special=special)
    covered: list[int] = []
    for number, window in enumerate(found):
        assert window.n <= size
        assert window.text == text
        assert (window.source["window"], window.source["windows"]) == (number, len(found))
        spans = [span for span in window.spans if span is not None]
        first = window.source["first_word"]
        assert tuple(spans) == whole.spans[first : first + len(spans)]
        assert [text[slice(*span)] for span in spans] == [
            word for word, added in zip(window.words, window.special, strict=True) if not added
        ]
        covered += range(first, first + len(spans))
        rows = [row for word in whole.rows[first : first + len(spans)] for row in word]
        inside = [ids.ids[row] for row in rows]
        around = tiny.ends if special else ()
        assert torch.equal(window.X, tiny.embed(torch.tensor([*around[:1], *inside, *around[1:]])))
    assert set(covered) == set(range(len(whole)))
    if stride is None:
        assert covered == list(range(len(whole)))


def test_a_text_that_fits_is_one_window(tiny: Encoder) -> None:
    (window,) = tiny.windows("good film")
    assert torch.equal(window.X, tiny.encode("good film").X)


def test_windows_that_cannot_be_are_refused(tiny: Encoder) -> None:
    for options in ({"size": 2}, {"size": 25}, {"size": 0}, {"stride": 0}):
        with pytest.raises(RangeError, match="expected size from 3 to 24 tokens and stride of at least 1"):
            tiny.windows("good", **options)
    with pytest.raises(RangeError, match="words of at most 2 tokens, got 3 in the one at character 5"):
        tiny.windows("good unhappy", size=4)


@pytest.mark.slow
def test_a_hundred_thousand_words_are_cut_into_windows(tiny: Encoder) -> None:
    found = tiny.windows("good " * 100_000, d=2)
    assert sum(window.n - 2 for window in found) == 100_000


def test_windows_that_cannot_fit_are_refused_before_they_are_made(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oneword.memory.physical_memory", lambda: 1000)
    with pytest.raises(MemoryLimitError, match="5 windows of 24 tokens"):
        tiny.windows("good " * 100)
