"""Sets of words: what is in them, and what every one of them does."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

import oneword as ow
from oneword.errors import DTypeError, RangeError, ShapeError, TextError, UnknownNameError, ZeroNormError
from tests.text.tiny_models import write_model

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
    assert "from 23,695 words" in " ".join(shown.split())
    assert "1 word of the text has no candidates: 'unbelievably' at 6" in " ".join(shown.split())
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
        ow.sensitivity(phi, text, certify=False, search="quick").quantile(1, "hate")
    with pytest.raises(RangeError, match="Vocabulary"):
        ow.sensitivity(phi, text, within="words")


# Words with two forms -----------------------------------------------------------------------------------------------

MARKED = ["roberta", "xlm-roberta", "gpt2", "llama", "mistral"]


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory):
    """Small encoders whose tokens hold the space before a word."""
    made = {}

    def load(kind: str) -> ow.Encoder:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            write_model(folder, kind)
            made[kind] = ow.Encoder.load(folder)
        return made[kind]

    return load


@pytest.mark.parametrize("kind", [*MARKED, "bert"])
def test_a_word_replaced_by_itself_changes_nothing_wherever_it_stands(marked, kind):
    text = marked(kind).encode('not bad (film) and "love" it, not awful')
    words = [word for word, special in zip(text.words, text.special, strict=True) if not special]
    own = ow.Words.of(text.encoder, words)
    s = ow.sensitivity(ow.AttentionFeatures.draw(text.d, seed=0), text, within=own)
    known = [i for i, word in enumerate(text.words) if word.isalpha() and not text.special[i]]
    assert len(known) == 8
    for i in known:
        assert s.of(i, text.words[i]) < 1e-7, text.words[i]
        assert s.quantile(i, text.words[i]) <= 1


@pytest.mark.parametrize("kind", MARKED)
def test_each_form_is_that_of_the_text_written_anew(marked, kind):
    encoder = marked(kind)
    phi = ow.AttentionFeatures.draw(encoder.d, seed=0)
    pattern = "bad (film) was bad"
    text = encoder.encode(pattern)
    own = ow.Words.of(encoder, ["it", "her", "film", "love", "bad", "not", "un"])
    s = ow.sensitivity(phi, text, within=own)
    compared = 0
    for i, span in enumerate(text.spans):
        if span is None or i not in s.substitutions.names:
            continue
        for word in s.substitutions.names[i]:
            other = encoder.encode(pattern[: span[0]] + word + pattern[span[1] :])
            if other.X.shape != text.X.shape:  # as "film" after "(" in another vocabulary than this word's
                continue
            before, after = phi(text.X), phi(other.X)
            assert s.of(i, word) == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-6, abs=1e-7)
            compared += 1
    assert compared >= 4


@pytest.mark.parametrize("kind", MARKED)
def test_a_vocabulary_without_a_space_before_it_has_tokens_without_the_mark(marked, kind):
    encoder = marked(kind)
    whole = ow.Vocabulary.of(encoder)
    assert all(not encoder.is_attached(token) for token in encoder.tokens_of(whole.ids[1][:, 0]))
    assert all(encoder.is_attached(token) for token in encoder.tokens_of(whole.attached.ids[1][:, 0]))
    text = encoder.encode("film (I) it, a")
    s = ow.sensitivity(ow.AttentionFeatures.draw(text.d, seed=0), text, within=whole)
    assert s.of(text.words.index("I"), "I") < 1e-7
    assert s.of(text.words.index(","), ",") < 1e-7
    assert s.substitutions.names[text.words.index("I")] == whole.attached.names[1]
    assert f"({whole.attached.count:,} where no space precedes)" in s.certificate
    tokens = ow.sensitivity(ow.AttentionFeatures.draw(text.d, seed=0), text.by_token(), within=whole)
    assert tokens.of(text.rows[text.words.index("I")][0], "I") < 1e-7


def test_two_forms_come_back_from_a_file(marked, tmp_path):
    text = marked("gpt2").encode("film (I) it, a")
    s = ow.sensitivity(ow.AttentionFeatures.draw(text.d, seed=0), text, within=ow.Vocabulary.of(text.encoder))
    back = ow.Sensitivity.load(s.save(tmp_path / "s.json"))
    assert dict(back.substitutions.names) == dict(s.substitutions.names)
    assert len(set(map(len, back.substitutions.names.values()))) == 2
    for i in s.substitutions.names:
        assert back.replacements(i).equals(s.replacements(i))
    assert len(s.substitutions.to_dict()["names"]) == 2  # each list once


def test_bert_words_have_one_form(text):
    assert ow.Vocabulary.of(text.encoder).attached is None
    assert ow.Words.of(text.encoder, ["hate"]).attached is None


# What is not known, not there or not right --------------------------------------------------------------------------


def one_line(error: type[Exception], match: str, act: Callable[[], object]) -> None:
    with pytest.raises(error, match=match) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_special_tokens_are_no_words(text):
    own = ow.Words.of(text.encoder, ["good", "[MASK]", "[CLS]"])
    assert own.unknown == ("[MASK]", "[CLS]")
    one_line(RangeError, "got none of 1: give others", lambda: ow.Words.of(text.encoder, ["[MASK]"]))


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert"])
def test_unknown_words_of_a_unigram_are_named(marked, kind):
    assert ow.Words.of(marked(kind), ["her", "漢", "q☃"]).unknown == ("漢", "q☃")


def test_a_word_whose_vector_is_zero_is_left_out(tmp_path):
    path = tmp_path / "zero.vec"
    path.write_text("the 1 0 2\nnil 0 0 0\nfilm 0 1 1\ngood 0 0 3\n")
    encoder = ow.Encoder.load(path)
    text = encoder.encode("the film")
    assert ow.Vocabulary.of(encoder).names[1] == ("the", "film", "good")
    own = ow.Words.of(encoder, ["good", "nil"])
    assert (own.names[1], own.unknown) == (("good",), ("nil",))
    s = ow.sensitivity(ow.AttentionFeatures.draw(3, seed=0), text, within=ow.Vocabulary.of(encoder))
    assert s.of(0, "the") < 1e-12
    one_line(ZeroNormError, "got 0 for 'nil' in all coordinates: leave this word out", lambda: encoder.encode("nil"))
    one_line(
        ZeroNormError, "got 0 for 'good' in the first 2 coordinates: take", lambda: encoder.encode("the good", d=2)
    )


def test_several_threads_may_ask_one_set_of_words(text):
    own = ow.Words.of(text.encoder, ["hate", "adore", "the"])
    own._made.clear()
    places = [torch.tensor([i]) for i in range(1, 6)]
    truth = [own.affine(place, text.d, torch.float64).c for place in places]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: own.affine(places[k % 5], text.d, torch.float64).c, range(400)))
    assert all(torch.equal(c, truth[k % 5]) for k, c in enumerate(found))


def test_a_text_cut_by_hand_is_refused(text, phi):
    within = ow.Words.of(text.encoder, ["hate"])

    def part(first: int, last: int) -> ow.Context:
        own = slice(first, last)
        return ow.Context(text.X[own], text.words[own], tokens=text.tokens[own], encoder=text.encoder)

    one_line(RangeError, "got another one for 'I' in row 0: encode the text anew", lambda: within.check(part(1, 4)))
    one_line(RangeError, "row 0", lambda: within.check(replace(part(1, 4), tokens=("x", "y", "z"))))
    one_line(RangeError, "row 0", lambda: ow.sensitivity(phi, part(1, 4), within=within))
    within.check(replace(part(1, 4), encoder=None))
    # What stays at its place, or is rounded only, is right.
    within.check(part(0, 4))
    within.check(replace(text, X=text.X.float()))
    within.check(text.by_token())
    for window in text.encoder.windows(TEXT * 3, size=7):
        within.check(window)


def test_a_table_may_be_an_array_or_lists():
    table = ow.gaussian(3, 4, seed=0).X
    for given in (table, table.numpy(), table.tolist(), table.numpy()[::-1][::-1], table.numpy().astype(">f8")):
        assert torch.equal(ow.Vectors.of(given).vectors, table)
    assert ow.Vectors.of([[1, 0], [0, 1]]).vectors.dtype == torch.float64
    frozen = table.numpy().copy()
    frozen.flags.writeable = False
    assert torch.equal(ow.Vectors.of(frozen).vectors, table)


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (ShapeError, "ragged", ([[1.0], [1.0, 2.0]],)),
        (ShapeError, r"\(words, d\), got \(2,\)", ([1.0, 2.0],)),
        (DTypeError, "floating point, got object", (None,)),
        (DTypeError, "floating point, got <U1", ([["a"]],)),
        (DTypeError, "floating point, got int64", (np.ones((2, 2), dtype=np.int64),)),
        (ShapeError, "got 1 names", ([[1.0], [2.0]], ["a"])),
        (RangeError, "differ, got 'a' more than once", ([[1.0], [2.0]], ["a", "a"])),
        (TextError, "list of words, got the string 'ab'", ([[1.0], [2.0]], "ab")),
        (TextError, "words as strings, got 1", ([[1.0], [2.0]], [1, 2])),
    ],
)
def test_what_is_no_table_is_refused(error, match, arguments):
    one_line(error, match, lambda: ow.Vectors.of(*arguments))


@pytest.mark.parametrize("given", ["good", 3, [1], [["a"]], [None]])
def test_what_is_no_list_of_words_is_refused(text, given):
    one_line(TextError, "expected (a list of words|words as strings), got", lambda: ow.Words.of(text.encoder, given))
    one_line(
        TextError,
        "expected (a list of words|words as strings), got",
        lambda: ow.Vocabulary.of(text.encoder, among=given),
    )


def test_questions_that_make_no_sense_are_refused(text, phi, all_words):
    one_line(TextError, "list of words, got None", lambda: ow.Words.of(text.encoder, None))
    for word in (None, ["good"], 3):
        one_line(TextError, "one word as a string, got", lambda word=word: all_words.of(1, word))
        one_line(TextError, "one word as a string, got", lambda word=word: all_words.quantile(1, word))
    for top in ("3", 2.5, -1, None):
        one_line(RangeError, "how many words to list", lambda top=top: all_words.replacements(1, top=top))
    for position in ("1", [1], None, 99):
        one_line(RangeError, "position that was searched", lambda position=position: all_words.of(position, "good"))
    one_line(RangeError, "Vocabulary .also Words, Vectors", lambda: ow.sensitivity(phi, text, within="words"))
    assert len(all_words.replacements(np.int64(1), top=np.int64(3))) == 3
