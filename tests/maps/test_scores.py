"""Score functions: what their weights are, what −∞ means, and the derivatives that are written by hand."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from oneword.maps.scores import SCORES, GroupedScore, Score
from oneword.maps.scores.normalised import sparsemax

GROUPED = [score for score in SCORES.values() if isinstance(score, GroupedScore)]
every = pytest.mark.parametrize("score", SCORES.values(), ids=list(SCORES))
grouped = pytest.mark.parametrize("score", GROUPED, ids=[score.name for score in GROUPED])


def rows(scale: float = 1.0, n: int = 7) -> Tensor:
    return scale * torch.from_numpy(np.random.default_rng(0).standard_normal((9, n)))


@every
@pytest.mark.parametrize("scale", [0.05, 1.0, 50.0])
def test_a_hidden_word_is_a_word_that_is_not_there(score: Score, scale: float) -> None:
    s = rows(scale)
    hidden = torch.cat([s[:, :3], torch.full((9, 2), -torch.inf, dtype=s.dtype), s[:, 3:]], 1)
    weights = score.attend(hidden)
    assert (weights[:, 3:5] == 0).all()
    torch.testing.assert_close(weights[:, [0, 1, 2, 5, 6, 7, 8]], score.attend(s), rtol=1e-14, atol=1e-15)


@every
def test_gradients_past_a_hidden_word_are_finite(score: Score) -> None:
    s = rows()
    s[:, 2] = -torch.inf
    s.requires_grad_(True)
    (gradient,) = torch.autograd.grad(score.attend(s).square().sum(), s)
    assert gradient.isfinite().all()
    assert (gradient[:, 2] == 0).all()


@every
def test_normalised_weights_are_shares(score: Score) -> None:
    weights = score.attend(rows(3.0))
    if score.normalised:
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(1), torch.ones(9, dtype=weights.dtype), rtol=1e-14, atol=0)
    else:
        assert not torch.allclose(weights.sum(1), torch.ones(9, dtype=weights.dtype))


@grouped
@pytest.mark.parametrize("scale", [0.05, 1.0, 50.0])
def test_a_word_beside_the_rest_has_its_weight(score: GroupedScore, scale: float) -> None:
    """share(mass, rest) is the weight, whatever the word: the grouping property."""
    s = rows(scale)
    torch.testing.assert_close(score.share(score.mass(s), score.rest(s)), score.attend(s), rtol=1e-12, atol=1e-300)


@grouped
def test_slope_and_pull_are_the_derivatives(score: GroupedScore) -> None:
    s, along = rows(), rows().flip(0)
    s.requires_grad_(True)
    rest = score.rest(s).detach()
    share = score.share(score.mass(s), rest)
    (slope,) = torch.autograd.grad(share.sum(), s)
    torch.testing.assert_close(score.slope(s, share, rest).detach(), slope, rtol=1e-12, atol=1e-15)
    weights = score.attend(s)
    (pulled,) = torch.autograd.grad((weights * along).sum(), s)
    torch.testing.assert_close(score.pull(weights, s, along).detach(), pulled, rtol=1e-12, atol=1e-15)


@grouped
def test_nothing_comes_of_a_score_of_minus_infinity(score: GroupedScore) -> None:
    """Row i of `LeaveOneOut` and hidden words have it."""
    gone, rest = torch.full((3,), -torch.inf, dtype=torch.float64), torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    share = score.share(score.mass(gone), rest)
    assert (share == 0).all()
    assert (score.slope(gone, share, rest) == 0).all()


# Sparsemax --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.05, 1.0, 50.0])
def test_sparsemax_is_the_nearest_point_of_the_simplex(scale: float) -> None:
    """The nearest among the projections on all faces, which are the sets of words that may have weight."""
    for s in rows(scale, n=5).numpy():
        points = []
        for size in range(1, 6):
            for face in map(list, itertools.combinations(range(5), size)):
                p = np.zeros(5)
                p[face] = s[face] - (s[face].sum() - 1) / size
                if (p >= 0).all():
                    points.append(p)
        nearest = min(points, key=lambda p: float(((p - s) ** 2).sum()))
        np.testing.assert_allclose(sparsemax(torch.from_numpy(s)).numpy(), nearest, rtol=0, atol=1e-13 * max(1, scale))


def test_sparsemax_of_equal_scores_is_uniform_and_of_a_clear_winner_is_one() -> None:
    assert torch.equal(sparsemax(torch.full((4,), 1e8, dtype=torch.float64)), torch.full((4,), 0.25).double())
    assert torch.equal(sparsemax(torch.tensor([1e8, 3.0, -torch.inf])), torch.tensor([1.0, 0.0, 0.0]))
    assert torch.equal(sparsemax(torch.tensor([7.0])), torch.tensor([1.0]))


def test_sparsemax_moves_no_further_than_its_scores() -> None:
    """A projection is 1-Lipschitz: the certificate stands on it."""
    s, t = rows(), rows(2.0).flip(1)
    assert ((sparsemax(s) - sparsemax(t)).norm(dim=1) <= (s - t).norm(dim=1)).all()


def test_the_gradient_of_sparsemax_is_that_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(sparsemax, rows().requires_grad_(True))
