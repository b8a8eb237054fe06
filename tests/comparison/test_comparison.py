"""Two texts through a model: its own numbers, 0 for identical texts, and the same whichever text comes first."""

import io
import json

import jsonschema
import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

import oneword as ow
from oneword.comparison.verb import compare
from oneword.errors import OnewordError, RangeError, TextError, UnknownNameError
from oneword.maps.attention import AttentionFeatures
from oneword.maps.transformer import TransformerFeatures
from oneword.text.encoders import Encoder
from tests.text.tiny_bert import needs_minilm

A, B = "I love this film, and I love her much.", "I love this film, and I love her story."
LONGER = "I love this unbelievable film, and I love her much."
FAMILIES = ("bert", "gpt2", "llama")
families = pytest.mark.parametrize("family", FAMILIES)


def direct(phi, text):
    """What the model itself gives for the tokens of a text."""
    ids = torch.tensor([phi.encoder.tokenizer.encode(text).ids])
    phi.model.set_attn_implementation("eager")
    with torch.no_grad():
        return phi.model(input_ids=ids, output_attentions=True, output_hidden_states=True)


@families
def test_attention_is_the_models_own(tiny, family):
    found = compare(A, B, by=tiny[family])
    for text, weights in zip((A, B), found.weights, strict=True):
        truth = torch.stack([layer[0] for layer in direct(tiny[family], text).attentions]).numpy()
        assert np.abs(weights - truth).max() <= 1e-6


@needs_minilm
def test_fig_1_attention_of_the_first_layer_averaged_over_heads():
    phi = TransformerFeatures.load("minilm")
    texts = ("I love her much", "I love her smile")
    found = compare(*texts, by=phi)
    table = found.attention(layer=1)
    for name, text in zip("ab", texts, strict=True):
        truth = direct(phi, text).attentions[0][0].mean(0).numpy()
        some = table[table["text"] == name].pivot(index="from", columns="to", values="weight")
        assert np.abs(some.to_numpy() - truth).max() <= 1e-6
    assert table["from_word"].unique().tolist() == ["[CLS]", "I", "love", "her", "much", "[SEP]", "smile"]
    assert found.most_moved["word_b"] == "smile"
    assert found.most_moved_kept["word_a"] in ("I", "love", "her")


@families
def test_changes_are_those_of_a_plain_loop(tiny, family):
    phi = tiny[family]
    found = compare(A, LONGER, by=phi)
    states = [direct(phi, text).hidden_states for text in (A, LONGER)]
    for line in found.moved.to_dict("records"):
        pair = found.pairs[line["pair"]]
        rows = (found.texts[0].rows[pair.a], found.texts[1].rows[pair.b])
        a, b = (
            np.mean([of[line["layer"]][0, row].double().numpy() for row in own], axis=0)
            for of, own in zip(states, rows, strict=True)
        )
        assert line["change"] == pytest.approx(np.linalg.norm(b - a) / np.linalg.norm(a), rel=1e-5, abs=1e-6)
        assert line["cosine"] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)


@families
def test_texts_of_one_length_are_compared_whole(tiny, family):
    phi = tiny[family]
    texts = ("I love this film", "I film this love")  # the same tokens, whatever they are
    found = compare(*texts, by=phi)
    a, b = (direct(phi, text).hidden_states for text in texts)
    assert set(found.layers["over"]) == {"rows"}
    for layer, line in enumerate(found.layers.to_dict("records")):
        truth = (b[layer] - a[layer]).norm() / a[layer].norm()
        assert line["whole"] == pytest.approx(float(truth), rel=1e-5, abs=1e-6)
        pooled = (b[layer].mean(1) - a[layer].mean(1)).norm() / a[layer].mean(1).norm()
        assert line["pooled"] == pytest.approx(float(pooled), rel=1e-5, abs=1e-6)


@families
def test_identical_texts_differ_in_nothing(tiny, family):
    found = compare(A, A, by=tiny[family])
    assert {pair.how for pair in found.pairs} == {"equal"}
    for values in (found.moved["change"], found.layers[["whole", "pooled"]], found.heads[["change", "most"]]):
        assert (values.to_numpy() == 0).all()
    assert (found.moved["cosine"] > 1 - 1e-12).all()
    assert found.notes == ()
    if found.answers is not None:
        assert not found.answers.flips
        assert (found.answers.divergence.tv, found.answers.divergence.kl_ab, found.answers.divergence.js) == (0, 0, 0)


@families
@pytest.mark.parametrize("other", [B, LONGER, "Her story was awful."])
def test_swapping_the_texts_swaps_the_tables(tiny, family, other):
    there, back = compare(A, other, by=tiny[family]), compare(other, A, by=tiny[family])
    assert tuple(pair.swapped() for pair in there.pairs) == back.pairs
    swapped = back.moved.rename(
        columns={"norm_a": "norm_b", "norm_b": "norm_a", "word_a": "word_b", "word_b": "word_a"}
    )
    same = ["layer", "pair", "word_a", "word_b", "distance", "norm_a", "norm_b", "cosine"]
    pd.testing.assert_frame_equal(there.moved[same], swapped[same])
    assert there.heads["change"].to_numpy() == pytest.approx(back.heads["change"].to_numpy())
    first, second = there.attention(1), back.attention(1)
    for one, two in (("a", "b"), ("b", "a")):
        assert first[first["text"] == one]["weight"].tolist() == second[second["text"] == two]["weight"].tolist()


@families
def test_every_word_pays_1_in_all(tiny, family):
    found = compare(A, "I love this unwatchable film", by=tiny[family])
    paid = found.attention(1, head=1).groupby(["text", "from"])["weight"].sum()
    assert paid.to_numpy() == pytest.approx(1, abs=1e-6)
    assert found.heads["change"].between(0, 1).all()
    assert max(len(rows) for rows in found.texts[1].rows) > 1  # words of several tokens were there


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_in_a_causal_model_nothing_moves_before_the_change(tiny, family):
    found = compare(A, A.replace("this", "an"), by=tiny[family])
    place = next(k for k, pair in enumerate(found.pairs) if pair.how != "equal")
    before = found.moved[found.moved["pair"] < place]
    assert (before["change"] <= 1e-6).all()
    assert found.moved[found.moved["pair"] > place]["change"].max() > 1e-3


def test_what_a_reader_must_know_is_said(tiny):
    longer = compare(A, LONGER, by=tiny["bert"])
    assert set(longer.layers["over"]) == {"aligned words"}
    assert any("tokens" in note for note in longer.notes)
    assert any("another place" in note for note in longer.notes)
    assert any("differ in" in note for note in compare("a good film", "the bad film", by=tiny["bert"]).notes)


def test_of_long_texts_the_tables_hold_one_map(tiny):
    text = "I love this film " * 9
    layers = compare(text, text, by=tiny["gpt2"]).tables(1, 0)["attention"][["layer", "head"]].drop_duplicates()
    assert len(layers) == 1
    assert len(compare(A, B, by=tiny["gpt2"]).tables(1, 0)["attention"][["layer", "head"]].drop_duplicates()) == 2


def refused(error: type[OnewordError], match: str, act) -> None:
    with pytest.raises(error, match=match) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_what_is_not_there_is_refused(tiny):
    phi = tiny["bert"]
    found = compare(A, B, by=phi)
    refused(RangeError, "expected layer 1 … 1, got 9", lambda: found.attention(9))
    refused(RangeError, "expected layer 1 … 1, got 0", lambda: found.attention(0))
    refused(RangeError, "expected head 0 … 1, got 2", lambda: found.attention(1, 2))
    refused(RangeError, "expected at most 64 tokens", lambda: compare(A, "film " * 99, by=phi))
    refused(TextError, "at least one word", lambda: compare(A, "  ", by=phi))


# Maps with random weights -------------------------------------------------------------------------------------------


@needs_minilm
def test_a_map_with_attention_compares_too():
    texts = ("I love her much", "I love her smile")
    found = compare(*texts, by="attention-relu", seed=3)
    assert found.about["model"] == "relu attention, random weights"
    assert found.layers["layer"].tolist() == [0, 1]
    encoder = Encoder.load("minilm")
    phi = AttentionFeatures.draw(encoder.d, score="relu", seed=3)
    a, b = (phi(encoder.encode(text, dtype=torch.float64).X).reshape(6, -1) for text in texts)
    assert found.layers["whole"].iloc[-1] == pytest.approx(float((b - a).norm() / a.norm()))
    assert compare(*texts, by=phi).moved.equals(found.moved)


@needs_minilm
def test_a_map_without_attention_and_other_things_are_refused():
    refused(RangeError, "a map with attention, got 'rf'", lambda: compare(A, B, by="rf"))
    refused(UnknownNameError, "expected by= a name, .* got 3", lambda: compare(A, B, by=3))
    refused(TextError, "expected a text as a string", lambda: compare(A, 3))


# The result -----------------------------------------------------------------------------------------------------------


@families
def test_the_result_shows_and_saves_itself(tiny, family, tmp_path):
    pytest.importorskip("jinja2")
    found = compare("I love <b>", "I love film", by=tiny[family])
    console = Console(record=True, width=140, file=io.StringIO())
    console.print(found)
    assert "moved most" in console.export_text()
    html = found._repr_html_()
    assert "after each layer" in html
    assert "<b>film" not in html
    assert repr(found).startswith("Comparison('I love <b>' → 'I love film'")
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["format"] == "oneword.compare/2"
    assert content["texts"] == ["I love <b>", "I love film"]
    assert len(content["moved"]) == len(found.to_pandas())
    jsonschema.validate(content, ow.Comparison.schema())
    assert "What did one word change?" in found.save_html(tmp_path / "a.html").read_text()
