"""Compiled loops for short texts give what the tensors give, at nasty texts too."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oneword as ow
from oneword.maps import short_texts

SIZES = [(1, 3), (2, 1), (2, 8), (4, 8), (8, 16), (32, 4), (128, 1)]


def both(phi, X, y, i):
    """Value and gradient by loops, and by tensors."""
    probe = phi.at(X)
    assert probe._short
    loops = probe.slope_at(i)(y)
    value, gradient = probe._one_row(y, probe._places(i), need_gradient=True)
    return loops, (value, gradient)


@settings(max_examples=60)
@given(
    size=st.sampled_from(SIZES),
    scale=st.sampled_from([0.01, 0.05, 1.0, 10.0, 50.0]),
    reach=st.sampled_from([0.0, 1e-8, 1.0, 3.0]),
    twins=st.booleans(),
    seed=st.integers(0, 99),
)
def test_loops_and_tensors_agree(size, scale, reach, twins, seed) -> None:
    n, d = size
    X = ow.gaussian(n, d, seed=seed).X
    if twins and n > 1:
        X = torch.cat([X[:1].expand(n - 1, -1), X[-1:]])
    phi = ow.AttentionFeatures.draw(d, seed=seed)
    phi = ow.AttentionFeatures(scale * phi.W)
    draw = torch.Generator().manual_seed(seed)
    i = torch.randint(n, (7,), generator=draw)
    y = X[i] + reach * torch.randn((7, d), generator=draw, dtype=torch.float64)
    (value, gradient), (true_value, true_gradient) = both(phi, X, y, i)
    torch.testing.assert_close(value, true_value, rtol=1e-9, atol=1e-9)
    largest = float(true_gradient.abs().max())
    torch.testing.assert_close(gradient, true_gradient, rtol=1e-9, atol=1e-9 * max(1.0, largest))


def test_a_gradient_is_that_of_a_forward_pass() -> None:
    phi = ow.AttentionFeatures.draw(8, seed=1)
    X = ow.gaussian(4, 8, seed=2).X
    i = torch.tensor([2])
    y = (X[i] + 0.5 * torch.randn((1, 8), dtype=torch.float64)).requires_grad_()
    changed = X.index_copy(0, i, y)
    true = (phi(changed) - phi(X)).square().sum()
    (uphill,) = torch.autograd.grad(true, y)
    value, gradient = phi.at(X).slope_at(i)(y.detach())
    torch.testing.assert_close(value[0], true.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, uphill, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("n", "d"), [(9, 16), (4, 17), (129, 1)])
def test_longer_and_wider_texts_use_tensors(n: int, d: int) -> None:
    phi = ow.AttentionFeatures.draw(d, seed=1)
    assert not phi.at(ow.gaussian(n, d, seed=2).X)._short
    assert n * d > short_texts.MOST or d > short_texts.WIDEST


def test_float32_and_other_scores_use_tensors() -> None:
    X = ow.gaussian(4, 8, seed=2).X
    assert not ow.AttentionFeatures.draw(8, seed=1, dtype=torch.float32).at(X.float())._short
    assert not ow.AttentionFeatures.draw(8, seed=1, score="relu").at(X)._short
