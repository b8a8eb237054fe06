"""`measure` says of models what they themselves say: every number is computed again, plainly."""

import math

import pandas as pd
import pytest
import torch

import oneword as ow
from oneword.maps.transformer import TransformerFeatures
from oneword.report.words.table import WordTable
from oneword.search.ascent import Ascent
from oneword.search.shortlist import Shortlist
from oneword.words.effort import Effort
from oneword.words.layers import noise_floor
from oneword.words.random_words import RandomWords
from tests.text.tiny_models import write_model

pytest.importorskip("transformers")
TEXT = "I love this film, and it wasn't unhappily made."
QUICK = Ascent(random=0, steps=3, keep=1, leading=2, polish=3)


@pytest.fixture(scope="module")
def phi(tmp_path_factory: pytest.TempPathFactory) -> TransformerFeatures:
    folder = tmp_path_factory.mktemp("bert")
    write_model(folder, "bert", layers=3, spread=0.3)
    return TransformerFeatures.load(str(folder), output="pooled", dtype=torch.float64)


def measured(phi: TransformerFeatures, text: object = TEXT, show: object = None, **effort: object) -> WordTable:
    within = effort.pop("within", None)
    return ow.measure(text, phi, within=within, effort=Effort(model_search=QUICK, **effort), show=show)


@pytest.fixture(scope="module")
def found(phi: TransformerFeatures) -> WordTable:
    return measured(phi, random_words=3, best_words=2)


def result_of(table: WordTable) -> ow.Sensitivity:
    (result,) = table.results.values()
    return result


def test_every_word_of_the_text_has_a_line_and_special_tokens_have_none(
    phi: TransformerFeatures, found: WordTable
) -> None:
    text = phi.encode(TEXT)
    words = found.words
    assert words["word"].tolist() == [w for w, s in zip(text.words, text.special, strict=True) if not s]
    for line in words.to_dict("records"):
        assert TEXT[line["start"] : line["end"]] == line["word"]
    assert (words["value"] > 0).all()
    assert not words["below_noise"].any()
    assert result_of(found).value == words["value"].max()


def test_layers_are_the_models_own_at_the_change_of_each_word(phi: TransformerFeatures, found: WordTable) -> None:
    text = phi.encode(TEXT)
    layers = found.layers
    assert set(layers["layer"]) == {0, 1, 2, 3}
    assert set(layers["how"]) == {"at the change of pooled, layer 3"}
    for i, delta in result_of(found).deltas.items():
        changed = text.X.clone()
        changed[list(text.rows[i])] += delta
        for layer in range(4):
            alone = phi.select(layer=layer)
            with torch.no_grad():
                truth = float((alone(changed) - alone(text.X)).norm() / alone(text.X).norm())
            (value,) = layers[(layers["position"] == i) & (layers["layer"] == layer)]["value"]
            assert value == pytest.approx(truth, rel=1e-9)
    last = layers[layers["layer"] == 3].set_index("position")["value"]
    pd.testing.assert_series_equal(last, found.words.set_index("position")["value"], check_names=False, rtol=1e-6)


def test_searching_each_layer_finds_no_less(phi: TransformerFeatures, found: WordTable) -> None:
    each = measured(phi, random_words=0, best_words=0, per_layer=True).layers
    assert set(each["how"]) == {"searched"}
    both = each.merge(found.layers, on=["position", "layer"], suffixes=("", "_at"))
    assert len(both) == len(each) == len(found.layers)
    assert (both["value"] >= both["value_at"] * (1 - 1e-9)).all()


def test_heads_say_how_attention_moves_to_the_word(phi: TransformerFeatures, found: WordTable) -> None:
    text, best = phi.encode(TEXT), result_of(found)
    heads = found.heads
    assert len(heads) == 3 * phi.heads
    changed = text.X.clone()
    changed[list(best.rows)] += best.delta
    line = heads[(heads["layer"] == 2) & (heads["head"] == 1)].iloc[0]
    one = phi.select(output="attention", layer=2, head=1)
    with torch.no_grad():
        before, after = one(text.X), one(changed)
    assert line["change"] == pytest.approx(float((after - before).abs().sum(1).mean() / 2), rel=1e-9)
    assert line["after"] == pytest.approx(float(after[:, list(best.rows)].sum(1).mean()), rel=1e-9)
    assert heads["change"].between(0, 1).all()


def test_random_words_are_those_that_the_model_gives(phi: TransformerFeatures) -> None:
    text = phi.encode("not bad")
    probe, words = phi.at(text.X), ow.Vocabulary.of(phi.encoder)
    tries = RandomWords(probe, text, [1, 2], words, 4, seed=3)
    tries.run()
    found = tries.found
    exact = ow.sensitivity(phi, text, within=words)
    assert exact.substitutions is not None
    for i, values in found.items():
        assert len(values) == 4
        for word, value in values.items():
            assert value == pytest.approx(exact.of(i, word), rel=1e-9)
    alone = RandomWords(probe, text, [1], words, 4, seed=3)
    alone.run()
    assert alone.found[1] == found[1]  # whatever else is tried


def test_the_noise_floor_is_what_padding_and_batches_do(
    phi: TransformerFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = phi.encode(TEXT).X
    monkeypatch.setattr(TransformerFeatures, "padded", lambda self, X, count: (1 + 1e-4 * count) * self(X))
    assert noise_floor(phi, X) == pytest.approx(37e-4)


def test_the_noise_floor_is_rounding_and_no_more(phi: TransformerFeatures) -> None:
    X = phi.encode(TEXT).X
    assert 0 <= noise_floor(phi, X) < 1e-12
    single = TransformerFeatures.load("minilm", output="pooled")
    assert 0 <= noise_floor(single, single.encode(TEXT).X) < 1e-4  # on some machines batches do not differ at all


def test_values_below_the_noise_are_said_to_be(phi: TransformerFeatures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oneword.words.models.noise_floor", lambda *_: 1e9)
    tables = measured(phi, random_words=0, best_words=0)
    assert tables.words["below_noise"].all()


def test_the_best_word_was_tried_and_a_small_vocabulary_is_tried_whole(phi: TransformerFeatures) -> None:
    text = phi.encode("not bad")
    exact = ow.sensitivity(phi, text, within=ow.Vocabulary.of(phi.encoder))
    tables = measured(phi, text, best_words=2, shortlist=Shortlist(least=10_000, most=10_000))
    for line in tables.words.to_dict("records"):
        top = exact.replacements(line["position"], top=1).iloc[0]
        assert line["kind"] == "exact"
        assert line["replacement"] == top["replacement"]
        assert line["best_word"] == pytest.approx(top["value"], rel=1e-9)


def test_first_order_holds_for_small_radii(phi: TransformerFeatures) -> None:
    """For a small ball the sup is the first-order value."""
    small = ow.Ball(relative=1e-3)
    tables = measured(phi, within=small, random_words=0, best_words=0)
    one_token = tables.words[tables.words["tokens"] == 1]
    ratio = one_token["value"] / one_token["first_order"]
    assert ratio.between(0.99, 1.01).all()


def test_a_relative_ball_is_measured_by_each_words_own_norm() -> None:
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    ball = ow.Ball(relative=0.5)
    assert ball.reach(x).tolist() == [2.5, 0.0, 0.5]
    far = ball.toward(x, torch.ones_like(x))
    assert (far - x).norm(dim=1).tolist() == pytest.approx([2.5, 0.0, 0.5])
    assert torch.equal(ball.project(x, x + 10)[1], x[1])  # a word of norm 0 may not move
    assert ball.violation(x, far).max() < 1e-12
    assert ball.describe()["shown"] == "‖Δ‖ ≤ 0.5·‖x‖"
    with pytest.raises(ow.OnewordError, match="expected radius or relative, got both"):
        ow.Ball(1.0, 1.0)
    assert not math.isnan(float(ball.reach(x).sum()))


def test_some_words_are_searched_those_that_a_random_word_moves_most(
    phi: TransformerFeatures, found: WordTable
) -> None:
    seen: list[pd.DataFrame] = []
    some = measured(phi, show=lambda so_far: seen.append(so_far.words), random_words=3, best_words=0, searched=3)
    known = some.words[some.words["value"].notna()]
    assert len(known) == 3
    assert len(some.words) == len(found.words)
    assert some.words["random_word"].notna().sum() == found.words["random_word"].notna().sum()
    assert set(some.layers["position"]) == set(known["position"])
    said = f"searched at 3 of {len(some.words)} words, those that a random word moves most"
    assert any(said in note for note in some.notes)
    # First order is estimated at every word, then known where the search will be, then both are there.
    assert [(words["first_order"].notna().sum(), words["value"].notna().sum()) for words in seen[:4]] == [
        (len(some.words), 0), (len(some.words), 0), (3, 0), (3, 3),
    ]  # fmt: skip
