"""The whole audit on encoders that are understood."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
import torch

import oneword as ow
from oneword.auditing.edits import Edit
from oneword.auditing.encoders import NAMED, AuditedEncoder, load_encoder
from oneword.auditing.measurement import cut_text, cut_texts, sample_texts
from oneword.errors import NonFiniteError, RangeError, ShapeError, TextError, UnknownNameError, ZeroNormError
from tests.auditing.cases import DEAF, KEEN, Bag, reviews

ASKED = {"lengths": (8, 16, 32), "most_texts": 12, "resamples": 99}
QUICK = {**ASKED, "lengths": (8, 32), "edits": ("negation", "typo", "stop word")}
KEEN_ENCODER = AuditedEncoder.of(KEEN)


@pytest.fixture(scope="module")
def found():
    return ow.audit([KEEN, DEAF], reviews(), references=Bag(), **ASKED)


def line(table, model, type):
    return table[(table["model"] == model) & (table["type"] == type)].iloc[0]


def test_an_encoder_that_hears_not_passes_and_a_deaf_one_fails(found):
    keen, deaf = line(found.types, "keen", "negation"), line(found.types, "deaf", "negation")
    assert keen["auc_low"] > 0.8
    assert deaf["auc"] == 0.0
    assert deaf["silent"] == 1.0
    verdicts = found.verdicts.set_index(["model", "what"])
    assert verdicts.loc[("keen", "heard.negation"), "passed"]
    assert not verdicts.loc[("deaf", "heard.negation"), "passed"]
    assert "deaf to negation" in verdicts.loc[("deaf", "heard.negation"), "why"]
    assert not found.passed


def test_models_beside_are_measured_and_not_judged(found):
    assert set(found.types["model"]) == {"keen", "deaf", "bag"}
    assert set(found.verdicts["model"]) == {"keen", "deaf"}
    assert ow.audit(KEEN, reviews(), references=[DEAF], **QUICK).passed


def test_changes_are_those_of_the_vectors(found):
    edits = found.edits[(found.edits["model"] == "keen") & found.edits["visible"]]
    for each in edits.sample(20, random_state=0).to_dict("records"):
        text = found.texts[each["text"]][: each["characters"]]
        end = each["where"] + len(each["was"])
        new = text[: each["where"]] + each["became"] + text[end:]
        v, w = KEEN.vectors([text, new])
        assert each["change"] == pytest.approx(np.linalg.norm(w - v) / np.linalg.norm(v))
        assert each["cosine"] == pytest.approx(w @ v / np.linalg.norm(v) / np.linalg.norm(w))
        assert each["tokens"] == len(KEEN.tokens(text)) <= each["length"]


def test_a_tokenizer_that_cannot_see_case_says_so_and_case_is_no_noise(found):
    case = line(found.types, "keen", "case")
    assert case["unseen"] == case["edits"] > 0
    assert np.isnan(case["change"])
    assert not (found.against["against"] == "case").any()
    assert any("case: the tokenizer of keen cannot see it" in note for note in found.notes)


def test_a_mean_of_words_decays_with_length(found):
    assert line(found.types, "bag", "antonym")["decay"] == pytest.approx(-0.5, abs=0.2)


def test_the_noise_of_a_length_is_pooled_over_all_its_types(found):
    edits = found.edits[(found.edits["kind"] == "noise") & found.edits["visible"] & (found.edits["change"] > 0)]
    for each in found.noise.to_dict("records"):
        some = edits[(edits["model"] == each["model"]) & (edits["length"] == each["length"])]["change"]
        assert each["change_25"] == pytest.approx(np.quantile(some, 0.25))
        assert each["change"] == pytest.approx(some.median())
        assert each["change_75"] == pytest.approx(np.quantile(some, 0.75))
    assert len(found.noise) == 9  # three encoders at three lengths


def test_examples_are_the_least_noticed_and_the_most_moved(found):
    for kind, best in (("signal", np.min), ("noise", np.max)):
        first = found.worst[(found.worst["kind"] == kind) & (found.worst["rank"] == 1)]
        for each in first.to_dict("records"):
            some = found.edits[(found.edits["model"] == each["model"]) & (found.edits["type"] == each["type"])]
            assert each["times_noise"] == best(some["times_noise"])


def test_the_seed_decides():
    once, again, other = (ow.audit(KEEN, reviews(), **QUICK, seed=seed) for seed in (3, 3, 4))
    assert once.types.equals(again.types)
    assert not once.edits["change"].equals(other.edits["change"])


def test_own_pairs_are_whole_texts_beside_rule_made_noise():
    text = "I would say that the film was really good , and long"
    pairs = [Edit("own signal", "signal", text, text.replace("good", "not good"), 0),
             Edit("tone", "noise", text, text.replace("long", "lengthy"), 0)]  # fmt: skip
    limits = {"auc": {"own signal": 0.6}}
    found = ow.audit(KEEN, lengths=(8,), resamples=99, pairs=pairs, thresholds=limits)
    own = found.edits[found.edits["made"] == "own"]
    assert set(own["type"]) == {"own signal", "tone"}
    assert (own["length"] == 0).all()
    assert line(found.types, "keen", "own signal")["auc"] == 1.0
    assert found.verdicts.set_index("what").loc["auc.own signal", "passed"]


def test_an_own_pair_that_is_too_long_keeps_its_number():
    """Else later pairs are shown in the words of another text."""
    texts = ["so long " * 20, "it was good", "she was happy"]
    pairs = [Edit("tone", "signal", text, text + " not", 0) for text in texts]
    asked = {"lengths": (4,), "edits": ("typo",), "resamples": 99}
    found = ow.audit(replace(KEEN, longest=16), ["it is the film that we have seen"], pairs=pairs, **asked)
    shown = found.edits[found.edits["type"] == "tone"]
    assert [found.texts[k] for k in shown["text"]] == texts[1:]
    assert (shown["characters"] == [len(found.texts[k]) for k in shown["text"]]).all()


def test_a_signal_for_which_no_text_has_a_place_is_no_success():
    texts = [f"the {word} was really good, and long" for word in ("film", "story", "actor")]
    asked = {"lengths": (8,), "resamples": 99}
    found = ow.audit(KEEN, texts, edits=("number",), **asked)
    assert found.edits.empty
    assert not found.passed
    assert "nothing was measured of number" in found.verdicts.set_index("what").loc["heard.number", "why"]
    assert "number: nothing was measured with keen, no text had a place for it" in found.notes
    unnamed = ow.audit(KEEN, texts, **asked)
    assert "heard.number" not in set(unnamed.verdicts["what"])
    assert any(note.startswith("number: nothing was measured") for note in unnamed.notes)


def test_cuts_are_whole_words_of_at_most_n_tokens():
    text = reviews(1)[0]
    for n in (4, 8, 16):
        words = cut_text(text, n, KEEN_ENCODER)
        assert text.startswith(words)
        assert len(KEEN.tokens(words)) <= n
        assert words.split() == text.split()[: len(words.split())]
    assert cut_text("a-b-c-d-e", 3, KEEN_ENCODER) == ""
    twice = list(cut_texts([text, text + " more"], KEEN_ENCODER, (8,)))
    assert len(twice) == 1  # beginnings that coincide


def test_long_texts_come_first_and_each_once():
    texts = ["short text", *reviews(3), reviews(3)[0]]
    found = sample_texts(texts, KEEN_ENCODER, (8, 32), 4, seed=0)
    assert found[-1] == "short text"
    assert sorted(found[:3]) == sorted(reviews(3))


def test_edits_that_do_not_fit_the_window_are_left_out_and_counted():
    small = replace(KEEN, longest=16)
    found = ow.audit(small, reviews(), **QUICK | {"lengths": (8, 16, 32)})
    assert found.edits["tokens"].max() <= 16
    assert any("longer than its window" in note for note in found.notes)
    assert any("so nothing at 32" in note for note in found.notes)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda v: v * np.nan, NonFiniteError, "finite vectors"),
        (lambda v: v * 0, ZeroNormError, "not zero"),
    ],
)
def test_bad_vectors_are_named(change, error, says):
    class Broken(Bag):
        def vectors(self, texts):
            return change(super().vectors(texts))

    with pytest.raises(error, match=says):
        ow.audit(Broken(), reviews(), **QUICK)


def test_bad_questions_are_named():
    with pytest.raises(RangeError, match="at least 64 tokens"):
        ow.audit(KEEN, ["a short text"], lengths=(64,))
    with pytest.raises(RangeError, match="window"):
        ow.audit(KEEN, reviews(), lengths=(512,))
    with pytest.raises(TextError, match="at least one text"):
        ow.audit(KEEN, ["  "], **ASKED)
    with pytest.raises(UnknownNameError, match="twice"):
        ow.audit(KEEN, reviews(), references=KEEN, **ASKED)
    for bad in ({"most_texts": 0}, {"lengths": ()}, {"share": 1.5}, {"noise_quantile": -1}, {"each": 0}):
        with pytest.raises(RangeError, match=f"audit: expected {next(iter(bad))} to "):
            ow.audit(KEEN, reviews(), **bad)
    with pytest.raises(TextError, match="a list of texts, got one string"):
        ow.audit(KEEN, "one text")
    with pytest.raises(UnknownNameError, match="a function from texts to vectors, got 3"):
        ow.audit(3, reviews())
    with pytest.raises(UnknownNameError, match=r"got Linear.*TransformerFeatures\.of"):
        ow.audit(torch.nn.Linear(2, 3), reviews())
    with pytest.raises(RangeError, match="at least one model"):
        ow.audit([], reviews(), references=KEEN)


# Encoders that are no transformers ----------------------------------------------------------------------------------


def test_a_function_is_audited_and_counted_in_words():
    found = ow.audit(KEEN.vectors, reviews(), **QUICK)
    assert found.passed
    edits = found.edits
    texts = [found.texts[each["text"]][: each["characters"]] for each in edits.to_dict("records")]
    assert edits["tokens"].tolist() == [len(text.split()) for text in texts]
    assert set(found.chunks["unit"]) == {"words"}
    by_name = ow.audit({"mine": KEEN.vectors, "other": DEAF.vectors}, reviews(), **QUICK)
    assert by_name.about["judged"] == ["mine", "other"]
    assert by_name.types[by_name.types["model"] == "mine"]["change"].tolist() == found.types["change"].tolist()


def test_what_a_function_cannot_see_is_no_noise():
    found = ow.audit(KEEN.vectors, reviews(), lengths=(8, 16), edits=("negation", "case"), resamples=99)
    case = line(found.types, "vectors", "case")
    assert case["unseen"] == case["edits"] > 0
    assert any("case: vectors gives the same vector with and without it" in note for note in found.notes)


def test_an_encoder_with_a_name_is_found_by_it(monkeypatch):
    monkeypatch.setitem(NAMED, "bag of words", lambda: KEEN.vectors)
    assert ow.audit("bag of words", reviews(), **QUICK).about["judged"] == ["bag of words"]
    with pytest.raises(RangeError, match="no layer for bag of words"):
        load_encoder("bag of words", layer=1)


def test_vectors_of_the_wrong_shape_are_named():
    with pytest.raises(ShapeError, match="one vector for each of"):
        ow.audit(lambda texts: np.ones(3), reviews(), **QUICK)


# The result -----------------------------------------------------------------------------------------------------------


def test_the_result_shows_and_saves_itself(found, tmp_path):
    from rich.console import Console

    console = Console(record=True, width=140, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(found)
    shown = console.export_text()
    assert "AUC against noise" in shown
    html = found._repr_html_()
    assert "AUC against noise" in html
    assert "deaf to negation" in html
    assert repr(found).startswith("Audit(keen, deaf, bag: ")
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["format"] == "oneword.audit/2"
    assert len(content["edits"]) == len(found.to_pandas())
    jsonschema.validate(content, ow.Audit.schema())
    for bad in ({"format": "oneword.audit/1"}, {"edits": [{"model": "keen"}]}, {"surprise": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(content | bad, ow.Audit.schema())
    assert found.save_junit(tmp_path / "a.xml").read_text().count("<testcase") == len(found.verdicts)


def test_a_notebook_shows_texts_as_texts():
    found = ow.audit({"<b>": KEEN}, reviews(), **QUICK)
    assert "<b><b></b>" not in found._repr_html_()
    assert "&lt;b&gt;" in found._repr_html_()
