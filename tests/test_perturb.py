"""Ball and Sphere: the furthest point is the furthest, the nearest is the nearest, and nothing ever leaves the set."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from oneword.errors import RangeError, UnknownNameError
from oneword.sets.constraints import Ball, Constraint, Sphere, constraint, unit

# Radii and limits as multiples of √d, the norm of a word: a limit of √2 is a cap of exactly one half of the sphere.
BALLS = (None, 0.3, 2.0)
LIMITS = (None, 0.2, 1.0, math.sqrt(2), 1.9)
# A point is allowed if it lies outside by no more than a few roundings of numbers of the size of the word.
ROUNDING = 1e-12


def ball(d: int, radius: float | None) -> Ball:
    return Ball(None if radius is None else radius * math.sqrt(d))


def sphere(d: int, largest: float | None) -> Sphere:
    return Sphere(largest=None if largest is None else largest * math.sqrt(d))


def random(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def words(seed: int, n: int, d: int) -> Tensor:
    X = random(seed + 5000, n, d)  # a seed that nothing else here uses
    return X / X.norm(dim=1, keepdim=True) * math.sqrt(d)


dimensions, seeds = st.integers(1, 20), st.integers(0, 999)
constraints = st.one_of(
    st.builds(lambda r: lambda d: ball(d, r), st.sampled_from(BALLS)),
    st.builds(lambda r: lambda d: sphere(d, r), st.sampled_from(LIMITS)),
)


def allowed_points(within: Constraint, x: Tensor, seed: int, count: int = 1000) -> Tensor:
    """Random points of the set: of its boundary, and for a ball of its inside."""
    rng = np.random.default_rng(seed)
    y = within.sample(x, count, rng)
    if isinstance(within, Ball):
        y = x + (y - x) * torch.from_numpy(rng.random((count, 1)) ** (1 / len(x)))
    return y


@given(make=constraints, d=dimensions, seed=seeds)
def test_toward_is_allowed_and_no_allowed_point_lies_further(make, d: int, seed: int) -> None:
    within, x, g = make(d), words(seed, 1, d), random(seed + 1000, 1, d)
    y = within.toward(x, g)
    assert within.violation(x, y).max() <= ROUNDING
    points = allowed_points(within, x[0], seed)
    reached = float((y * g).sum())
    # Slack: rounding of inner products of vectors of norm 2√d and ‖g‖.
    assert (points @ g[0]).max() <= reached + 1e-12 * math.sqrt(d) * float(g.norm())


@given(make=constraints, d=dimensions, seed=seeds, distance=st.sampled_from((0.01, 0.5, 1.0, 5.0)))
def test_project_is_allowed_idempotent_and_nearest(make, d: int, seed: int, distance: float) -> None:
    within, x = make(d), words(seed, 1, d)
    z = x + distance * random(seed + 1000, 1, d)
    y = within.project(x, z)
    assert within.violation(x, y).max() <= ROUNDING
    assert (within.project(x, y) - y).norm() <= 1e-12 * math.sqrt(d)  # a few roundings
    points = allowed_points(within, x[0], seed)
    assert (y - z).norm() <= (points - z).norm(dim=1).min() + 1e-12 * math.sqrt(d)


@given(make=constraints, d=dimensions, seed=seeds)
def test_a_point_of_the_set_is_its_own_projection(make, d: int, seed: int) -> None:
    within, x = make(d), words(seed, 1, d)
    points = allowed_points(within, x[0], seed, count=20)
    there = within.project(x.expand_as(points), points)
    assert (there - points).norm(dim=1).max() <= 1e-7 * math.sqrt(d)  # at the rim √(1 − c²) loses half the digits


@given(make=constraints, d=dimensions, seed=seeds)
def test_samples_are_allowed_and_lie_on_the_boundary_of_a_ball(make, d: int, seed: int) -> None:
    within, x = make(d), words(seed, 1, d)[0]
    y = within.sample(x, 50, np.random.default_rng(seed))
    assert y.shape == (50, d)
    assert within.violation(x.expand_as(y), y).max() <= ROUNDING
    if isinstance(within, Ball):
        reach = within.reach(x[None])
        assert ((y - x).norm(dim=1) - reach).abs().max() <= ROUNDING * reach


@given(make=constraints, d=dimensions, seed=seeds)
def test_no_allowed_point_lies_beyond_the_reach(make, d: int, seed: int) -> None:
    within, x = make(d), words(seed, 1, d)
    far = (allowed_points(within, x[0], seed) - x).norm(dim=1).max()
    assert far <= within.reach(x)[0] * (1 + ROUNDING)


@given(
    make=constraints,
    d=dimensions,
    seed=seeds,
    size=st.sampled_from((0.0, 5e-324, 1e-310, 1e-300, 1e-160, 1.0, 1e160, 1e300)),
    kind=st.sampled_from(("random", "the word", "away from the word", "one axis")),
)
def test_whatever_the_direction_the_point_stays_allowed(make, d: int, seed: int, size: float, kind: str) -> None:
    within, x = make(d), words(seed, 3, d)
    axis = torch.zeros(3, d, dtype=x.dtype)
    axis[:, 0] = 1
    g = {"random": random(seed, 3, d), "the word": x, "away from the word": -x, "one axis": axis}[kind] * size
    y = within.toward(x, g)
    assert y.isfinite().all()
    assert within.violation(x, y).max() <= ROUNDING
    if size >= 1e-300:  # numbers of full precision: the size of a direction does not matter
        ordinary = (y * g / size).sum(1) >= (within.toward(x, g / size) * g / size).sum(1) - 1e-12 * d
        assert ordinary.all()


@pytest.mark.parametrize("d", [1, 2, 3, 9])
@pytest.mark.parametrize("limit", LIMITS)
def test_straight_away_from_a_word_lies_the_rim_for_every_word(d: int, limit: float | None) -> None:
    """What is left of −x across x is mere rounding, and may point anywhere: no word of 20,000 is led astray by it."""
    within, x = sphere(d, limit), words(3, 20_000, d)
    for g in (-x, -x + 1e-12 * random(4, 20_000, d)):
        y = within.toward(x, g)
        assert within.violation(x, y).max() <= ROUNDING
        if d > 1:  # at the rim: as far as allowed
            assert ((y - x).norm(dim=1) - within.reach(x)).abs().max() <= 1e-7 * math.sqrt(d)  # √(1 − c²) near c = −1


@given(d=dimensions, seed=seeds)
def test_unit_vectors_have_norm_1_and_zero_stays_zero(d: int, seed: int) -> None:
    v = random(seed, 8, d) * torch.logspace(-300, 300, 8, dtype=torch.float64)[:, None]
    assert (unit(v).norm(dim=1) - 1).abs().max() <= 1e-15 * d
    assert torch.equal(unit(torch.zeros(2, d)), torch.zeros(2, d))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("within", [Ball(), Sphere(), Sphere(largest=2.0)], ids=str)
def test_float32_stays_allowed_to_its_own_rounding(within: Constraint, dtype: torch.dtype) -> None:
    x = words(0, 40, 12).to(dtype)
    y = within.toward(x, random(1, 40, 12).to(dtype))
    z = within.project(x, x + 3 * random(2, 40, 12).to(dtype))
    for found in (y, z):
        assert found.dtype == dtype
        assert within.violation(x, found).max() <= 10 * torch.finfo(dtype).eps


# The laws of the samples. 4000 samples: the mean of d cosines of variance 1/d is known to 1/√(4000 d); five of those.


@pytest.mark.parametrize("d", [2, 3, 16])
@pytest.mark.parametrize("within", [Ball(), Ball(0.5), Sphere()], ids=str)
def test_samples_of_a_whole_sphere_have_no_preferred_direction(within: Constraint, d: int) -> None:
    x = words(1, 1, d)[0]
    y = within.sample(x, 4000, np.random.default_rng(5))
    away = unit(y - x if isinstance(within, Ball) else y)
    assert away.mean(0).abs().max() <= 5 / math.sqrt(4000 * d)
    second = away.T @ away / 4000
    assert (second - torch.eye(d) / d).abs().max() <= 5 * math.sqrt(2 / 4000) / d


@pytest.mark.parametrize("d", [2, 3, 16])
@pytest.mark.parametrize("limit", [0.3, 1.0, 1.6])
def test_samples_of_a_cap_are_those_of_the_sphere_that_fall_into_it(d: int, limit: float) -> None:
    x = words(2, 1, d)[0]
    cap = sphere(d, limit)
    found = unit(cap.sample(x, 4000, np.random.default_rng(6))) @ unit(x)
    # The law of a cosine on a cap: density (1 − t²)^((d−3)/2) from the rim to 1, here by angles, dt = sin θ dθ.
    angle = np.linspace(0, math.acos(1 - limit**2 / 2), 20_001)
    density = np.sin(angle) ** (d - 2)
    mean = float((density * np.cos(angle)).sum() / density.sum())
    spread = math.sqrt(float((density * (np.cos(angle) - mean) ** 2).sum() / density.sum()))
    # Five standard errors, and the error of the sum over 20,001 angles.
    assert abs(float(found.mean()) - mean) <= 5 * spread / math.sqrt(4000) + 1e-4


def test_the_same_generator_gives_the_same_samples() -> None:
    x = words(0, 1, 6)[0]
    for within in (Ball(), Sphere(), Sphere(largest=1.5)):
        first, second = (within.sample(x, 5, np.random.default_rng(9)) for _ in range(2))
        assert torch.equal(first, second)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("make", [Ball, lambda r: Sphere(norm=r), lambda r: Sphere(largest=r)])
def test_radii_that_mean_nothing_are_refused(make, bad: float) -> None:
    with pytest.raises(RangeError, match=r"expected \w+ > 0 and finite, got"):
        make(bad)


def test_a_word_too_far_from_the_sphere_is_refused_with_its_norm() -> None:
    x = 10 * words(0, 2, 4)
    with pytest.raises(RangeError, match=r"within 1 of the sphere of norm 2, got one of norm 20"):
        Sphere(largest=1.0).toward(x, x)


def test_what_is_allowed_is_written_down() -> None:
    assert Ball(2.0).describe() == {"set": "Ball", "radius": 2.0, "shown": "‖Δ‖ ≤ 2"}
    sphere = {"set": "Sphere", "norm": None, "largest": 1.0, "shown": "‖y‖ = √d, ‖Δ‖ ≤ 1"}
    assert Sphere(largest=1.0).describe() == sphere


def test_sets_have_names_for_people() -> None:
    assert constraint("ball", None, 16) == Ball()
    assert constraint("ball", 0.5, 16) == Ball(2.0)
    assert constraint("sphere", None, 16) == Sphere()
    assert constraint("sphere", 2.0, 16) == Sphere(largest=8.0)
    with pytest.raises(UnknownNameError, match="did you mean 'sphere'"):
        constraint("spere", None, 16)
