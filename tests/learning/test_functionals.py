"""Functionals of changed texts: the fast form of attention is the plain one, values and gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from oneword.learning.functionals import AttentionFunctionals, Functionals, functionals
from oneword.maps.attention import AttentionFeatures
from oneword.maps.random import RandomFeatures
from oneword.text.context import clustered


def draw(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def with_gradient(h: Functionals, y: Tensor, i: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone().requires_grad_(True)
    values = h(y, i)
    return values.detach(), torch.autograd.grad((values * weights).sum(), y)[0]


@pytest.mark.parametrize("score", ["softmax", "relu", "relu-unnormalised"])
@given(
    n=st.integers(1, 9),
    d=st.integers(2, 9),
    r=st.integers(1, 3),
    scale=st.sampled_from([0.1, 1.0, 10.0, 50.0]),
    seed=st.integers(0, 99),
)
def test_the_fast_form_of_attention_is_the_plain_one(
    score: str, n: int, d: int, r: int, scale: float, seed: int
) -> None:
    W = scale * AttentionFeatures.draw(d, seed=seed).W
    X = clustered(n, d, clusters=2, seed=seed).X
    phi = AttentionFeatures(W, score=score)
    if not phi(X).any():  # no attention anywhere: `at` refuses such a text
        return
    probe, V = phi.at(X), draw(seed, r, n * d)
    i = torch.arange(n).repeat(2)
    y, weights = X[i] + draw(seed + 1, 2 * n, d), draw(seed + 2, 2 * n, r)
    fast, plain = functionals(probe, V), Functionals(probe, V)
    assert isinstance(fast, AttentionFunctionals)
    (value, gradient), (true, true_gradient) = (with_gradient(h, y, i, weights) for h in (fast, plain))
    # Sums of n·d products; scores of size `scale` lose that many more digits in exp.
    size = float(V.norm() * X.norm())
    assert (value - true).abs().max() <= 1e-13 * size * max(1, scale)
    assert (gradient - true_gradient).abs().max() <= 1e-11 * max(1.0, scale) ** 2 * size
    # One row given as a set of one row, and each candidate by itself, say the same.
    assert torch.allclose(fast(y[:, None], i[:, None]), value, rtol=0, atol=1e-13 * size)


def test_gradients_agree_with_differences() -> None:
    probe = AttentionFeatures.draw(5, seed=0).at(clustered(6, 5, seed=0).X)
    h = functionals(probe, draw(1, 2, 30))
    y = (probe.X + draw(2, 6, 5)).requires_grad_(True)
    torch.autograd.gradcheck(lambda y: h(y, torch.arange(6)), y)


def test_several_rows_go_through_the_features() -> None:
    probe = AttentionFeatures.draw(5, seed=0).at(clustered(6, 5, seed=0).X)
    V, i, y = draw(1, 2, 30), torch.tensor([[0, 3], [2, 1]]), draw(2, 2, 2, 5)
    assert torch.equal(functionals(probe, V)(y, i), probe.features(y, i).flatten(1) @ V.mT)


def test_what_is_held_for_some_rows_gives_the_same_values() -> None:
    probe = RandomFeatures.draw(4, 5, k=30, seed=0).at(clustered(4, 5, seed=0).X)
    V, i, y = draw(1, 2, 30), torch.tensor([1, 2]), draw(2, 2, 5)
    h = functionals(probe, V)
    near = h.near((1, 2))
    assert near is not h
    assert torch.equal(near(y, i), h(y, i))
