"""Sets of words: what is in them, and what every one of them does."""

import itertools

import numpy as np
import pytest
import torch

import oneword as ow
from oneword.errors import RangeError, ShapeError, TextError, UnknownNameError

TEXT = "I love her much, unbelievably so"


@pytest.fixture(scope="module")
def text() -> ow.Context:
    return ow.encode(TEXT)


@pytest.fixture(scope="module")
def phi(text: ow.Context) -> ow.AttentionFeatures:
    return ow.AttentionFeatures.draw(text.d, seed=0)


@pytest.fixture(scope="module")
def all_words(text: ow.Context, phi: ow.AttentionFeatures) -> ow.Sensitivity:
    return ow.sensitivity(phi, text, within=ow.Vocabulary.of(text.encoder))


def plainly(phi: ow.AttentionFeatures, text: ow.Context, position: int, word: str) -> float:
    """The text written anew with another word, encoded and mapped from the start."""
    words = [w for w, special in zip(text.words, text.special, strict=True) if not special]
    words[position - 1] = word
    other = text.encoder.encode(" ".join(words))
    assert other.X.shape == text.X.shape
    before, after = phi(text.X), phi(other.X)
    return float((after - before).norm() / before.norm())


def test_each_value_is_that_of_the_text_written_anew(text, phi, all_words):
    for position, word in itertools.product((1, 2, 7), ("hate", "the", "thumb", "2007")):
        assert all_words.of(position, word) == pytest.approx(plainly(phi, text, position, word), rel=1e-9)


def test_a_word_replaced_by_itself_changes_nothing(all_words):
    assert all_words.of(2, "love") < 1e-12
    assert all_words.quantile(2, "love") == pytest.approx(1 / 23_695, rel=1e-3)


def test_the_best_replacement_is_the_largest_of_all(text, all_words):
    table = all_words.per_word.set_index("position")
    assert all_words.kind == "exact"
    assert all_words.value == all_words.upper == table["value"].max()
    assert all_words.replacement == table["replacement"][all_words.position]
    for position in (1, 2, 3, 4):
        top = all_words.replacements(position, top=3)
        assert top["value"].is_monotonic_decreasing
        assert top["value"][0] == table["value"][position]
        assert all_words.quantile(position, top["replacement"][0]) == 1.0
        assert top["distance"][0] == pytest.approx(table["distance"][position])


def test_the_change_that_is_reported_attains_the_value(text, phi, all_words):
    X = text.X.clone()
    X[list(all_words.rows)] += all_words.delta
    change = (phi(X) - phi(text.X)).norm() / phi(text.X).norm()
    assert float(change) == pytest.approx(all_words.value, rel=1e-9)


def test_special_tokens_and_words_of_several_tokens_are_not_replaced_by_single_tokens(text, all_words):
    table = all_words.per_word.set_index("word")
    assert "[CLS]" not in table.index
    assert len(table["rows"]["unbelievably"]) > 1
    assert np.isnan(table["value"]["unbelievably"])
    assert table["replacement"]["unbelievably"] is None


def test_a_word_of_m_tokens_is_replaced_by_words_of_m_tokens(text, phi):
    own = ow.Words.of(text.encoder, ["hate", "unbelievably", "hate", "unspeakably"])
    assert sum(map(len, own.names.values())) == 3
    s = ow.sensitivity(phi, text, within=own)
    position = text.words.index("unbelievably")
    assert s.of(position, "unbelievably") < 1e-12
    assert s.of(2, "hate") == pytest.approx(plainly(phi, text, 2, "hate"), rel=1e-9)
    with pytest.raises(UnknownNameError, match="words of 1 token"):
        s.of(2, "unbelievably")


def test_every_map_that_can_be_changed_at_one_row_can_be_searched(text):
    own = ow.Words.of(text.encoder, ["hate", "adore", "the"])
    maps = [
        ow.AttentionFeatures.draw(text.d, seed=0, score="relu-unnormalised"),
        ow.RandomFeatures.draw(text.n, text.d, k=50, seed=0),
        ow.ModuleFeatures(lambda X: X.square().sum(1)),
    ]
    for phi in maps:
        s = ow.sensitivity(phi, text, within=own, positions=[2])
        X = text.X.clone()
        X[2] = text.encoder.embed(own.ids[1][:1, 0], positions=torch.tensor([2]))[0]
        before, after = phi(text.X), phi(X)
        assert s.of(2, "hate") == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-9)


def test_filters():
    encoder = ow.Encoder.load()
    everything, letters = ow.Vocabulary.of(encoder), ow.Vocabulary.of(encoder, letters=True)
    assert all(name.isalpha() for name in letters.names[1])
    assert set(letters.names[1]) < set(everything.names[1])
    assert not any(name.startswith("##") or name.startswith("[unused") for name in everything.names[1])
    among = ow.Vocabulary.of(encoder, among=["Good ", "bad", "no-such-word"])
    assert sorted(among.names[1]) == ["bad", "good"]
    assert "letters only" in letters.describe()["shown"]
    with pytest.raises(RangeError, match="widen"):
        ow.Vocabulary.of(encoder, among=["no-such-word"])


def test_vectors_of_a_table_are_taken_as_they_are():
    text = ow.gaussian(6, 8, seed=0)
    table = ow.gaussian(20, 8, seed=1).X * 3
    phi = ow.AttentionFeatures.draw(8, seed=0)
    s = ow.sensitivity(phi, text, within=ow.Vectors.of(table))
    X = text.X.clone()
    X[4] = table[7]
    change = (phi(X) - phi(text.X)).norm() / phi(text.X).norm()
    assert s.of(4, "v7") == pytest.approx(float(change), rel=1e-9)
    assert s.replacements(4)["distance"].max() > 1


def test_a_result_over_words_comes_back_from_its_file(all_words, tmp_path):
    back = ow.Sensitivity.load(all_words.save(tmp_path / "s.json"))
    assert back.replacement == all_words.replacement
    assert back.quantile(2, "hate") == all_words.quantile(2, "hate")
    assert back.per_word["replacement"].tolist() == all_words.per_word["replacement"].tolist()
    assert back.replacements(3).equals(all_words.replacements(3))


def test_it_can_be_shown(all_words):
    from rich.console import Console

    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(all_words)
    shown = console.export_text()
    assert all_words.replacement in shown
    assert "all of 23,695 words" in shown
    assert "→" in all_words._repr_html_()
    assert all_words.plot() is not None


def test_wrong_sets_are_named(text, phi, all_words):
    encoder = text.encoder
    with pytest.raises(TextError, match="expected an encoder"):
        ow.Vocabulary.of(None)
    with pytest.raises(TextError, match="list of words"):
        ow.Words.of(encoder, "hate")
    with pytest.raises(RangeError, match="one word at a time"):
        ow.sensitivity(phi, text, within=ow.Vocabulary.of(encoder), words=2)
    with pytest.raises(RangeError, match="position that was searched"):
        all_words.of(0, "hate")
    with pytest.raises(UnknownNameError, match="did you mean"):
        all_words.of(2, "hatee")
    with pytest.raises(ShapeError, match="dimension"):
        ow.sensitivity(phi, text, within=ow.Vectors.of(torch.ones(3, 5)))
    with pytest.raises(RangeError, match="over vectors"):
        ow.sensitivity(phi, text, certify=False, search=ow.Ascent.quick()).quantile(1, "hate")
    with pytest.raises(RangeError, match="Vocabulary"):
        ow.sensitivity(phi, text, within="words")
