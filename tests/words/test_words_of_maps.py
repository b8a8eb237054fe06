"""`measure` says of every word under maps what `sensitivity` says, once, and names what it left out."""

import math

import pytest
import torch

import oneword as ow
from oneword.bounds.certificate import Certify
from oneword.errors import OnewordError, RangeError, UnknownNameError
from oneword.sets.vocabulary import Vocabulary
from oneword.text.encoders import Encoder
from oneword.words.effort import Effort
from tests.text.tiny_bert import LONGEST, write_tiny

TEXT = "not a good film , the bad film !"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return Encoder.load(str(write_tiny(tmp_path_factory.mktemp("models") / "tiny")))


OPTIONS = {"by": ["attention", "rf"], "seeds": 2, "top": 2, "dtype": torch.float64}


@pytest.fixture(scope="module")
def measure(tiny):
    return lambda texts, by="attention", **options: ow.measure(texts, by, encoder=tiny, **{"seeds": 1, **options})


@pytest.fixture(scope="module")
def found(measure):
    return measure(TEXT, **OPTIONS)


def test_there_is_one_line_a_word_map_and_seed(found):
    words = found.words
    assert len(words) == 9 * 2 * 2
    assert not words.duplicated(["text", "index", "by", "seed"]).any()
    assert [TEXT[line.start : line.end] for line in words.itertuples()] == list(words["word"])
    assert (words["value"] <= words["upper"]).all()
    assert (words["best_word"] >= words["random_word"]).all()


def test_the_numbers_are_those_of_the_library(tiny, found):
    text = tiny.encode(TEXT)
    phi = ow.AttentionFeatures.draw(text.d, seed=1)
    exact = ow.sensitivity(phi, text, within=Vocabulary.of(tiny), positions=[3], baseline=0)
    line = found.words.query("by == 'attention' and seed == 1 and index == 3").iloc[0]
    assert line["position"] == 3
    assert line["best_word"] == pytest.approx(exact.value, rel=1e-12)
    assert line["replacement"] == exact.replacement
    assert line["kind"] == "exact"
    assert line["random_word"] == pytest.approx(exact.per_word["baseline"].iloc[0])
    ball = ow.sensitivity(phi, text, positions=[3], certify=Certify.plain())
    assert line["value"] == pytest.approx(ball.value, rel=0.02)  # a shorter search
    assert line["upper"] == pytest.approx(ball.upper)
    far = torch.linalg.vector_norm(
        tiny.embed(tiny.whole_words, positions=torch.tensor(3)) - text.X[3], dim=1
    ) / math.sqrt(text.d)
    assert line["random_distance"] == pytest.approx(float(far.mean()))


def test_the_best_replacements_are_ranked(found):
    ranks = found.replacements
    assert set(ranks["rank"]) == {1, 2}
    first = ranks[ranks["rank"] == 1].merge(found.words, on=["text", "window", "position", "by", "seed"])
    assert (first["value_x"] == first["best_word"]).all()
    assert (first["replacement_x"] == first["replacement_y"]).all()


def test_only_the_persons_words_change_unless_asked_otherwise(measure, found):
    special = {"[CLS]", "[SEP]"}
    assert not special & set(found.words["word"])
    also = measure(TEXT, special=True)
    assert special < set(also.words["word"])
    assert list(also.words["index"]) == list(range(len(also.words)))


def test_windows_cover_every_word_once(measure):
    text = " ".join([TEXT] * 12)
    found = measure(text, window=11, words=False)
    assert list(found.words["index"]) == list(range(1, 1 + 9 * 12))
    assert list(found.words["word"]) == text.split()
    assert found.words["n"].max() <= 11
    assert any("windows of at most 11" in note for note in found.notes)
    longest = measure(text, words=False)
    assert longest.words["n"].max() <= LONGEST


def test_a_word_of_several_tokens_has_a_counterpart_only_in_a_list_of_ones_own(measure):
    text = "not happy film"
    alone = measure(text)
    assert list(alone.words["tokens"]) == [1, 2, 1]
    assert list(alone.words["best_word"].isna()) == [False, True, False]
    assert any("has no candidates: 'happy'" in note for note in alone.notes)
    own = measure(text, words=["happly", "good"])
    assert list(own.words["replacement"]) == ["good", "happly", "good"]


def test_tokens_may_be_words(measure):
    found = measure("not happy film", per_token=True)
    assert list(found.words["word"]) == ["not", "happ", "##y", "film"]
    assert list(found.words["index"]) == [1, 2, 3, 4]
    assert found.words["start"].isna().all()


def test_what_is_left_out_is_said(measure):
    few = Effort.quick()
    effort = Effort(few.search, few.certify, candidates=3, neurons=32, block_words=2, block_candidates=2)
    found = measure(TEXT, ["attention", "rf"], effort=effort)
    assert (found.words["by"] == "rf").sum() == 2
    assert set(found.words["kind"]) == {"sample"}
    said = "\n".join(found.notes)
    for what in ("32 neurons", "2 of 9 words", "best of 3 random words", "best of 2 random words", "closed form"):
        assert what in said
    thorough = measure(TEXT, "rf", effort="thorough", certify=Certify(2))
    assert set(thorough.words["kind"]) == {"exact"}
    assert thorough.notes == ("maps: searched in float32, certified in float64",)


@pytest.mark.parametrize(
    ("texts", "options", "error", "says"),
    [
        (["good film"], {"by": "raf"}, OnewordError, "'raf'"),
        (["good film"], {"by": []}, RangeError, "at least one map or model"),
        ([], {}, RangeError, "at least one text"),
        (["good film"], {"effort": "hard"}, UnknownNameError, "quick, usual, thorough"),
        (["good film"], {"within": "cube"}, UnknownNameError, "ball, sphere"),
        (["good film"], {"words": "good"}, RangeError, "a list of words"),
        (["good film"], {"positions": (7,)}, RangeError, "7"),
        (["good film"], {"seeds": 0}, RangeError, "expected seeds"),
        (["good film"], {"window": 2}, RangeError, "expected window"),
        (["good " * 100], {"most": 50}, RangeError, "at most 50 tokens in all, got 102"),
    ],
)
def test_what_cannot_be_asked_is_one_line(measure, texts, options, error, says):
    with pytest.raises(error, match=says) as raised:
        measure(texts, **options)
    assert "\n" not in str(raised.value)


def test_progress_never_goes_back(measure):
    heard = []
    measure([TEXT, "good film"], **OPTIONS, progress=lambda stage, done: heard.append(done))
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1.0)


def test_a_synthetic_text_and_a_map_of_ones_own_are_measured_as_any_other(found):
    text = ow.gaussian(5, 8, seed=1)
    phi = ow.AttentionFeatures.draw(8, seed=2)

    def doubled(X):
        return 2 * phi(X)

    table = ow.measure(text, [phi, doubled, "rf"], seeds=1, dtype=torch.float64, effort="thorough")
    assert list(table.words.columns) == list(found.words.columns)
    assert list(dict.fromkeys(table.words["by"])) == ["AttentionFeatures", "doubled", "rf"]
    assert table.words.query("by != 'rf'")["seed"].isna().all()
    truth = ow.sensitivity(phi, text, certify=False).per_word["value"]
    assert table.words.query("by == 'AttentionFeatures'")["value"].tolist() == pytest.approx(truth.tolist(), rel=1e-9)
    # A scaled map has the same relative changes.
    assert table.words.query("by == 'doubled'")["value"].tolist() == pytest.approx(truth.tolist(), rel=1e-3)
    assert table.words["best_word"].isna().all()


def test_several_words_at_once_are_a_row_of_their_own(measure, tiny):
    table = measure("not a good film", together=2, effort="quick", dtype=torch.float64)
    (row,) = table.joint.to_dict("records")
    phi = ow.AttentionFeatures.draw(tiny.d, seed=0)
    text = tiny.encode("not a good film")
    truth = ow.sensitivity(
        phi, text, words=2, positions=[1, 2, 3, 4], search="quick", certify=Certify.plain(), baseline=8
    )
    assert row["value"] == pytest.approx(truth.value, rel=1e-9)
    assert tuple(row["positions"]) == truth.positions
    assert row["value"] <= row["upper"]
    assert len(table.words) == 4


def test_subjects_of_one_name_are_told_apart():
    phi = ow.AttentionFeatures.draw(6, seed=0)
    table = ow.measure(ow.gaussian(3, 6), [phi, ow.AttentionFeatures.draw(6, seed=1)], effort="quick")
    assert list(dict.fromkeys(table.words["by"])) == ["AttentionFeatures", "AttentionFeatures 2"]


def test_the_table_shows_itself(found):
    assert repr(found).startswith("WordTable(Changing “")
    assert "<table" in found._repr_html_()
    assert found.to_pandas().equals(found.words)
    assert found.to_dict()["format"] == "oneword.words/3"
