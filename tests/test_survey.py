"""A survey says of every word what the library says, once, and names what it left out."""

import math

import pytest
import torch

import oneword as ow
from oneword.bounds.certificate import Certify
from oneword.errors import RangeError, UnknownNameError
from oneword.sets.vocabulary import Vocabulary, Words
from oneword.survey.effort import Effort
from oneword.survey.question import Question
from oneword.survey.survey import survey
from oneword.text.encoders import Encoder
from tests.text.tiny_bert import LONGEST, write_tiny

TEXT = "not a good film , the bad film !"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return Encoder.load(str(write_tiny(tmp_path_factory.mktemp("models") / "tiny")))


@pytest.fixture(scope="module")
def question(tiny):
    return Question(("attention", "rf"), seeds=2, words=Vocabulary.of(tiny), top=2, dtype=torch.float64)


@pytest.fixture(scope="module")
def found(tiny, question):
    return survey([TEXT], tiny, question)


def test_there_is_one_line_a_word_map_and_seed(found):
    words = found.words
    assert len(words) == 9 * 2 * 2
    assert not words.duplicated(["text", "index", "map", "seed"]).any()
    assert [TEXT[line.start : line.end] for line in words.itertuples()] == list(words["word"])
    assert (words["S_ball"] <= words["upper"]).all()
    assert (words["S_word"] >= words["random_word"]).all()


def test_the_numbers_are_those_of_the_library(tiny, found):
    text = tiny.encode(TEXT)
    phi = ow.AttentionFeatures.draw(text.d, seed=1)
    exact = ow.sensitivity(phi, text, within=Vocabulary.of(tiny), positions=[3], baseline=0)
    line = found.words.query("map == 'attention' and seed == 1 and index == 3").iloc[0]
    assert line["position"] == 3
    assert line["S_word"] == pytest.approx(exact.value, rel=1e-12)
    assert line["replacement"] == exact.replacement
    assert line["kind"] == "exact"
    assert line["random_word"] == pytest.approx(exact.per_word["baseline"].iloc[0])
    ball = ow.sensitivity(phi, text, positions=[3], certify=Certify.plain())
    assert line["S_ball"] == pytest.approx(ball.value, rel=0.02)  # a shorter search
    assert line["upper"] == pytest.approx(ball.upper)
    far = torch.linalg.vector_norm(
        tiny.embed(tiny.whole_words, positions=torch.tensor(3)) - text.X[3], dim=1
    ) / math.sqrt(text.d)
    assert line["random_distance"] == pytest.approx(float(far.mean()))


def test_the_best_replacements_are_ranked(found):
    ranks = found.replacements
    assert set(ranks["rank"]) == {1, 2}
    first = ranks[ranks["rank"] == 1].merge(found.words, on=["text", "window", "position", "map", "seed"])
    assert (first["value"] == first["S_word"]).all()
    assert (first["replacement_x"] == first["replacement_y"]).all()


def test_only_the_persons_words_change_unless_asked_otherwise(tiny, found):
    special = {"[CLS]", "[SEP]"}
    assert not special & set(found.words["word"])
    also = survey([TEXT], tiny, Question(("attention",), seeds=1, special=True))
    assert special < set(also.words["word"])
    assert list(also.words["index"]) == list(range(len(also.words)))


def test_windows_cover_every_word_once(tiny):
    text = " ".join([TEXT] * 12)
    found = survey([text], tiny, Question(("attention",), seeds=1, window=11))
    assert list(found.words["index"]) == list(range(1, 1 + 9 * 12))
    assert list(found.words["word"]) == text.split()
    assert found.words["n"].max() <= 11
    assert any("windows of at most 11" in note for note in found.notes)
    longest = survey([text], tiny, Question(("attention",), seeds=1))
    assert longest.words["n"].max() <= LONGEST


def test_a_word_of_several_tokens_has_a_counterpart_only_in_a_list_of_ones_own(tiny):
    text = "not happy film"
    alone = survey([text], tiny, Question(("attention",), seeds=1, words=Vocabulary.of(tiny)))
    assert list(alone.words["tokens"]) == [1, 2, 1]
    assert list(alone.words["S_word"].isna()) == [False, True, False]
    assert any("has no candidates: 'happy'" in note for note in alone.notes)
    own = survey([text], tiny, Question(("attention",), seeds=1, words=Words.of(tiny, ["happly", "good"])))
    assert list(own.words["replacement"]) == ["good", "happly", "good"]


def test_tokens_may_be_words(tiny):
    found = survey(["not happy film"], tiny, Question(("attention",), seeds=1, per_token=True))
    assert list(found.words["word"]) == ["not", "happ", "##y", "film"]
    assert list(found.words["index"]) == [1, 2, 3, 4]
    assert found.words["start"].isna().all()


def test_what_is_left_out_is_said(tiny):
    few = Effort.quick()
    effort = Effort(few.search, few.certify, candidates=3, neurons=32, block_words=2, block_candidates=2)
    found = survey([TEXT], tiny, Question(("attention", "rf"), seeds=1, words=Vocabulary.of(tiny), effort=effort))
    assert (found.words["map"] == "rf").sum() == 2
    assert set(found.words["kind"]) == {"lower bound"}
    said = "\n".join(found.notes)
    for what in ("32 neurons", "2 of 9 words", "best of 3 random words", "best of 2 random words", "closed form"):
        assert what in said
    thorough = survey(
        [TEXT], tiny, Question(("rf",), seeds=1, words=Vocabulary.of(tiny), effort=Effort.thorough(Certify(2)))
    )
    assert set(thorough.words["kind"]) == {"exact"}
    assert thorough.notes == ("searched in float32, certified in float64",)


@pytest.mark.parametrize(
    ("texts", "options", "error", "says"),
    [
        (["good film"], {"maps": ("raf",)}, UnknownNameError, "'raf'"),
        (["good film"], {"positions": (7,)}, RangeError, "7"),
        (["good film"], {"seeds": 0}, RangeError, "--seeds"),
        (["good film"], {"window": 2}, RangeError, "--window"),
        (["good " * 100], {"most": 50}, RangeError, "at most 50 tokens in all, got 102"),
    ],
)
def test_what_cannot_be_asked_is_one_line(tiny, texts, options, error, says):
    with pytest.raises(error, match=says) as raised:
        survey(texts, tiny, Question(**{"maps": ("attention",), **options}))
    assert "\n" not in str(raised.value)


def test_progress_never_goes_back(tiny, question):
    heard = []
    survey([TEXT, "good film"], tiny, question, lambda stage, done: heard.append(done))
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1.0)
