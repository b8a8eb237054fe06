"""Landscapes with kinks, saturation or far maxima: the search reaches the best value known, or says it is unsure."""

import math

import pytest
import torch

from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import ModuleFeatures
from oneword.maps.random import RandomFeatures
from oneword.search.ascent import Ascent
from oneword.search.base import Found, Status
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import Ball
from oneword.text.context import clustered, gaussian


def _sensitivity(phi, X, within, seed: int) -> float:  # type: ignore[no-untyped-def]
    probe = phi.at(X)
    found = DefaultSearch().run(probe, torch.arange(len(X))[:, None], within, seed=seed)
    return math.sqrt(float(found.change2.max())) / probe.norm


# The best values known: benchmarks/hard_searches.py.
@pytest.mark.parametrize("seed", range(2))
def test_relu_attention_whose_best_word_attends_to_itself_alone(seed: int) -> None:
    phi = AttentionFeatures.draw(24, seed=7, score="relu")
    assert _sensitivity(phi, gaussian(50, 24, seed=30).X, Ball(), seed) >= 0.99 * 0.599


@pytest.mark.parametrize("seed", range(2))
def test_relu_attention_in_more_dimensions_than_words(seed: int) -> None:
    phi = AttentionFeatures.draw(48, seed=18, score="relu")
    assert _sensitivity(phi, clustered(12, 48, clusters=4, seed=18).X, Ball(), seed) >= 0.99 * 1.4506


def test_saturated_random_features() -> None:
    drawn = RandomFeatures.draw(8, 16, seed=12)
    V = 40 * torch.cat([drawn.blocks[i] for i in range(8)], 1)
    phi = RandomFeatures(V, 8, activation="tanh")
    assert _sensitivity(phi, gaussian(8, 16, seed=12).X, Ball(), 0) >= 0.98 * 1.0499


def _two_hills(narrow: float) -> Found:
    """A wide hill of height 1 along the first axis, and a higher one along the second, so narrow that few find it."""
    X = torch.full((1, 6), 0.1, dtype=torch.float64)
    axes = torch.eye(6, dtype=torch.float64)

    def hills(text: torch.Tensor) -> torch.Tensor:
        moved = (text - X)[..., 0, :] / math.sqrt(6)
        wide = torch.exp(-(moved - axes[0]).square().sum(-1))
        high = 2 * torch.exp(-(moved - axes[1]).square().sum(-1) / narrow)
        return torch.stack([1 + wide + high, torch.ones_like(wide)], -1)

    probe = ModuleFeatures(hills, batched=True).at(X)
    lonely = (X + math.sqrt(6) * 0.9 * axes[1])[None, None]
    return Ascent(random=8).run(probe, torch.tensor([[0]]), Ball(), starts=lonely)


def test_a_maximum_that_one_start_alone_found_is_not_called_converged() -> None:
    found = _two_hills(narrow=0.02)
    assert found.change2.max() > 2  # the higher hill
    assert found.status is Status.UNCONFIRMED
    assert "Ascent(random=" in found.status.remedy


def test_a_maximum_that_many_starts_find_is_converged() -> None:
    X = gaussian(3, 6, seed=0).X
    found = DefaultSearch().run(ModuleFeatures(lambda text: text.sum(-2)).at(X), torch.arange(3)[:, None], Ball())
    assert found.status is Status.CONVERGED


def test_copies_of_one_start_confirm_nothing() -> None:
    X = gaussian(3, 6, seed=0).X
    probe = ModuleFeatures(torch.tanh).at(X)
    start = Ball().toward(X[:, None, None], torch.ones(3, 1, 1, 6, dtype=torch.float64)).expand(3, 4, 1, 6)
    probe.directions = lambda i: start[i[:, 0]] - X[i][:, None]  # type: ignore[method-assign]
    found = Ascent(random=0, keep=5).run(probe, torch.arange(3)[:, None], Ball())
    assert found.status is Status.UNCONFIRMED
