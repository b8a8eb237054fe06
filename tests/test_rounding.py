"""A value is attained up to 1 %, or it is 0: changes that rounding alone can explain are no lower bound."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch.func import jacrev

import oneword as ow
from oneword.maps.base import ModuleFeatures
from oneword.search.base import Status

N, D = 6, 8
W = torch.randn(32, N * D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
MAPS = {
    "rf": lambda dtype: ow.RandomFeatures.draw(N, D, seed=0, dtype=dtype),
    "drf": lambda dtype: ow.DeepRandomFeatures.draw(N, D, depth=3, seed=0, dtype=dtype),
    "attention": lambda dtype: ow.AttentionFeatures.draw(D, seed=0, dtype=dtype),
    "relu attention": lambda dtype: ow.AttentionFeatures.draw(D, score="relu", seed=0, dtype=dtype),
    "callable": lambda dtype: lambda X: torch.tanh(X.flatten(-2) @ W.to(X.dtype).mT / 8),
    "batched": lambda dtype: ModuleFeatures(lambda X: torch.tanh(X.flatten(-2) @ W.to(X.dtype).mT / 8), batched=True),
}
DTYPES = [torch.float32, torch.float64]
TINY = [10.0**e for e in (-18, -16, -15, -14, -13, -12, -10, -8, -7, -6, -5, -4)]


def _in_double(phi):
    """The same weights, every digit of them, in float64."""
    return copy.deepcopy(phi).double() if isinstance(phi, torch.nn.Module) else phi


def _gain(phi, X, i):
    """sup of ‖J_i Δ‖/‖φ(X)‖ over ‖Δ‖ ≤ 1."""
    X = X.double()
    J = jacrev(lambda y: phi(torch.cat([X[:i], y[None], X[i + 1 :]])).flatten())(X[i])
    return float(torch.linalg.matrix_norm(J, 2) / phi(X).norm())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)
def test_no_tiny_ball_has_more_than_its_first_order_gain(make, dtype):
    X = ow.gaussian(N, D, seed=1, dtype=dtype).X
    phi = make(dtype)
    most = max(_gain(_in_double(phi), X, i) for i in range(N))
    for radius in TINY:
        found = ow.sensitivity(phi, X, within=ow.Ball(radius), certify=False, baseline=4)
        assert found.value <= 1.01 * most * radius, radius
        assert float(found.delta.double().norm()) <= 1.01 * radius
        assert all(float(delta.double().norm()) <= 1.01 * radius for delta in found.deltas.values())
        assert (found.status is Status.ROUNDING) == (found.value == 0)
        assert found.value == 0 or found.value > found.provenance["rounding"]["floor"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)
def test_a_value_is_attained_by_its_delta_up_to_one_per_cent(make, dtype):
    X = ow.gaussian(N, D, seed=1, dtype=dtype).X
    phi = make(dtype)
    exact, X64 = _in_double(phi), X.double()
    for radius in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0):
        found = ow.sensitivity(phi, X, within=ow.Ball(radius), certify=False, baseline=0, search="quick")
        changed = X64.clone()
        changed[found.position] += found.delta.double()
        truth = float((exact(changed) - exact(X64)).norm() / exact(X64).norm())
        assert found.value == pytest.approx(truth, rel=0.01, abs=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_below_the_floor_the_value_is_zero_and_says_what_to_do(dtype):
    X = ow.gaussian(N, D, seed=1, dtype=dtype).X
    found = ow.sensitivity(MAPS["attention"](dtype), X, within=ow.Ball(1e-16))
    assert (found.value, found.status) == (0.0, Status.ROUNDING)
    assert not found.delta.any()
    assert math.isnan(found.baseline)
    assert found.upper is None or found.upper >= 0
    assert "raise the radius or use float64" in repr(found)
    rounding = found.to_dict()["provenance"]["rounding"]
    assert rounding["positions_below"] == list(range(N))
    assert 0 < rounding["floor"] < 1e5 * torch.finfo(dtype).eps


def test_several_words_at_once_have_a_floor_too():
    found = ow.sensitivity(MAPS["rf"](torch.float64), ow.gaussian(N, D, seed=1).X, words=2, within=ow.Ball(1e-16))
    assert (found.value, found.status) == (0.0, Status.ROUNDING)


def test_a_word_that_does_nothing_is_not_called_noise():
    """Only the last word is seen: the others change nothing at all, whatever the radius."""
    found = ow.sensitivity(lambda X: X[..., -1:, :].tanh(), ow.gaussian(3, 4, seed=0).X)
    assert found.position == 2
    assert found.per_word["value"].tolist()[:2] == [0.0, 0.0]
    assert found.provenance["rounding"]["positions_below"] == []
    assert found.status is not Status.ROUNDING


def test_a_file_keeps_the_floor(tmp_path):
    found = ow.sensitivity(MAPS["rf"](torch.float64), ow.gaussian(N, D, seed=1).X, within=ow.Ball(1e-16))
    again = ow.Sensitivity.load(found.save(tmp_path / "a.json"))
    assert again.status is Status.ROUNDING
    assert again.provenance["rounding"] == found.provenance["rounding"]
    assert repr(again) == repr(found)
