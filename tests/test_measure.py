"""The verb: what it returns is attained, bracketed, and independent of how the question is put."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import oneword as ow
from oneword.errors import DTypeError, NonFiniteError, OnewordError, RangeError, ShapeError, ZeroNormError
from oneword.maps import registry

MAPS = {
    "softmax": lambda n, d: ow.AttentionFeatures.draw(d, seed=3),
    "relu": lambda n, d: ow.AttentionFeatures.draw(d, score="relu", seed=3),
    "relu-unnormalised": lambda n, d: ow.AttentionFeatures.draw(d, score="relu-unnormalised", seed=3),
    "rf": lambda n, d: ow.RandomFeatures.draw(n, d, seed=3),
    "rf tanh": lambda n, d: ow.RandomFeatures.draw(n, d, k=100, activation="tanh", seed=3),
    "drf": lambda n, d: ow.DeepRandomFeatures.draw(n, d, depth=3, k=80, seed=3),
    "module": lambda n, d: torch.nn.Sequential(
        torch.nn.Flatten(0), torch.nn.Linear(n * d, 7), torch.nn.Tanh()
    ).double(),
}
QUICK = {"certify": ow.Certify.plain(), "baseline": 4}


def attained(phi, X, s):
    """‖φ(X^i(Δ)) − φ(X)‖/‖φ(X)‖ by the definition."""
    changed = X.clone()
    changed[list(s.rows)] += s.delta.reshape(-1, X.shape[1])
    with torch.no_grad():
        return float((phi(changed) - phi(X)).norm() / phi(X).norm())


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("words", [1, 2, 6])
def test_the_value_is_attained_by_delta_within_the_ball_and_below_the_certificate(name, words):
    torch.manual_seed(0)
    text = ow.gaussian(6, 8, seed=1)
    phi = MAPS[name](6, 8)
    s = ow.sensitivity(phi, text, words=words, **QUICK)
    # Two evaluations of the same formula in float64.
    assert attained(phi, text.X, s) == pytest.approx(s.value, rel=1e-9)
    assert len(s.positions) == words
    assert len(set(s.positions)) == words
    assert (s.delta.reshape(words, 8).norm(dim=1) <= math.sqrt(8) * (1 + 1e-12)).all()
    if s.upper is None:
        assert s.certificate.startswith("no certificate: ")
    else:
        assert s.value <= s.upper


@pytest.mark.parametrize("name", ["softmax", "rf", "drf"])
def test_more_words_change_more(name):
    text = ow.gaussian(8, 8, seed=2)
    values = [ow.sensitivity(MAPS[name](8, 8), text, words=m, certify=False, baseline=0).value for m in (1, 2, 4, 8)]
    assert values == sorted(values)


def test_the_table_has_one_line_a_word_and_its_maximum_is_the_value():
    text = ow.gaussian(5, 16, seed=0)
    s = ow.sensitivity(ow.AttentionFeatures.draw(16, seed=0), text, certify=ow.Certify(seconds=0.5))
    assert list(s.per_word["word"]) == list(text.words)
    assert s.per_word["value"].max() == s.value
    assert s.per_word["upper"].max() == s.upper
    assert (s.per_word["value"] <= s.per_word["upper"]).all()
    assert (s.per_word["baseline"] < s.per_word["value"]).all()
    assert s.word == text.words[s.position]


def test_positions_restrict_the_search_and_change_nothing_else():
    text = ow.gaussian(7, 12, seed=4)
    phi = ow.AttentionFeatures.draw(12, seed=4)
    every = ow.sensitivity(phi, text, **QUICK).per_word.set_index("position")
    some = ow.sensitivity(phi, text, positions=[5, 2], **QUICK).per_word.set_index("position")
    assert list(some.index) == [2, 5]
    # The order of sums in a smaller batch differs, and a search amplifies its last bits.
    assert some["value"].to_numpy() == pytest.approx(every.loc[[2, 5], "value"].to_numpy(), rel=1e-6)
    assert some["baseline"].to_numpy() == pytest.approx(every.loc[[2, 5], "baseline"].to_numpy(), rel=1e-12)


def test_given_positions_are_all_changed_when_words_equals_their_number():
    s = ow.sensitivity(ow.AttentionFeatures.draw(8, seed=0), ow.gaussian(9, 8), words=3, positions=[1, 4, 7], **QUICK)
    assert sorted(s.positions) == [1, 4, 7]
    assert s.word == "w1 w4 w7"


def test_arrays_tensors_and_lists_of_numbers_are_the_same_text():
    X = ow.gaussian(4, 6, seed=0).X
    phi = ow.AttentionFeatures.draw(6, seed=0)
    values = {ow.sensitivity(phi, x, **QUICK).value for x in (X, X.numpy(), X.tolist(), ow.Context(X))}
    assert len(values) == 1


def test_a_list_of_texts_gives_one_table():
    texts = [ow.gaussian(n, 6, seed=n) for n in (3, 5)]
    table = ow.sensitivity(ow.AttentionFeatures.draw(6, seed=0), texts, **QUICK)
    assert isinstance(table, pd.DataFrame)
    assert list(table["n"]) == [3, 5]
    assert {"map", "value", "upper", "word", "baseline", "seconds"} <= set(table.columns)


def test_words_of_several_rows_change_jointly():
    X = ow.gaussian(5, 8, seed=0).X
    text = ow.Context(X, words=("un", "believ·able", "film"), rows=((0,), (1, 2, 3), (4,)))
    phi = ow.AttentionFeatures.draw(8, seed=1)
    s = ow.sensitivity(phi, text, **QUICK)
    assert list(s.per_word["rows"]) == [(0,), (1, 2, 3), (4,)]
    assert s.position == 1  # three rows move more than one
    assert s.delta.shape == (3, 8)
    assert attained(phi, X, s) == pytest.approx(s.value, rel=1e-9)


def test_several_words_of_different_lengths_are_covered_by_the_certificate():
    text = ow.Context(ow.gaussian(8, 3, seed=0).X, words=("a", "b", "c", "d"), rows=((0,), (1,), (2, 3, 4), (5, 6, 7)))
    phi = ow.RandomFeatures.draw(8, 3, activation="identity", seed=0)
    some = ow.sensitivity(phi, text, words=2, **QUICK)
    # The longest two words own six rows: no pair may exceed the bound, whichever pair was chosen.
    for pair in ([0, 1], [0, 3], [2, 3]):
        assert ow.sensitivity(phi, text, words=2, positions=pair, **QUICK).value <= some.upper


def test_a_saturated_map_is_measured_too():
    # σ' = 0 everywhere: the Jacobian vanishes, and the search has to do without its singular vectors.
    phi = ow.DeepRandomFeatures([1e3 * torch.ones(2, 3).double(), torch.eye(2).double()], 3, activation="tanh")
    s = ow.sensitivity(phi, torch.ones(3, 1, dtype=torch.float64), **QUICK)
    assert 0 <= s.value <= s.upper


def test_sphere_keeps_the_norm_of_words():
    text = ow.gaussian(6, 10, seed=0)
    s = ow.sensitivity(ow.AttentionFeatures.draw(10, seed=0), text, within=ow.Sphere(), **QUICK)
    assert float((text.X[s.position] + s.delta).norm()) == pytest.approx(math.sqrt(10), rel=1e-12)
    assert s.value <= s.upper


def test_a_smaller_ball_is_no_more_sensitive():
    text = ow.gaussian(6, 10, seed=0)
    phi = ow.AttentionFeatures.draw(10, seed=0)
    values = [ow.sensitivity(phi, text, within=ow.Ball(r), **QUICK).value for r in (0.1, 1.0, 3.0)]
    assert values == sorted(values)


def test_the_same_seed_gives_the_same_bits_and_quick_is_said():
    text = ow.gaussian(6, 8, seed=0)
    phi = ow.AttentionFeatures.draw(8, seed=0)
    a, b = (ow.sensitivity(phi, text, search="quick", seed=5, **QUICK) for _ in range(2))
    assert a.value == b.value
    assert torch.equal(a.delta, b.delta)
    assert a.status is ow.Status.QUICK
    assert a.per_word.equals(b.per_word)


def test_one_position_in_law_has_the_law_of_the_whole_map():
    n, d = 12, 16
    text = ow.gaussian(n, d, seed=0)
    maps = [ow.RandomFeatures.draw(n, d, seed=seed) for seed in range(12)]
    whole = [ow.sensitivity(phi, text, positions=[3], certify=False, baseline=0).value for phi in maps]
    alone = [ow.sensitivity(phi.alone(3), text, certify=False, baseline=0).value for phi in maps]
    # Twelve draws each: the means of two samples of one law differ by a few standard errors at most.
    error = math.sqrt((np.var(whole) + np.var(alone)) / 12)
    assert abs(np.mean(whole) - np.mean(alone)) < 4 * error


def test_provenance_names_map_text_seed_and_versions():
    s = ow.sensitivity(ow.AttentionFeatures.draw(6, seed=7), ow.gaussian(4, 6, seed=9), seed=2, **QUICK)
    assert s.provenance["map"] == {"map": "AttentionFeatures", "score": "softmax", "d": 6, "seed": 7}
    assert s.provenance["text"]["seed"] == 9
    assert s.provenance["seed"] == 2
    assert s.provenance["dtype"] == "float64"
    assert {"oneword", "torch", "numpy", "python"} <= set(s.provenance["versions"])


def test_progress_is_told_and_ends_at_one():
    heard = []
    text = ow.gaussian(4, 6)
    ow.sensitivity(ow.RandomFeatures.draw(4, 6), text, progress=lambda stage, done: heard.append((stage, done)))
    assert {stage for stage, _ in heard} == {"search", "certificate"}
    for stage in ("search", "certificate"):
        fractions = [done for name, done in heard if name == stage]
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1


def test_several_words_come_in_the_order_of_the_text_with_a_baseline_of_their_own():
    text = ow.gaussian(6, 8, seed=5)
    s = ow.sensitivity(ow.AttentionFeatures.draw(8, seed=5), text, words=3, **QUICK)
    assert list(s.positions) == sorted(s.positions)
    assert s.word == " ".join(text.words[i] for i in s.positions)
    assert s.per_word["baseline"].max() < s.baseline < s.value


@pytest.mark.parametrize("seed", range(6))
def test_three_words_never_do_less_than_one_even_in_a_quick_search(seed):
    text, phi = ow.gaussian(4, 6, seed=seed), ow.AttentionFeatures.draw(6, seed=seed)
    few = {"search": "quick", "certify": False, "baseline": 0}
    assert ow.sensitivity(phi, text, words=3, **few).value >= ow.sensitivity(phi, text, **few).value


def test_the_headline_says_what_the_sup_is_over():
    text, phi = ow.gaussian(4, 9, seed=0), ow.AttentionFeatures.draw(9, seed=0)
    for options, says in (
        ({}, "‖Δ‖ ≤ √d:"),
        ({"within": ow.Ball(0.5)}, "‖Δ‖ ≤ 0.5"),
        ({"within": ow.Sphere(largest=4)}, "‖y‖ = √d, ‖Δ‖ ≤ 4"),
        ({"positions": [2]}, "1 of 4 words may change"),
        ({"words": 2}, "2 words at once"),
    ):
        assert says in repr(ow.sensitivity(phi, text, **options, **QUICK))


def test_what_was_set_by_hand_is_what_is_done():
    text, phi = ow.gaussian(3, 4, seed=0), ow.RandomFeatures.draw(3, 4)
    by_hand = ow.Ascent(random=5, steps=7, keep=4, polish=0)
    s = ow.sensitivity(phi, text, search=by_hand, **QUICK)
    assert s.provenance["search"]["steps"] == 7
    assert s.status is ow.Status.UNPOLISHED
    assert ow.sensitivity(phi, text, **QUICK).provenance["search"]["steps"] == 4


def test_gradients_asked_for_elsewhere_do_not_matter():
    X = ow.gaussian(4, 5, seed=0).X.requires_grad_(True)
    W = torch.nn.Parameter(ow.AttentionFeatures.draw(5, seed=0).W)
    for phi in (ow.AttentionFeatures(W), ow.RandomFeatures.draw(4, 5), lambda x: x**2):
        s = ow.sensitivity(phi, X, certify=ow.Certify(1.5, 1.0), baseline=2)
        assert not s.delta.requires_grad


def test_a_scalar_map_has_a_sensitivity_too():
    assert ow.sensitivity(lambda X: X.square().sum(), ow.gaussian(3, 4), **QUICK).value > 0


def test_the_memory_of_a_module_counts_what_it_keeps_for_its_gradient():
    deep = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(20)])
    X = ow.gaussian(5, 8).X
    shallow, full = (ow.ModuleFeatures(module.double()).at(X) for module in (deep[:1], deep))
    assert full.bytes_per_candidate(1) > 5 * shallow.bytes_per_candidate(1)


def test_tied_layers_all_count():
    V, W = ow.gaussian(6, 8, seed=1).X, ow.gaussian(6, 6, seed=2).X
    X = ow.gaussian(2, 4, seed=3).X
    tied = ow.DeepRandomFeatures([V, W, W], 2)
    plain = torch.relu(W @ torch.relu(W @ torch.relu(V @ X.flatten())))
    assert plain.any()
    assert torch.allclose(tied(X), plain, rtol=1e-13)  # the sums may be in another order


def test_a_map_can_be_moved_to_another_precision():
    phi = ow.DeepRandomFeatures.draw(3, 4, depth=2, seed=0).float()
    same = ow.DeepRandomFeatures.draw(3, 4, depth=2, seed=0, dtype=torch.float32)
    X = ow.gaussian(3, 4, dtype=torch.float32).X
    assert torch.equal(phi(X), same(X))


@pytest.mark.parametrize(
    ("phi", "error", "says"),
    [
        (torch.nn.Sequential(torch.nn.Linear(4, 50), torch.nn.Dropout()).double(), RangeError, "eval"),
        (torch.nn.Linear(4, 2), DTypeError, "float32"),
        (lambda X: (X, X), ShapeError, "tuple"),
        (lambda X: torch.log(X + 1), NonFiniteError, "finite"),
        (lambda X: X.detach(), DTypeError, "differentiated"),
    ],
)
def test_maps_that_cannot_be_measured_say_why(phi, error, says):
    with pytest.raises(error, match=says):
        ow.sensitivity(phi, torch.ones(3, 4, dtype=torch.float64), **QUICK)


@pytest.mark.parametrize(
    ("x", "options", "error", "says"),
    [
        (torch.full((3, 4), math.nan, dtype=torch.float64), {}, NonFiniteError, "12 of 12"),
        (torch.ones(3, 4, dtype=torch.int64), {}, DTypeError, "got int64"),
        (torch.ones(3, 4, dtype=torch.float32), {}, DTypeError, "torch.float32"),
        (torch.zeros(0, 4, dtype=torch.float64), {}, ShapeError, r"\(0, 4\)"),
        (torch.ones(4, dtype=torch.float64), {}, ShapeError, r"\(4,\)"),
        (torch.ones(3, 5, dtype=torch.float64), {}, ShapeError, r"\(3, 5\)"),
        (torch.zeros(3, 4, dtype=torch.float64), {}, ZeroNormError, "norm"),
        ([[1.0, 2.0], [3.0]], {}, ShapeError, "ragged"),
        (torch.ones(3, 4, dtype=torch.float64), {"positions": [3]}, RangeError, r"\[3\]"),
        (torch.ones(3, 4, dtype=torch.float64), {"positions": []}, RangeError, "none"),
        (torch.ones(3, 4, dtype=torch.float64), {"words": 4}, RangeError, "1 … 3"),
        (torch.ones(3, 4, dtype=torch.float64), {"baseline": -1}, RangeError, "baseline"),
        (torch.ones(3, 4, dtype=torch.float64), {"positions": 1}, RangeError, "list"),
        (torch.ones(3, 4, dtype=torch.float64), {"positions": [1.7]}, RangeError, "whole"),
        (torch.ones(3, 4, dtype=torch.float64), {"words": 2.0}, RangeError, "whole"),
        (torch.ones(3, 4, dtype=torch.float64), {"certify": True}, RangeError, "Certify"),
        (torch.ones(3, 4, dtype=torch.float64), {"within": 3.0}, RangeError, "a Ball, a Sphere or a Vocabulary"),
        (torch.ones(3, 4, dtype=torch.bfloat16), {}, DTypeError, "bfloat16"),
    ],
)
def test_bad_input_is_a_named_one_line_error(x, options, error, says):
    with pytest.raises(error, match=says) as caught:
        ow.sensitivity(ow.AttentionFeatures.draw(4, seed=0), x, **options)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value)


def test_a_string_is_the_text_that_the_map_would_be_given():
    quick = {"search": "quick", "certify": False, "baseline": 0}
    phi = ow.AttentionFeatures.draw(32, seed=0, dtype=torch.float32)
    given, encoded = (ow.sensitivity(phi, x, **quick) for x in ("I love her", phi.encode("I love her")))
    assert given.provenance["dtype"] == "float32"
    assert given.provenance["d"] == 32
    assert given.value == encoded.value
    function = ow.sensitivity(lambda X: X.mean(-2), "I love her", **quick)
    assert function.provenance["dtype"] == "float64"


@pytest.mark.parametrize("name", ["attention", "attention-relu", "rf", "drf-2"])
def test_a_map_may_be_given_by_its_name(name):
    quick = {"search": "quick", "certify": False, "baseline": 0}
    text = ow.gaussian(5, 8, seed=1)
    named = ow.sensitivity(name, text, seed=3, **quick)
    drawn = ow.sensitivity(registry.draw(name, 5, 8, seed=3), text, seed=3, **quick)
    assert named.value == drawn.value
    table = ow.sensitivity(name, ["I love her", "A good film"], **quick)
    assert len(table) == 2


def test_a_model_may_be_given_by_its_name():
    quick = {"search": "quick", "certify": False, "baseline": 0, "positions": [2]}
    named = ow.sensitivity("minilm", "I love her", **quick)
    loaded = ow.sensitivity(ow.TransformerFeatures.load("minilm", output="pooled"), "I love her", **quick)
    assert named.value == loaded.value


def test_a_name_that_is_none_gets_a_hint():
    with pytest.raises(OnewordError, match="did you mean 'attention'"):
        ow.sensitivity("atention", "I love her")
