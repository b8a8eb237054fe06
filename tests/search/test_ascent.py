"""The search: what it reports is attained, allowed, the best it saw, and as good as a plain ascent from many starts."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from oneword.errors import RangeError
from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import FeatureMap, ModuleFeatures, Probe, replace_rows
from oneword.maps.random import DeepRandomFeatures, RandomFeatures
from oneword.search.ascent import Ascent
from oneword.search.base import Found, Status
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import Ball, Constraint, Sphere
from oneword.text.context import clustered, gaussian
from tests.conformance import DOUBLE, DOUBLE_FLOOR

N, D = 10, 8


@dataclass(frozen=True)
class Case:
    """A map at a text."""

    name: str
    phi: FeatureMap
    X: Tensor

    def __str__(self) -> str:
        return self.name

    @property
    def rows(self) -> Tensor:
        return torch.arange(len(self.X))[:, None]


def attention(score: str, scale: float) -> AttentionFeatures:
    return AttentionFeatures(scale * AttentionFeatures.draw(D, score=score, seed=5).W, score=score)


GAUSSIAN = gaussian(N, D, seed=1).X
CLUSTERS = clustered(16, D, clusters=3, within=0.8, seed=2).X
CASES = [
    Case("softmax", attention("softmax", 1), GAUSSIAN),
    Case("softmax x10", attention("softmax", 10), GAUSSIAN),
    Case("softmax x50", attention("softmax", 50), GAUSSIAN),
    Case("softmax x10 clusters", attention("softmax", 10), CLUSTERS),
    Case("relu", attention("relu", 1), GAUSSIAN),
    Case("relu x50 clusters", attention("relu", 50), CLUSTERS),
    Case("relu-unnormalised", attention("relu-unnormalised", 1), GAUSSIAN),
    Case("RF tanh", RandomFeatures.draw(16, D, k=60, activation="tanh", seed=0), CLUSTERS),
    Case("DRF", DeepRandomFeatures.draw(N, D, depth=3, seed=0), GAUSSIAN),
    Case("module", ModuleFeatures(lambda X: torch.sin(X.cumsum(-2)), batched=True), GAUSSIAN),
]
# Of every kind, the one with the largest Δ inside the ball, outside of it, and cut by a rim.
SETS = [Ball(), Sphere(), Sphere(largest=math.sqrt(D))]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_set = pytest.mark.parametrize("within", SETS, ids=str)


def named(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [case for case in CASES if case.name in names], ids=str)


@cache
def full(case: Case, within: Constraint) -> Found:
    return DefaultSearch().run(case.phi.at(case.X), case.rows, within, baseline=8)


def plain(case: Case, rows: Tensor, y: Tensor) -> Tensor:
    """‖φ(changed X) − φ(X)‖² of each candidate, by one forward pass each."""
    texts = replace_rows(case.X, y, rows)
    return torch.stack([(case.phi(text) - case.phi(case.X)).square().sum() for text in texts])


def assert_reproduced(found: Tensor, truth: Tensor, case: Case) -> None:
    floor = DOUBLE_FLOOR * case.phi(case.X).square().sum()  # what a Probe promises: see tests/conformance.py
    assert ((found - truth).abs() <= DOUBLE * truth.clamp_min(float(floor))).all()


@every_case
@every_set
def test_no_new_word_lies_outside_the_set(case: Case, within: Constraint) -> None:
    for found in (full(case, within), DefaultSearch(quick=True).run(case.phi.at(case.X), case.rows, within)):
        # A few roundings of a point that was put onto the boundary.
        assert within.violation(case.X[case.rows], found.y).max() <= 1e-12


@every_case
@every_set
def test_a_plain_forward_pass_reproduces_the_value(case: Case, within: Constraint) -> None:
    found = full(case, within)
    assert_reproduced(found.change2, plain(case, case.rows, found.y), case)


@every_case
@every_set
def test_random_words_are_reported_beside_the_best_and_never_beat_it(case: Case, within: Constraint) -> None:
    found = full(case, within)
    assert found.baseline2.shape == (len(case.X), 8)
    assert found.baseline2.max() <= found.change2.max()


@every_case
@every_set
def test_the_quick_search_never_finds_more_than_the_full_one(case: Case, within: Constraint) -> None:
    quick, best = DefaultSearch(quick=True).run(case.phi.at(case.X), case.rows, within), full(case, within)
    # The polish of the full search stops where fifteen steps bring less than 1e-6 …
    assert quick.change2.max() <= best.change2.max() * (1 + 1e-6)
    # … and positions that do not lead are not polished, so the `finish` of the quick one may be a little ahead there.
    assert (quick.change2 <= best.change2 * (1 + 1e-3)).all()


def plain_ascent(case: Case, starts: int = 10, steps: int = 300) -> float:
    """The best of many projected ascents at every position, in the ball: autograd, forward passes, a falling step."""
    n, r = len(case.X), math.sqrt(D)
    rng = np.random.default_rng(0)
    rows = torch.arange(n).repeat(starts)
    start = torch.from_numpy(rng.standard_normal((len(rows), D)))
    delta = r * start / start.norm(dim=1, keepdim=True)
    best = torch.zeros(len(rows), dtype=torch.float64)
    clean = case.phi(case.X)
    for step in range(steps):
        delta.requires_grad_(True)
        features = case.phi(replace_rows(case.X, case.X[rows] + delta, rows))
        value = (features - clean).flatten(1).square().sum(1)
        best = torch.maximum(best, value.detach())
        (g,) = torch.autograd.grad(value.sum(), delta)
        length = 0.5 * r * (1 - step / steps)
        delta = delta.detach() + length * g / g.norm(dim=1, keepdim=True).clamp_min(1e-300)
        delta = delta * (r / delta.norm(dim=1, keepdim=True)).clamp_max(1)
    return float(best.max())


@every_case
def test_the_full_search_reaches_what_a_plain_ascent_from_ten_starts_reaches(case: Case) -> None:
    # 0.99 of the sensitivity is 0.98 of its square.
    assert full(case, Ball()).change2.max() >= 0.99**2 * plain_ascent(case)


@dataclass
class Watched(Probe):
    """A Probe that notes the largest value it ever gave for each set of rows."""

    inside: Probe
    largest: dict[tuple[int, ...], float]

    @classmethod
    def of(cls, probe: Probe) -> "Watched":
        watched = cls(probe, {})
        watched.X, watched.norm = probe.X, probe.norm
        return watched

    def __getattr__(self, name: str) -> object:
        return getattr(self.inside, name)

    def _note(self, value: Tensor, i: Tensor) -> Tensor:
        for v, rows in zip(value.tolist(), i.tolist(), strict=True):
            self.largest[tuple(rows)] = max(v, self.largest.get(tuple(rows), -math.inf))
        return value

    def change2(self, y: Tensor, i: Tensor) -> Tensor:
        return self._note(self.inside.change2(y, i), i)

    def value_and_gradient(self, y: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = self.inside.value_and_gradient(y, i)
        return self._note(value, i), gradient

    def features(self, y: Tensor, i: Tensor) -> Tensor:
        return self.inside.features(y, i)

    def bytes_per_candidate(self, m: int) -> int:
        return self.inside.bytes_per_candidate(m)

    def directions(self, i: Tensor) -> Tensor | None:
        return self.inside.directions(i)

    def leading_direction(self, i: Tensor) -> Tensor | None:
        return self.inside.leading_direction(i)


@every_case
@pytest.mark.parametrize("search", [DefaultSearch(), DefaultSearch(quick=True)], ids=["full", "quick"])
def test_what_is_reported_is_the_best_that_was_ever_evaluated(case: Case, search: Ascent) -> None:
    probe = Watched.of(case.phi.at(case.X))
    found = search.run(probe, case.rows, Ball())
    assert found.change2.tolist() == [probe.largest[(i,)] for i in range(len(case.X))]


@named("softmax x10", "relu x50 clusters", "RF tanh", "module")
def test_a_position_does_not_notice_which_others_are_searched_beside_it(case: Case) -> None:
    # Two rows, so that both are polished. memory=1 evaluates candidates one by one: sums in another order
    # differ by an ulp, which a sharp or kinked landscape turns into another maximum, and that is not the question.
    search, some, probe = Ascent(random=2, polish=30, memory=1), case.rows[:2], case.phi.at(case.X)
    together = search.run(probe, some, Ball(), baseline=4)
    for j in range(2):
        alone = search.run(probe, some[j : j + 1], Ball(), baseline=4)
        assert torch.allclose(alone.change2, together.change2[j : j + 1], rtol=1e-9, atol=0)
        # The same random words; a Probe near one row is prepared with sums in another order.
        assert torch.allclose(alone.baseline2, together.baseline2[j : j + 1], rtol=1e-13, atol=0)


@named("softmax", "RF tanh", "module")
def test_small_batches_give_the_numbers_of_one_large_batch(case: Case) -> None:
    few, probe = case.rows[:3], case.phi.at(case.X)
    large, small = (Ascent(memory=memory).run(probe, few, Ball()) for memory in (1 << 30, 20_000))
    # Sums in another order, carried through the search: the polish stops at 1e-6.
    assert torch.allclose(large.change2, small.change2, rtol=1e-6, atol=0)


def test_the_seed_decides_the_random_starts_and_the_baseline() -> None:
    case = CASES[0]
    probe, search = case.phi.at(case.X), Ascent(polish=0)
    first, again, other = (search.run(probe, case.rows, Ball(), baseline=3, seed=s) for s in (1, 1, 2))
    assert torch.equal(first.y, again.y)
    assert torch.equal(first.baseline2, again.baseline2)
    assert not torch.equal(first.baseline2, other.baseline2)


# Several words at once ----------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("within", [Ball(), Sphere()], ids=str)
def test_several_words_change_together_each_within_its_own_set(case: Case, within: Constraint) -> None:
    probe = case.phi.at(case.X)
    rows = torch.tensor([[0, 1, 2], [4, 2, 7]])
    found = Ascent(random=4, polish=30).run(probe, rows, within)
    assert found.y.shape == (2, 3, D)
    assert within.violation(case.X[rows], found.y).max() <= 1e-12
    assert_reproduced(found.change2, plain(case, rows, found.y), case)


@named("softmax", "relu-unnormalised", "RF tanh")
def test_more_words_change_more(case: Case) -> None:
    probe = case.phi.at(case.X)
    sets = [torch.arange(m)[None] for m in (1, 3, len(case.X))]
    one, three, everything = (float(DefaultSearch().run(probe, rows, Ball()).change2) for rows in sets)
    assert one < three < everything


# Starts, statuses, settings -----------------------------------------------------------------------------------------


@every_case
def test_a_start_that_is_given_is_never_lost(case: Case) -> None:
    probe = case.phi.at(case.X)
    best = full(case, Ball())
    again = DefaultSearch(quick=True).run(probe, case.rows, Ball(), starts=best.y[:, None])
    # The same point in another batch: sums in another order.
    assert (again.change2 >= best.change2 * (1 - 1e-12)).all()


def test_the_status_says_how_the_search_ended() -> None:
    case = CASES[0]
    probe = case.phi.at(case.X)
    assert full(case, Ball()).status is Status.CONVERGED
    assert Ascent(polish=3).run(probe, case.rows, Ball()).status is Status.STEP_LIMIT
    assert DefaultSearch(quick=True).run(probe, case.rows, Ball()).status is Status.QUICK


def test_every_status_has_a_remedy() -> None:
    assert str(Status.STEP_LIMIT) == "step limit"
    assert "Ascent(polish=" in Status.STEP_LIMIT.remedy
    assert "leave out search=" in Status.QUICK.remedy
    assert len({status.remedy for status in Status}) == len(Status)


@pytest.mark.parametrize("search", [DefaultSearch(), DefaultSearch(quick=True)], ids=["full", "quick"])
def test_progress_rises_to_one(search: Ascent) -> None:
    case, heard = CASES[0], []
    search.run(case.phi.at(case.X), case.rows, Ball(), progress=lambda stage, done: heard.append(done))
    assert heard == sorted(heard)
    assert heard[-1] == 1


@pytest.mark.parametrize(
    ("name", "least"),
    [("random", 0), ("polish", 0), ("finish", 0), ("steps", 1), ("keep", 1), ("leading", 1), ("memory", 1)],
)
def test_settings_that_mean_nothing_are_refused(name: str, least: int) -> None:
    Ascent(**{name: least})
    with pytest.raises(RangeError, match=rf"expected Ascent\({name}=…\) ≥ {least}, got {least - 1}"):
        Ascent(**{name: least - 1})


def test_float32_stays_float32() -> None:
    X = GAUSSIAN.float()
    phi = AttentionFeatures.draw(D, seed=5, dtype=torch.float32)
    found = Ascent(polish=30).run(phi.at(X), torch.arange(N)[:, None], Ball())
    assert found.y.dtype == found.change2.dtype == torch.float32
    assert Ball().violation(X[:, None], found.y).max() <= 10 * torch.finfo(torch.float32).eps
    # The same maximum as in float64: the value at a maximum does not feel where exactly it is.
    same = full(CASES[0], Ball())
    assert abs(float(found.change2.max() / same.change2.max()) - 1) <= 1e-4
