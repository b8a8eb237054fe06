"""The frontier: within its limits, never rising, and as low as where the answer is known."""

import math
from functools import cache

import pytest
import torch
from torch import Tensor

from oneword.errors import RangeError
from oneword.learning import Interpolator, Training, WordChange
from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import ModuleFeatures
from oneword.text.context import gaussian
from tests.learning.cases import CASES, Case, changed, flat, moves, named, sample

GRID = [0.05, 0.5, 1.5]
SOME = named("RF", "DRF", "RAF, θ₀", "RAF x20", "ReLU-RAF", "RAF of two words", "RAF of one word")
some_cases = pytest.mark.parametrize("case", SOME, ids=str)
every_training = pytest.mark.parametrize("training", list(Training))


@cache
def frontier(case: Case, training: Training) -> list[WordChange]:
    return sample(case).frontier(training, GRID)


@some_cases
@every_training
def test_the_old_model_is_moved_no_further_than_allowed(case: Case, training: Training) -> None:
    learnt = sample(case)
    for g, point in zip(GRID, frontier(case, training), strict=True):
        assert point.gamma <= g
        assert point.limit == g
        assert point.delta.norm() <= math.sqrt(case.d) * (1 + 1e-12)
        assert point.identity_gap <= 1e-9
        phi = case.phi(changed(case.new[0], point.rows, point.delta)).flatten()
        assert float((phi - learnt.features) @ learnt.theta) == pytest.approx(point.signed_delta, abs=1e-9)


@some_cases
@every_training
def test_it_never_rises_and_never_is_above_the_unchanged_text(case: Case, training: Training) -> None:
    errs = [point.err for point in frontier(case, training)]
    assert errs == sorted(errs, reverse=True)
    assert errs[0] <= 4 + 1e-12


def test_the_order_of_the_grid_is_kept() -> None:
    case = SOME[0]
    backwards = sample(case).frontier("retrained", GRID[::-1])
    assert [point.limit for point in backwards] == GRID[::-1]
    errs = [point.err for point in backwards]
    assert errs == sorted(errs)


@some_cases
def test_random_changes_within_the_limit_are_above_it(case: Case) -> None:
    learnt = sample(case)
    i, D = moves(case, 300, 0)
    features = learnt.probe.features(learnt.probe.X[i] + D, i).reshape(300, -1)
    gamma = ((features - learnt.features) @ learnt.theta).abs()
    err = (features @ learnt.theta_r + learnt.y) ** 2
    for g, point in zip(GRID, frontier(case, Training.RETRAINED), strict=True):
        assert point.err <= min([4.0, *err[gamma <= g].tolist()]) + 1e-9


def known(w: Tensor, t: Tensor, residual: float, r: float, g: float) -> float:
    """The least (2 + t·Δ + residual·w·Δ)² with |t·Δ| ≤ g and ‖Δ‖ ≤ r: Δ along t, and the rest across it."""
    along = t / t.norm()
    drift = torch.linspace(-g, g, 2001, dtype=torch.float64)
    a = drift / t.norm()
    drift, a = drift[a.abs() <= r], a[a.abs() <= r]
    reach = (r**2 - a**2).sqrt() * (w - (w @ along) * along).norm() * abs(residual)
    middle = 2 + drift + residual * a * (w @ along)
    return float((middle.abs() - reach).clamp_min(0).square().min())


@pytest.mark.parametrize("sign", [1, -1], ids=["something to learn", "too sure already"])
@every_training
def test_a_linear_map_has_a_known_frontier(training: Training, sign: int) -> None:
    # φ = X: at position i, F − 1 = w·Δ and yδ = t·Δ.
    n, d, N = 3, 8, 14
    texts = torch.stack([gaussian(n, d, seed=j).X for j in range(N)])
    model = Interpolator.fit(ModuleFeatures(flat, batched=True), texts, [1, -1] * (N // 2))
    X = gaussian(n, d, seed=77).X if sign > 0 else 1.6 * texts[0] + 0.3 * gaussian(n, d, seed=78).X
    learnt = model.new_sample(X, 1)
    assert math.copysign(1, 1 - learnt.f) == sign
    u = learnt.features if training is Training.FINE_TUNED else learnt.outside
    w, t = (u / (learnt.features @ u)).view(n, d), learnt.theta.view(n, d)
    for point in learnt.frontier(training, GRID):
        truth = min(known(w[i], t[i], 1 - learnt.f, math.sqrt(d), point.limit) for i in range(n))
        assert point.err == pytest.approx(truth, rel=2e-2, abs=1e-4)


def test_attention_gets_below_the_bound_of_random_features() -> None:
    n, d, N = 20, 64, 60
    texts = torch.stack([gaussian(n, d, seed=j).X for j in range(N + 1)])
    model = Interpolator.fit(AttentionFeatures.draw(d, seed=0), texts[:N], [1, -1] * (N // 2))
    learnt = model.new_sample(texts[N], -1)
    assert abs(1 + learnt.f) > 0.25  # there is something to learn
    for training in Training:
        for point in learnt.frontier(training, GRID):
            assert point.err < (2 - point.limit) ** 2


@pytest.mark.parametrize("case", named("RF", "RAF of two words"), ids=str)
def test_several_words_lower_it(case: Case) -> None:
    one, two = (sample(case).frontier("retrained", GRID, words=m) for m in (1, 2))
    assert two[0].delta.shape == (2, case.d)
    for a, b in zip(one, two, strict=True):
        assert b.err <= a.err + 1e-12
    assert all(point.gamma <= g for g, point in zip(GRID, two, strict=True))


@pytest.mark.parametrize("case", named("RF", "RAF of two words"), ids=str)
def test_one_candidate_at_a_time_gives_much_the_same_frontier(case: Case) -> None:
    small = sample(case).frontier("retrained", GRID, memory=1)
    for a, b in zip(small, frontier(case, Training.RETRAINED), strict=True):
        assert a.gamma <= a.limit
        assert a.err == pytest.approx(b.err, rel=1e-2, abs=1e-12)  # one candidate alone climbs by other steps


def test_a_grid_is_of_positive_limits() -> None:
    for grid in ([], [0.0], [1.0, -1.0]):
        with pytest.raises(RangeError, match="expected a grid of g > 0"):
            sample(CASES[3]).frontier("retrained", grid)
