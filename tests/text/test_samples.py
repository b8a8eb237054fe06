"""Samples: balanced, without duplicates, the same whenever asked, and made of the tokens of the texts they name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from oneword import AttentionFeatures, Vocabulary, sensitivity
from oneword.errors import RangeError, TextError, UnknownNameError
from oneword.text.corpora import Corpus
from oneword.text.encoders import Encoder
from oneword.text.samples import Sample, TokenisedCorpus
from tests.text.tiny_bert import VOCABULARY, needs_minilm, needs_reviews, tiny_weights, write_tiny

CLS, PAD = VOCABULARY.index("[CLS]"), VOCABULARY.index("[PAD]")

# Few words and short texts: many coincide after truncation, some with different labels.
NO_TOKEN = "\x07"  # a text of which the tokenizer leaves nothing
short_texts = st.lists(st.sampled_from(["good", "bad", "unhappy", "!"]), min_size=0, max_size=6).map(
    lambda words: " ".join(words) or NO_TOKEN
)
reviews = st.lists(st.tuples(short_texts, st.sampled_from([1, -1])), min_size=1, max_size=40)


def corpus_of(reviews: list[tuple[str, int]]) -> Corpus:
    return Corpus.of([text for text, _ in reviews], [label for _, label in reviews])


def truncated(encoder: Encoder, text: str, n: int) -> tuple[int, ...]:
    """The plain truth: [CLS] and the first n − 1 tokens."""
    return (CLS, *encoder.tokenizer.encode(text, add_special_tokens=False).ids[: n - 1])


def sampled(tokens: TokenisedCorpus, n: int, **options: object) -> Sample | None:
    """The largest sample that can be had."""
    for count in range(len(tokens), 0, -1):
        try:
            return tokens.sample(count, n, **options)
        except RangeError:
            continue
    return None


def same(left: Sample, right: Sample) -> bool:
    assert left.labels is not None
    assert right.labels is not None
    return (
        torch.equal(left.ids, right.ids)
        and torch.equal(left.labels, right.labels)
        and torch.equal(left.indices, right.indices)
        and left.dropped == right.dropped
    )


# Tokens -------------------------------------------------------------------------------------------------------------


@given(reviews=reviews)
def test_tokens_are_those_of_each_text_alone(tiny: Encoder, reviews: list[tuple[str, int]]) -> None:
    tokens = corpus_of(reviews).tokens(tiny)
    assert len(tokens) == len(reviews)
    for j, (text, label) in enumerate(reviews):
        ids = tokens.ids[tokens.offsets[j] : tokens.offsets[j + 1]]
        assert (CLS, *ids.tolist()) == truncated(tiny, text, 999)
        assert tokens.lengths[j] == len(ids) + 1
        assert tokens.labels is not None
        assert tokens.labels[j] == label
    assert tokens.ids.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        tokens.offsets[0] = 1


def test_another_tokenizer_is_another_entry_of_the_cache(tiny: Encoder, tmp_path) -> None:
    from tokenizers import normalizers

    folder = write_tiny(tmp_path / "cased")
    tokenizer = tiny.tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    cased = Encoder.load(str(folder))
    corpus = Corpus.of(["Good film"])
    assert corpus.tokens(tiny).ids.tolist() != corpus.tokens(cased).ids.tolist()
    # Other weights with the same tokenizer share it.
    twin = Encoder.load(str(write_tiny(tmp_path / "twin", {k: 2 * v for k, v in tiny_weights().items()})))
    assert twin.tokenizer_key == tiny.tokenizer_key != cased.tokenizer_key


# Samples ------------------------------------------------------------------------------------------------------------

lengths, seeds = st.integers(2, 8), st.integers(0, 99)


@given(reviews=reviews, n=lengths, seed=seeds, trial=st.integers(0, 9), pad=st.booleans())
def test_a_sample_is_balanced_distinct_and_made_of_the_texts_it_names(
    tiny: Encoder, reviews: list[tuple[str, int]], n: int, seed: int, trial: int, pad: bool
) -> None:
    tokens = corpus_of(reviews).tokens(tiny)
    sample = sampled(tokens, n, seed=seed, trial=trial, pad=pad)
    able = [j for j, (text, _) in enumerate(reviews) if len(truncated(tiny, text, 999)) >= (2 if pad else n)]
    distinct: dict[tuple[int, ...], set[int]] = {}
    for j in able:
        distinct.setdefault(truncated(tiny, reviews[j][0], n), set()).add(reviews[j][1])
    if sample is None:  # then one of the labels may be gone with the duplicates
        assert {label for labels in distinct.values() if len(labels) == 1 for label in labels} != {1, -1}
        return
    assert sample.labels is not None
    for j, ids, label in zip(sample.indices.tolist(), sample.ids.tolist(), sample.labels.tolist(), strict=True):
        assert j in able
        assert label == reviews[j][1]
        truth = truncated(tiny, reviews[j][0], n)
        assert tuple(ids) == truth + (PAD,) * (n - len(truth))
    assert len({tuple(row) for row in sample.ids.tolist()}) == len(sample)
    assert sample.dropped == len(able) - len(distinct)
    assert (sample.labels[1:] == -sample.labels[:-1]).all()  # so every even stretch is balanced
    assert same(sample, tokens.sample(len(sample), n, seed=seed, trial=trial, pad=pad))


@given(reviews=reviews, n=lengths, seed=seeds)
def test_a_smaller_sample_is_the_beginning_of_a_larger_one(
    tiny: Encoder, reviews: list[tuple[str, int]], n: int, seed: int
) -> None:
    tokens = corpus_of(reviews).tokens(tiny)
    largest = sampled(tokens, n, seed=seed)
    assume(largest is not None)
    assert largest is not None
    for count in range(1, len(largest)):
        smaller = tokens.sample(count, n, seed=seed)
        assert torch.equal(smaller.ids, largest.ids[:count])
        assert torch.equal(smaller.indices, largest.indices[:count])


@pytest.fixture
def many(tiny: Encoder) -> TokenisedCorpus:
    """200 different texts of 8 tokens, labels in turn."""
    kinds = ("good", "bad")
    texts = [" ".join(kinds[j >> bit & 1] for bit in range(8)) for j in range(200)]
    return Corpus.of(texts, [1 - 2 * (j % 2) for j in range(200)]).tokens(tiny)


def test_seeds_trials_and_lengths_draw_different_samples(many: TokenisedCorpus) -> None:
    drawn = [
        tuple(many.sample(20, n, seed=seed, trial=trial, exclude_duplicates=False).indices.tolist())
        for n in (8, 9)
        for seed in (0, 1)
        for trial in (0, 1)
    ]
    assert len(set(drawn)) == len(drawn)
    # A sample of 1 is of either label now and then: 20 of one kind have probability 2^-19.
    assert len({int(many.sample(1, 9, seed=seed).labels[0]) for seed in range(20)}) == 2


def test_every_text_is_drawn_as_often_as_any_other(many: TokenisedCorpus) -> None:
    times = np.zeros(200)
    for trial in range(300):
        times[many.sample(50, 9, seed=0, trial=trial).indices] += 1
    # Binomial with 300 draws of probability 1/4: 75 ± 7.5; 200 texts stay within 5 standard deviations.
    assert abs(times - 75).max() <= 5 * 7.5


def test_texts_that_coincide_count_as_one_whatever_their_labels(tiny: Encoder) -> None:
    tokens = Corpus.of(["good film", "good film", "bad film", "a film"], [1, -1, -1, 1]).tokens(tiny)
    sample = tokens.sample(2, 3, seed=0)
    assert sample.dropped == 1
    assert len({tuple(row) for row in sample.ids.tolist()}) == 2
    both = tokens.sample(4, 3, seed=0, exclude_duplicates=False)
    assert (sorted(both.indices.tolist()), both.dropped) == ([0, 1, 2, 3], 0)
    kept = {int(j) for seed in range(20) for j in tokens.sample(2, 3, seed=seed).indices}
    assert kept == {0, 1, 2, 3}  # the first in the shuffled order stays, not the first of the file


def test_texts_without_labels_are_sampled_without_balance(tiny: Encoder) -> None:
    tokens = Corpus.of(["good film", "bad film", "the film", "good"]).tokens(tiny)
    sample = tokens.sample(3, 3, seed=0)
    assert sample.labels is None
    assert sorted(sample.indices.tolist()) == [0, 1, 2]
    assert sample.context(0, tiny).label is None
    with pytest.raises(RangeError, match="at least 4 different texts of at least 3 tokens, got 3: take fewer"):
        tokens.sample(4, 3, seed=0)


def test_too_few_texts_are_counted_by_label(tiny: Encoder) -> None:
    tokens = Corpus.of(["good film"] * 5 + ["bad film"], [1] * 5 + [-1]).tokens(tiny)
    with pytest.raises(RangeError, match=r"at least 2 different texts of at least 3 tokens with label [+-]1, got 1"):
        tokens.sample(4, 3, seed=0)
    with pytest.raises(RangeError, match=r"at least 1 different texts of at least 99 tokens .* got 0"):
        tokens.sample(2, 99, seed=0)


@pytest.mark.parametrize(("count", "n"), [(0, 5), (3, 1), (-1, 5), (3, 0)])
def test_sizes_that_are_no_sample_are_refused(many: TokenisedCorpus, count: int, n: int) -> None:
    with pytest.raises(RangeError, match=f"got count = {count}, n = {n}"):
        many.sample(count, n, seed=0)


# Contexts -----------------------------------------------------------------------------------------------------------


def test_a_text_of_a_sample_by_tokens_and_by_words(tiny: Encoder) -> None:
    tokens = Corpus.of(["Unhappy, not good film"], [-1], name="mine").tokens(tiny)
    sample = next(s for seed in range(20) if (s := _or_none(lambda seed=seed: tokens.sample(1, 6, seed=seed))))
    by_token, by_word = sample.context(0, tiny, d=4), sample.context(0, tiny, d=4, by="word")
    assert by_token.tokens == by_word.tokens == ("[CLS]", "un", "##happ", "##y", ",", "not")
    assert by_token.rows == tuple((row,) for row in range(6))
    assert (by_word.words, by_word.rows) == (("[CLS]", "unhappy", ",", "not"), ((0,), (1, 2, 3), (4,), (5,)))
    assert torch.equal(by_token.X, tiny.embed(sample.ids, d=4)[0])
    assert sample.context(0, tiny, dtype=torch.float32).X.dtype == torch.float32
    assert by_token.label == -1
    expected = {"text": "sampled", "corpus": "mine", "index": 0, "encoder": "tiny", "layer": 0, "trial": 0}
    assert expected.items() <= dict(by_token.source).items()
    with pytest.raises(UnknownNameError, match="by='token' or by='word'"):
        sample.context(0, tiny, by="letter")


@pytest.mark.parametrize("by", ["token", "word"])
def test_padding_is_no_word_of_the_text(tiny: Encoder, by: str) -> None:
    tokens = Corpus.of(["Unhappy, not", "good film"]).tokens(tiny)
    sample = tokens.sample(2, 8, seed=0, pad=True)
    assert sorted(sample.lengths.tolist()) == [3, 6]
    for j, length in enumerate(sample.lengths.tolist()):
        text = sample.context(j, tiny, by=by)
        assert {row for word, rows in enumerate(text.rows) if text.special[word] for row in rows} == {
            0, *range(length, 8)
        }  # fmt: skip
        assert [row for rows in text.rows for row in rows] == list(range(8))
    whole = tokens.sample(1, 3, seed=0).context(0, tiny)
    assert whole.special == (True, False, False)


def test_padding_is_told_from_words_by_its_place(tmp_path: Path) -> None:
    """A table of vectors pads with its first word, which texts hold too."""
    (tmp_path / "a.vec").write_text("the 1 2\nfilm 2 1\n")
    encoder = Encoder.load(tmp_path / "a.vec")
    sample = Corpus.of(["film the"]).tokens(encoder).sample(1, 4, seed=0, pad=True)
    text = sample.context(0, encoder)
    assert (text.words, text.special) == (("film", "the", "the", "the"), (False, False, True, True))
    s = sensitivity(AttentionFeatures.draw(2, seed=0), text, within=Vocabulary.of(encoder))
    assert s.per_word["position"].tolist() == [0, 1]


@pytest.mark.parametrize("encoder", ["minilm", None, 3])
def test_what_is_no_encoder_is_refused(encoder: object) -> None:
    with pytest.raises(TextError, match=r"expected an encoder, got .*: load one with Encoder.load"):
        Corpus.of(["good"]).tokens(encoder)


def _or_none(act: Callable[[], Sample]) -> Sample | None:
    try:
        return act()
    except RangeError:  # the one text has the other label
        return None


@needs_minilm
def test_an_encoder_with_another_tokenizer_is_refused(many: TokenisedCorpus, minilm: Encoder) -> None:
    sample = many.sample(2, 5, seed=0, exclude_duplicates=False)
    with pytest.raises(RangeError, match="that the sample was tokenised with, got all-MiniLM-L6-v2"):
        sample.context(0, minilm)


# The embedded corpus ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_minilm
@needs_reviews
def test_the_embedded_reviews_have_the_duplicates_they_are_known_for(minilm: Encoder) -> None:
    tokens = Corpus.load().tokens(minilm)
    sample = tokens.sample(1000, 40, seed=0)
    assert (len(tokens), sample.dropped) == (25_000, 111)
    assert sample.labels is not None
    assert int(sample.labels.sum()) == 0
    assert (sample.ids[:, 0] == minilm.ends[0]).all()
    assert not ((sample.ids == minilm.pad) | (sample.ids == minilm.ends[1])).any()
    j = int(sample.indices[3])
    assert sample.context(3, minilm).n == 40
    assert minilm.encode(tokens.corpus.texts[j][:100]).tokens[:10] == sample.context(3, minilm).tokens[:10]
