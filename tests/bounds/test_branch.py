"""The branch and bound, cell by cell: a bound must hold for every Δ of its cell, whatever the multipliers."""

import math
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.attack import FAMILIES, Case
from oneword.bounds.branch import RUNGS, Ladder, Leaf, Spots, Stop, Tree, Tuning
from oneword.bounds.kernels import cell_dual
from oneword.bounds.layout import ROW, SHAPE, Cell
from oneword.bounds.position import Keys, Multipliers, Position
from oneword.maps.attention import AttentionFeatures
from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.base import replace_rows
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import Ball
from oneword.text.context import gaussian

# What a plain forward pass in float64 rounds.
ACCURACY = 1e-9


class Spot:
    """One position of one case of softmax or ReLU attention, drawn from a seed, and a ball around it or elsewhere."""

    def __init__(self, seed: int, *, around_word: bool = False) -> None:
        rng = np.random.default_rng([seed, 11])
        n, d = int(rng.choice([2, 3, 5, 9, 17])), int(rng.choice([1, 2, 3, 6, 20]))
        scale = float(rng.choice([0.0, 0.05, 0.3, 1.0, 3.0, 10.0, 50.0]))
        self.relu = seed % 3 == 2
        score = "relu" if self.relu and scale > 0 else "softmax"
        family = FAMILIES[seed // 3 % len(FAMILIES)]
        case = Case(f"attention {score}", family, n, d, scale, Ball(), 1, seed)
        X = case.text()
        if not X.any():
            X[0] = 1.0
        self.phi = case.features()
        if not self.phi(X).any():  # nobody attends to anything
            self.phi = AttentionFeatures(torch.eye(d, dtype=torch.float64), score="relu")
        probe = self.phi.at(X)
        assert isinstance(probe, AttentionProbe)
        self.probe, self.rng = probe, rng
        self.r = math.sqrt(d) * float(rng.choice([1e-3, 0.3, 1.0, 1.0, 1.0, 3.0, 10.0]))
        self.i = int(rng.integers(n))
        x = probe.X[self.i]
        elsewhere = [torch.zeros_like(x), x + torch.from_numpy(rng.normal(size=d))]
        self.centre = x if around_word or rng.random() < 0.6 else elsewhere[int(rng.integers(2))]
        self.position = Position(Keys(probe), self.i, self.centre, self.r)

    def cells(self, count: int) -> Iterator[Cell]:
        """Cells of all sizes, down to points, around points of the disc."""
        for _ in range(count):
            radius, angle = self.r * self.rng.random() ** 0.4, self.rng.uniform(0, 2 * np.pi)
            hs, ha = self.r * 10 ** self.rng.uniform(-3, 0, 2) * (self.rng.random(2) < 0.85)
            off = self.rng.uniform(-1, 1, 2)
            yield radius * math.cos(angle) + off[0] * hs, radius * math.sin(angle) + off[1] * ha, float(hs), float(ha)

    def multipliers(self) -> Multipliers:
        """Any prices and c₀, any positive m and μ: over many orders of magnitude."""
        rng, size = self.rng, math.log(self.r**2)
        prices = rng.normal() * self.r**2 * 10 ** rng.uniform(-3, 1) * np.ones(self.probe.n)
        prices *= np.exp(rng.normal(size=self.probe.n)) * rng.choice([-1, 1, 1], self.probe.n) ** int(rng.integers(2))
        prices[self.i] = 0.0
        c0 = rng.normal() * 10 ** rng.uniform(-1, 1)
        return Multipliers(prices, np.array([size + rng.uniform(-8, 3), size + rng.uniform(-8, 3), c0]))

    def inside(self, cell: Cell, count: int) -> tuple[Tensor, Tensor]:
        """(s, a) in the cell and the disc, and as long a Δ' as that leaves or shorter: the plane part and the rest."""
        s0, a0, hs, ha = cell
        plane = torch.from_numpy(self.rng.uniform(-1, 1, (8 * count, 2)))
        plane = plane * torch.from_numpy(np.array([hs, ha])) + torch.from_numpy(np.array([s0, a0]))
        nearest = [math.copysign(max(0, abs(s0) - hs), s0), math.copysign(max(0, abs(a0) - ha), a0)]
        plane = torch.cat([torch.tensor([nearest], dtype=torch.float64), plane])
        if not self.position.v_hat.any():  # there is no v̂: only s = 0 is meant
            plane = plane * torch.tensor([0.0, 1.0]) if abs(s0) <= hs else plane[:0]
        plane = plane[plane.square().sum(1) <= self.r**2][:count]
        rest = self.across(torch.from_numpy(self.rng.normal(size=(len(plane), self.probe.d))))
        return plane, self.longest(plane, rest) * torch.from_numpy(self.rng.random((len(plane), 1)).round(1) ** 0.2)

    def across(self, D: Tensor) -> Tensor:
        for axis in (self.position.v_hat, self.position.keys.k_hat) * 2:
            D = D - torch.outer(D @ axis, axis)
        return D

    def longest(self, plane: Tensor, rest: Tensor) -> Tensor:
        length = rest.norm(dim=1, keepdim=True)
        room = (self.r**2 - plane.square().sum(1, keepdim=True)).clamp_min(0).sqrt()
        return torch.where(length > 1e-12, rest / length.clamp_min(1e-12) * room, 0.0)

    def words(self, plane: Tensor, rest: Tensor) -> Tensor:
        axes = torch.stack([self.position.v_hat, self.position.keys.k_hat])
        return self.centre + plane @ axes + rest

    def largest_change2(self, cell: Cell, count: int = 12, steps: int = 3) -> float:
        """The largest squared change met in the cell, by forward passes: random Δ, then steps of Δ' up its gradient."""
        plane, rest = self.inside(cell, count)
        if not len(plane):
            return 0.0
        i = torch.full((len(plane),), self.i)
        best = 0.0
        for _ in range(steps):
            y = self.words(plane, rest)
            changed = self.phi(replace_rows(self.probe.X, y, i))
            best = max(best, float((changed - self.probe.O).flatten(1).square().sum(1).max()))
            gradient = self.probe.value_and_gradient(y, i)[1]
            rest = self.longest(plane, self.across(gradient / gradient.abs().amax().clamp_min(1e-200)))
        return best


@pytest.mark.parametrize("seed", range(120))
def test_a_cell_is_never_beaten_whatever_the_multipliers(seed: int) -> None:
    spot = Spot(seed)
    for cell in spot.cells(8):
        bounds = [spot.position.value(cell, spot.multipliers()) for _ in range(6)]
        change2 = spot.largest_change2(cell)
        assert change2 <= min(bounds) * (1 + ACCURACY) or change2 == 0


@pytest.mark.parametrize("seed", range(130, 170))
def test_a_tuned_cell_is_never_beaten(seed: int) -> None:
    """Tuned multipliers leave the least room."""
    spot = Spot(seed)
    for cell in spot.cells(4):
        before = spot.position.value(cell, spot.position.first_multipliers)
        bound, multipliers = spot.position.tune(cell, spot.position.first_multipliers, 40, 1.0)
        assert bound <= before
        assert bound < 0 or bound == pytest.approx(spot.position.value(cell, multipliers), rel=1e-12)
        assert spot.largest_change2(cell, steps=5) <= max(bound, 0) * (1 + ACCURACY)


# The steps of the proof, one at a time (docs/certificates.md, lemmas 1, 3 and 4).


@pytest.mark.parametrize("seed", range(300, 345))
def test_the_table_of_rows_gives_the_change_of_every_row(seed: int) -> None:
    """Around x_i exactly, around another point from above."""
    for around_word in (True, False):
        spot = Spot(seed, around_word=around_word)
        others = [j for j in range(spot.probe.n) if j != spot.i]
        table = dict(zip(ROW._fields, torch.from_numpy(spot.position.rows[others]).T, strict=True))
        assert torch.equal(table["v_off"] >= 0, spot.probe.P[others, spot.i] > 0.5)
        plane = torch.from_numpy(spot.rng.uniform(-0.5, 0.5, (5, 2))) * spot.r
        if not spot.position.v_hat.any():
            plane[:, 0] = 0
        y = spot.words(plane, torch.zeros(5, spot.probe.d, dtype=torch.float64))
        moved = spot.phi(replace_rows(spot.probe.X, y, torch.full((5,), spot.i))) - spot.probe.O
        score = table["score"] + plane @ torch.stack([table["k_s"], table["k_a"]])
        if bool((table["rest"] >= 0).all()):
            mass = score.clamp_min(0)
            q = torch.where(mass > 0, mass / (table["rest"] + mass).clamp_min(1e-300), 0.0)
        else:
            q = torch.sigmoid(score)
        alpha = (q - table["share"]) * table["inverse"]
        change2 = alpha**2 * table["v2"] + 2 * q * alpha * (plane @ torch.stack([table["v_s"], table["v_a"]]))
        change2 += q**2 * plane.square().sum(1, keepdim=True)
        change2 += table["extra0"] + q * (table["extra1"] + q * table["extra2"])
        scale = float(spot.probe.X.norm(dim=1).max()) + float(spot.centre.norm()) + spot.r
        found, truth = change2.clamp_min(0).sqrt(), moved[:, others].norm(dim=2)
        assert (found >= truth - 1e-7 * scale).all()
        if around_word:
            torch.testing.assert_close(found, truth, rtol=0, atol=1e-7 * scale)


@pytest.mark.parametrize("seed", range(300, 345))
def test_the_dual_covers_what_the_prices_and_the_group_add_up_to(seed: int) -> None:
    """2Σe_jt_j + mΣt_j² + Σ_G (2c₀ v_j·δ + (v_j·δ)²/μ) for δ of the cell: random ones, and along its own gradient."""
    spot = Spot(seed)
    position, probe, n = spot.position, spot.probe, spot.probe.n
    group = (torch.arange(n) != spot.i) & (probe.P[:, spot.i] <= 0.5)
    K, v = probe.K, spot.centre - probe.O[group]
    axes = torch.stack([position.v_hat, position.keys.k_hat])
    for cell in spot.cells(5):
        at = spot.multipliers()
        e, (m, mu, c0) = torch.from_numpy(at.prices), (*np.exp(at.common[:2]), at.common[2])
        if not position.v_hat.any():  # there is no v̂: only s = 0 is meant
            cell = (0.0, cell[1], 0.0, cell[3])
        plane, rest = spot.inside(cell, 12)
        if not len(plane):
            continue
        centre = torch.tensor(cell[:2], dtype=torch.float64)
        largest = -math.inf
        for _ in range(4):
            step = (plane - centre) @ axes + rest
            t, z = step @ K.mT, step @ v.mT
            sums = 2 * t @ e + m * t.square().sum(1) + (2 * c0 * z + z.square() / mu).sum(1)
            largest = max(largest, float(sums.max()))
            gradient = e @ K + m * t @ K + c0 * v.sum(0) + z @ v / mu
            rest = spot.longest(plane, spot.across(gradient / gradient.abs().amax().clamp_min(1e-200)))
        keys = position.keys
        k = at.prices @ keys.along
        none = np.empty(len(k)), np.empty(3)
        k1 = float(e @ keys.along_top)
        bound = cell_dual(position.shape, cell, k1, k, position.v, keys.sigma2, m, mu, c0, *none)
        leak = (
            float(position.shape[SHAPE.leak]) * spot.r * (1 + abs(c0)) ** 2
        )  # of the order that rounding leaves off the plane
        size = 4 * spot.r * float(e.abs().sum()) * keys.longest + abs(bound)
        assert largest <= bound + leak + 1e-10 * size


@pytest.mark.parametrize("seed", range(200, 215))
def test_the_leaves_of_a_tree_cover_the_disc_and_hold(seed: int) -> None:
    spot = Spot(seed)
    tree = Tree.rooted(spot.position, math.inf)
    uppers = [tree.upper]
    for _ in range(80):
        tree.refine()
        uppers.append(tree.upper)
    assert all(after <= before for before, after in pairwise(uppers))
    assert covers(tree.leaves, spot.position)
    larger = Position(spot.position.keys, 0, spot.probe.X[0], 1.7 * spot.r)
    handed = tree.handed(larger, math.inf)
    assert covers(handed.leaves, larger)
    assert all(leaf.multipliers.prices[0] == 0 for leaf in handed.leaves)
    for leaf in tree.leaves[:6]:
        assert spot.largest_change2(leaf.cell) <= tree.upper * (1 + ACCURACY)


def test_a_position_without_a_direction_hands_on_no_leaves() -> None:
    """Its cells off s = 0 hold nothing and are gone; a position with both directions needs them."""
    X = torch.tensor([[1.0773, 0.0], [1.0733, 0.0741], [1.0733, -0.0741]], dtype=torch.float64)
    keys = Keys(AttentionFeatures(torch.diag(torch.tensor([0.3, 0.0], dtype=torch.float64))).at(X))
    giver, taker = Position(keys, 0, X[0], 8.0), Position(keys, 1, X[1], 8.0)
    assert giver.on_a_line
    assert not taker.on_a_line
    tree = Tree.rooted(giver, math.inf)
    for _ in range(60):
        tree.refine()
    assert covers(tree.leaves, giver)
    assert covers(tree.handed(taker, math.inf).leaves, taker)


def covers(leaves: list[Leaf], position: Position) -> bool:
    rng, r = np.random.default_rng(0), position.r
    cells = np.array([leaf.cell for leaf in leaves])
    angle, radius = rng.uniform(0, 2 * np.pi, 500), r * np.sqrt(rng.random(500))
    radius[:100] = r
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)[:, None]
    if not position.v_hat.any():  # there is no v̂: only s = 0 is meant
        points = points * [0.0, 1.0]
    return bool((np.abs(points - cells[:, :2]) <= cells[:, 2:] + 1e-12 * r).all(2).any(1).all())


def test_a_cell_outside_the_ball_has_no_bound_and_one_that_touches_it_has() -> None:
    position = Spot(3).position
    r, multipliers = position.r, position.first_multipliers
    assert position.value((0.95 * r, 0.95 * r, 0.05 * r, 0.05 * r), multipliers) < 0
    assert position.value((0.0, r, 0.0, 0.0), multipliers) > 0


def test_a_bound_that_overflows_is_infinite_not_zero() -> None:
    """Squares of these keys are infinite, so no cell has a bound: that must not look like no cell at all."""
    X = gaussian(4, 3, seed=0).X
    probe = AttentionFeatures(1e155 * AttentionFeatures.draw(3, seed=0).W).at(X)
    position = Position(Keys(probe), 0, X[0], math.sqrt(3))
    tree = Tree(position, [Leaf(position.whole, position.first_multipliers, Tuning.NONE)], ceiling=123.0)
    tree.refine()
    assert tree.upper == 123.0


# The ladder -------------------------------------------------------------------------------------------------------


N, D = 24, 48


@cache
def searched(score: str) -> tuple[AttentionProbe, np.ndarray]:
    probe = AttentionFeatures.draw(D, seed=3, score=score).at(gaussian(N, D, seed=3).X)
    assert isinstance(probe, AttentionProbe)
    return probe, DefaultSearch().run(probe, torch.arange(N)[:, None], Ball()).change2.numpy()


def ladder(work: float, seconds: float | None = None, *, score: str = "softmax") -> Ladder:
    """Of one text, with nothing known of it but what a search attains."""
    probe, value2 = searched(score)
    r, before, own = np.full(N, math.sqrt(D)), np.full(N, 1e6), np.full(N, np.inf)
    return Ladder(probe, Spots(list(range(N)), probe.X, r, before, own, value2), work, seconds)


@pytest.mark.parametrize("score", ["softmax", "relu"])
def test_a_stricter_target_never_gives_a_larger_bound(score: str) -> None:
    """Targets only say where one and the same sequence stops: every position's bound falls along them."""
    bounds = []
    for target in (1.5, 1.3, 1.2, 1.1, 1.0):
        climbed = ladder(5e5, score=score)
        stop = climbed.climb(target**2 * climbed.largest2)
        assert (stop is None) == (float(climbed.upper2.max()) <= target**2 * climbed.largest2)
        bounds.append(climbed.upper2)
    assert all((after <= before).all() for before, after in pairwise(bounds))
    assert bounds[-1].max() < bounds[0].max()


def test_no_position_is_starved_by_a_target_out_of_reach() -> None:
    climbed = ladder(4e5)
    assert climbed.climb(climbed.largest2) in (Stop.WORK, Stop.CELLS)
    ratio = np.sqrt(climbed.upper2 / climbed.largest2)
    rungs = [rung for rung in RUNGS if rung >= ratio.max()]
    assert ratio.max() <= 2
    assert (ratio <= rungs[-1] * (1 + 1e-12)).all()


def test_the_budget_is_counted_in_work_and_the_same_call_gives_the_same_bits() -> None:
    one, two, more = (ladder(work) for work in (5e4, 5e4, 2e5))
    assert one.climb(0.0) is Stop.WORK
    two.climb(0.0)
    more.climb(0.0)
    assert np.array_equal(one.upper2, two.upper2)
    assert one.spent == two.spent <= 5e4 + 40 * N  # the last tuning is done to its end
    assert (more.upper2 <= one.upper2).all()


def test_seconds_stop_a_ladder_and_it_says_so() -> None:
    climbed = ladder(1e12, seconds=0.0)
    assert climbed.climb(0.0) is Stop.TIME
    assert climbed.upper2.max() <= 1e6
