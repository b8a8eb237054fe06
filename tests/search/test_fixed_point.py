"""A lone climb: never leaves the set, reports what it attained, and loses nothing against plain steps."""

import pytest
import torch
from torch import Tensor

from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import Probe
from oneword.maps.random import DeepRandomFeatures
from oneword.search.fixed_point import climb_to_fixed_point
from oneword.sets.constraints import Ball, Constraint, Sphere
from oneword.text.context import clustered, gaussian


def _with_gradient(probe: Probe, i: Tensor):  # type: ignore[no-untyped-def]
    def at(y: Tensor) -> tuple[float, Tensor]:
        value, gradient = probe.value_and_gradient(y[None], i)
        return float(value), gradient[0]

    return at


def _plain(probe: Probe, i: Tensor, y: Tensor, within: Constraint) -> float:
    """The conditional gradient by its definition, up to the first step that falls."""
    best = 0.0
    while True:
        value, gradient = probe.value_and_gradient(y[None], i)
        if float(value) <= best:
            return best
        best = float(value)
        y = within.toward(probe.X[i[0]], gradient[0])


@pytest.mark.parametrize("within", [Ball(), Ball(0.5), Sphere()], ids=["ball", "small ball", "sphere"])
@pytest.mark.parametrize("rows", [[0], [3, 1]], ids=["one word", "two words"])
@pytest.mark.parametrize("seed", range(4))
def test_as_good_as_plain_steps(within: Constraint, rows: list[int], seed: int) -> None:
    X = gaussian(40, 96, seed=seed).X
    probe, i = AttentionFeatures.draw(96, seed=seed).at(X), torch.tensor([rows])
    start = within.toward(X[rows], probe.leading_direction(i)[0, 0])
    value, y = climb_to_fixed_point(_with_gradient(probe, i), X[rows], start, within, 400)
    assert value >= _plain(probe, i, start, within) * (1 - 1e-12)
    assert float(within.violation(X[rows], y).max()) <= 1e-12
    assert value == pytest.approx(float(probe.change2(y[None], i)), rel=1e-12)


def test_a_flat_maximum_takes_fewer_steps() -> None:
    X = gaussian(100, 192, seed=2).X
    probe, i = AttentionFeatures.draw(192, seed=2).at(X), torch.tensor([[0]])
    start, calls = Ball().toward(X[[0]], probe.leading_direction(i)[0, 0]), {"mixed": 0, "plain": 0}

    def counted(who: str):  # type: ignore[no-untyped-def]
        def at(y: Tensor) -> tuple[float, Tensor]:
            calls[who] += 1
            return _with_gradient(probe, i)(y)

        return at

    climb_to_fixed_point(counted("mixed"), X[[0]], start, Ball(), 400)
    best, y, at = 0.0, start, counted("plain")
    while (step := at(y))[0] > best * (1 + 1e-15):
        best, y = step[0], Ball().toward(X[[0]], step[1])
    assert calls["mixed"] < calls["plain"]


@pytest.mark.parametrize("scale", [10, 50])
def test_sharp_attention_and_repeated_words(scale: float) -> None:
    X = clustered(12, 16, clusters=2, within=1.0, seed=0).X  # within=1: the words of a cluster are equal
    probe = AttentionFeatures(scale * AttentionFeatures.draw(16, seed=1).W).at(X)
    for row in range(3):
        i = torch.tensor([[row]])
        start = Ball().toward(X[[row]], probe.leading_direction(i)[0, 0])
        value, y = climb_to_fixed_point(_with_gradient(probe, i), X[[row]], start, Ball(), 60)
        assert value >= float(probe.change2(start[None], i))
        assert float(Ball().violation(X[[row]], y).max()) <= 1e-12


def test_a_map_that_does_not_move_ends_at_once() -> None:
    def flat(y: Tensor) -> tuple[float, Tensor]:
        return 0.0, torch.zeros_like(y)

    x = torch.ones(1, 4, dtype=torch.float64)
    value, y = climb_to_fixed_point(flat, x, x, Ball(), 50)
    assert value == 0.0
    assert torch.equal(y, x)


def test_deep_random_features() -> None:
    X = gaussian(12, 16, seed=0).X
    probe, i = DeepRandomFeatures.draw(12, 16, depth=3, seed=0).at(X), torch.tensor([[2]])
    start = Ball().toward(X[[2]], probe.leading_direction(i)[0, 0])
    value, _ = climb_to_fixed_point(_with_gradient(probe, i), X[[2]], start, Ball(), 100)
    assert value >= _plain(probe, i, start, Ball()) * (1 - 1e-9)
