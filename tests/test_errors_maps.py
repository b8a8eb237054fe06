"""What a map cannot do is refused by name, in one line that says what was expected, what was given and what to do."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from oneword import memory
from oneword.errors import (
    DTypeError,
    MemoryLimitError,
    NonFiniteError,
    OnewordError,
    RangeError,
    ShapeError,
    UnknownNameError,
    ZeroNormError,
)
from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import FeatureMap, ModuleFeatures
from oneword.maps.multihead import MultiHeadAttention
from oneword.maps.random import DeepRandomFeatures, RandomFeatures
from oneword.maps.scores import SCORES, ReLU, score
from oneword.text.context import gaussian

N, D = 4, 3
X = gaussian(N, D, seed=0).X
DRAWS: dict[str, Callable[..., FeatureMap]] = {
    "RF": lambda **options: RandomFeatures.draw(N, D, **options),
    "DRF": lambda **options: DeepRandomFeatures.draw(N, D, depth=2, **options),
    "attention": lambda **options: AttentionFeatures.draw(D, **options),
    "attention sparsemax": lambda **options: AttentionFeatures.draw(D, score="sparsemax", **options),
    "heads": lambda **options: MultiHeadAttention.draw(D, heads=2, **options),
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))


def assert_refused(error: type[OnewordError], match: str, act: Callable[[], object]) -> None:
    """It raises this error, in one line."""
    with pytest.raises(error, match=match) as caught:
        act()
    assert "\n" not in str(caught.value)


# Texts that do not fit the map -------------------------------------------------------------------------------------


@every_draw
def test_features_of_norm_0_are_refused(draw: Callable[..., FeatureMap]) -> None:
    assert_refused(ZeroNormError, "positive norm, got 0", lambda: draw(seed=0).at(torch.zeros_like(X)))


def test_a_module_whose_features_vanish_or_overflow_is_refused() -> None:
    assert_refused(ZeroNormError, "positive norm, got 0", lambda: ModuleFeatures(lambda x: 0 * x).at(X))
    assert_refused(NonFiniteError, "finite features", lambda: ModuleFeatures(lambda x: x / 0).at(X))


@every_draw
def test_a_text_of_another_width_is_refused_with_both_shapes(draw: Callable[..., FeatureMap]) -> None:
    wide = gaussian(N, D + 1, seed=0).X
    for act in (draw(seed=0).at, draw(seed=0)):
        assert_refused(ShapeError, rf"{D}\), got \({N}, {D + 1}\)", lambda act=act: act(wide))


@pytest.mark.parametrize("name", ["RF", "DRF"])
def test_a_text_of_another_length_is_refused_where_the_map_has_a_length(name: str) -> None:
    long = gaussian(N + 1, D, seed=0).X
    assert_refused(ShapeError, rf"\({N}, {D}\), got \({N + 1}, {D}\)", lambda: DRAWS[name](seed=0).at(long))


@every_draw
def test_a_text_that_is_not_finite_is_refused_with_the_count(draw: Callable[..., FeatureMap]) -> None:
    bad = X.clone()
    bad[1] = torch.nan
    assert_refused(NonFiniteError, r"3 of 12 entries of X", lambda: draw(seed=0).at(bad))


@every_draw
def test_a_text_of_integers_or_another_dtype_is_refused(draw: Callable[..., FeatureMap]) -> None:
    assert_refused(DTypeError, "int64", lambda: draw(seed=0).at(X.long()))
    assert_refused(DTypeError, "float64.*float32", lambda: draw(seed=0).at(X.float()))
    assert_refused(DTypeError, "float32.*float64", lambda: draw(seed=0, dtype=torch.float32).at(X))


def test_one_position_alone_can_change_no_other() -> None:
    probe = RandomFeatures.draw(N, D, seed=0).alone(1).at(X)
    assert probe.positions == (1,)
    assert_refused(RangeError, "1", lambda: probe.change2(X[:1] + 1, torch.tensor([2])))


# Weights that make no map -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused_with_the_count(value: float) -> None:
    W, V = torch.eye(D), torch.ones(5, N * D)
    W[0, 1] = V[2, 3] = V[0, 0] = value
    assert_refused(NonFiniteError, "1 of 9 entries of W", lambda: AttentionFeatures(W))
    assert_refused(NonFiniteError, "2 of 60 entries of V", lambda: RandomFeatures(V, N))
    assert_refused(NonFiniteError, "2 of 60 entries of V", lambda: DeepRandomFeatures([V], N))
    assert_refused(
        NonFiniteError, "1 of 25 entries of V", lambda: DeepRandomFeatures([torch.ones(5, 12), _one_bad(value)], N)
    )


def _one_bad(value: float) -> Tensor:
    V = torch.ones(5, 5)
    V[4, 4] = value
    return V


def test_weights_of_the_wrong_shape_are_refused_with_their_shape() -> None:
    assert_refused(ShapeError, r"\(d, d\), got \(3, 4\)", lambda: AttentionFeatures(torch.ones(3, 4)))
    assert_refused(ShapeError, r"n = 5, got \(6, 12\)", lambda: RandomFeatures(torch.ones(6, 12), 5))
    assert_refused(ShapeError, r"got \(6,\)", lambda: RandomFeatures(torch.ones(6), 3))
    assert_refused(
        ShapeError, r"\(6, 6\), got \(6, 5\)", lambda: DeepRandomFeatures([torch.ones(6, 12), torch.ones(6, 5)], 4)
    )
    assert_refused(ShapeError, r"got shapes \[\]", lambda: DeepRandomFeatures([], 4))


def test_sizes_depths_and_positions_out_of_range_are_refused() -> None:
    assert_refused(RangeError, "k = 0", lambda: RandomFeatures.draw(N, D, k=0))
    assert_refused(RangeError, "depth = 0", lambda: DeepRandomFeatures.draw(N, D, depth=0))
    assert_refused(RangeError, "β = -1", lambda: DeepRandomFeatures.draw(N, D, depth=1, beta=-1.0))
    assert_refused(RangeError, r"0 … 3, got 4", lambda: RandomFeatures.draw(N, D).alone(4))
    assert_refused(RangeError, r"0 … 3, got -1", lambda: RandomFeatures.draw(N, D).alone(-1))
    assert_refused(RangeError, "1 … 2, got 3", lambda: DeepRandomFeatures.draw(N, D, depth=2).truncated(3))
    assert_refused(RangeError, "no law", lambda: RandomFeatures(torch.ones(5, N * D), N).alone(0))


def test_heads_that_do_not_fit_each_other_are_refused_with_their_shapes() -> None:
    W = torch.ones(2, D, 4, dtype=torch.float64)
    for wrong in (
        (W[0], W, W),
        (W, W[:, :, :3], W),
        (W, W, W[:1]),
        (W, W, W[:, :-1]),
        (W, W, W, torch.ones(7, 3).double()),
        (W[:, :, :0], W[:, :, :0], W),
    ):
        assert_refused(ShapeError, r"\(heads, d, d_h\).*got \(", lambda wrong=wrong: MultiHeadAttention(*wrong))
    bad = W.clone()
    bad[1, 2, 3] = torch.nan
    assert_refused(NonFiniteError, "1 of 24 entries of W_K", lambda: MultiHeadAttention(W, bad, W))
    assert_refused(DTypeError, "W_V in the torch.float64.*float32", lambda: MultiHeadAttention(W, W, W.float()))
    assert_refused(DTypeError, "dtype float32 or float64 .*got int64", lambda: MultiHeadAttention(W.long(), W, W))


def test_heads_that_cannot_be_drawn_are_refused() -> None:
    assert_refused(RangeError, "heads = 0", lambda: MultiHeadAttention.draw(D, heads=0))
    assert_refused(RangeError, "head_width = 0: give fewer heads", lambda: MultiHeadAttention.draw(D, heads=D + 1))
    assert_refused(RangeError, "head_width = -2", lambda: MultiHeadAttention.draw(D, heads=1, head_width=-2))
    assert_refused(RangeError, "d = 0", lambda: MultiHeadAttention.draw(0, heads=1, head_width=2))


def test_numbers_that_are_not_whole_are_refused() -> None:
    for act in (
        lambda: MultiHeadAttention.draw(D, heads=2.5),  # type: ignore[arg-type]
        lambda: MultiHeadAttention.draw(D, heads="2"),  # type: ignore[arg-type]
        lambda: MultiHeadAttention.draw(D, heads=1, head_width=1.5),  # type: ignore[arg-type]
        lambda: AttentionFeatures.draw(2.5),  # type: ignore[arg-type]
        lambda: RandomFeatures.draw(N, D, k=2.5),  # type: ignore[arg-type]
        lambda: DeepRandomFeatures.draw(N, D, depth=1.5),  # type: ignore[arg-type]
    ):
        assert_refused(RangeError, r"as a whole number, got .*: give an int", act)
    assert MultiHeadAttention.draw(D, heads=np.int64(3)).heads == 3  # type: ignore[arg-type]


def test_weights_that_are_no_tensors_are_refused_with_their_type() -> None:
    W, tensor = [[1.0]], torch.ones(1, 1, 1)
    assert_refused(DTypeError, "W_Q as a torch tensor, got list", lambda: MultiHeadAttention(W, W, W))  # type: ignore[arg-type]
    assert_refused(DTypeError, "W_K .*got NoneType", lambda: MultiHeadAttention(tensor, None, tensor))  # type: ignore[arg-type]
    assert_refused(DTypeError, "W_O .*got list", lambda: MultiHeadAttention(tensor, tensor, tensor, W))  # type: ignore[arg-type]
    assert_refused(DTypeError, "W as a torch tensor, got ndarray", lambda: AttentionFeatures(np.eye(3)))  # type: ignore[arg-type]
    assert_refused(DTypeError, "V as a torch tensor, got list", lambda: RandomFeatures(W, 1))  # type: ignore[arg-type]
    assert_refused(DTypeError, "layer of V as a torch tensor, got list", lambda: DeepRandomFeatures([W], 1))  # type: ignore[list-item]


@pytest.mark.parametrize("wrong", [None, ["relu"], 3, ReLU])
def test_a_score_that_is_neither_a_name_nor_a_score_is_refused(wrong: Any) -> None:
    for act in (
        lambda: score(wrong),
        lambda: AttentionFeatures.draw(D, score=wrong),
        lambda: MultiHeadAttention.draw(D, heads=1, score=wrong),
    ):
        assert_refused(UnknownNameError, "softmax.*, got .*: give one name, or an object", act)


@pytest.mark.parametrize("name", SCORES)
def test_scores_that_overflow_are_refused_as_such(name: str) -> None:
    """−∞ would pass for a hidden word, and NaN for a failure of the search."""
    words, W = X.float(), torch.full((D, D), 3e38)
    one = torch.eye(D)[None]
    for phi in (AttentionFeatures(W, score=name), MultiHeadAttention(W[None], one, one, score=name)):
        assert_refused(NonFiniteError, "finite scores.*overflow torch.float32", lambda phi=phi: phi.at(words))


@pytest.mark.parametrize("size", [1e18, 1e30])
@pytest.mark.parametrize("name", ["softmax", "relu", "sparsemax", "sigmoid"])
def test_keys_whose_squares_overflow_still_give_directions(name: str, size: float) -> None:
    """A search starts from where keys point to, whatever their length."""
    W, i = AttentionFeatures.draw(D, seed=1, dtype=torch.float32).W, torch.arange(N)[:, None]
    one = torch.eye(D)[None]
    for build in (
        lambda W: AttentionFeatures(W, score=name).at(X.float()),
        lambda W: MultiHeadAttention(W[None], one, one, score=name).at(X.float()),
    ):
        huge, moderate = build(size * W), build(W)
        assert torch.isfinite(huge.directions(i)).all()
        torch.testing.assert_close(huge.leading_direction(i), moderate.leading_direction(i), rtol=1e-4, atol=1e-5)


@every_draw
def test_seeds_that_mean_nothing_are_refused(draw: Callable[..., FeatureMap]) -> None:
    assert_refused(RangeError, "seed >= 0, got -1", lambda: draw(seed=-1))
    assert_refused(RangeError, "at most one of seed= and generator=", lambda: draw(seed=0, generator=torch.Generator()))


def test_unknown_names_are_answered_with_the_nearest() -> None:
    assert_refused(UnknownNameError, "did you mean 'softmax'", lambda: AttentionFeatures.draw(D, score="sotfmax"))
    assert_refused(
        UnknownNameError, "did you mean 'sparsemax'", lambda: MultiHeadAttention.draw(D, heads=1, score="sparsmax")
    )
    assert_refused(UnknownNameError, "got 'rellu'.*relu", lambda: RandomFeatures.draw(N, D, activation="rellu"))
    assert score(ReLU(normalise=False)).name == "relu-unnormalised"


# Memory -----------------------------------------------------------------------------------------------------------


def machine(monkeypatch: pytest.MonkeyPatch, gigabytes: int) -> None:
    """A computer of this size, whatever the tests run on."""
    monkeypatch.setattr(memory, "physical_memory", lambda: gigabytes << 30)


def test_random_features_too_large_for_the_machine_are_refused_at_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gigabytes=16)
    # One block of k = n·d = 3,840,000 times d = 768 numbers: 23.6 GB.
    assert_refused(MemoryLimitError, r"17\.2 GB, got 23\.6 GB: .*float32", lambda: RandomFeatures.draw(5000, 768))
    assert (
        RandomFeatures.draw(5000, 768, dtype=torch.float32).k == 3_840_000
    )  # half of it fits, and nothing is drawn yet
    assert RandomFeatures.draw(5000, 768, k=1000).k == 1000


def test_deep_features_too_large_for_the_machine_are_refused_at_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gigabytes=16)
    # Two layers of k = 38,400: 23.6 GB.
    message = re.escape("2 layers of 38,400 × 38,400")
    assert_refused(MemoryLimitError, message, lambda: DeepRandomFeatures.draw(50, 768, depth=3))


def test_what_no_machine_can_hold_is_refused_on_this_one() -> None:
    assert_refused(MemoryLimitError, "one block of V", lambda: RandomFeatures.draw(10**7, 768))
