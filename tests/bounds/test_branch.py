"""The branch and bound, cell by cell: a bound must hold for every Δ of its cell, whatever the multipliers."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.attack import FAMILIES, Case
from oneword.bounds.branch import Cell, Keys, Leaf, Position, Tree, _rescaled, branch_and_bound
from oneword.bounds.kernels import trust_region_dual
from oneword.maps.attention import AttentionFeatures
from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.base import replace_rows
from oneword.perturb import Ball
from oneword.text.synthetic import gaussian

# What a plain forward pass in float64 rounds.
ACCURACY = 1e-9


class Spot:
    """One position of one softmax case, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 11])
        n, d = int(rng.choice([2, 3, 5, 9, 17])), int(rng.choice([1, 2, 3, 6, 20]))
        scale = float(rng.choice([0.0, 0.05, 0.3, 1.0, 3.0, 10.0, 50.0]))
        case = Case("attention softmax", FAMILIES[seed % len(FAMILIES)], n, d, scale, Ball(), 1, seed)
        X = case.text()
        if not X.any():
            X[0] = 1.0
        self.phi = case.features()
        probe = self.phi.at(X)
        assert isinstance(probe, AttentionProbe)
        self.probe, self.rng = probe, rng
        self.r = math.sqrt(d) * float(rng.choice([1e-3, 0.3, 1.0, 1.0, 1.0, 3.0, 10.0]))
        self.i = int(rng.integers(n))
        self.position = Position(Keys(probe), self.i, self.r)

    def cells(self, count: int) -> Iterator[Cell]:
        """Cells of all sizes, down to points, around points of the disc."""
        for _ in range(count):
            radius, angle = self.r * self.rng.random() ** 0.4, self.rng.uniform(0, 2 * np.pi)
            hs, ha = self.r * 10 ** self.rng.uniform(-3, 0, 2) * (self.rng.random(2) < 0.85)
            off = self.rng.uniform(-1, 1, 2)
            yield radius * math.cos(angle) + off[0] * hs, radius * math.sin(angle) + off[1] * ha, float(hs), float(ha)

    def multipliers(self) -> np.ndarray:
        """Any e and c₀, any positive m and μ: over many orders of magnitude."""
        rng, size = self.rng, math.log(self.r**2)
        e = rng.normal() * self.r**2 * 10 ** rng.uniform(-3, 1)
        return np.array(
            [e, size + rng.uniform(-8, 3), size + rng.uniform(-8, 3), rng.normal() * 10 ** rng.uniform(-1, 1)]
        )

    def inside(self, cell: Cell, count: int) -> tuple[Tensor, Tensor]:
        """(s, a) in the cell and the disc, and as long a Δ' as that leaves or shorter: the plane part and the rest."""
        s0, a0, hs, ha = cell
        plane = torch.from_numpy(self.rng.uniform(-1, 1, (8 * count, 2)))
        plane = plane * torch.tensor([hs, ha]) + torch.tensor([s0, a0])
        nearest = torch.tensor([[math.copysign(max(0, abs(s0) - hs), s0), math.copysign(max(0, abs(a0) - ha), a0)]])
        plane = torch.cat([nearest.double(), plane])
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
        return self.probe.X[self.i] + plane @ axes + rest

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


@pytest.mark.parametrize("seed", range(90))
def test_a_cell_is_never_beaten_whatever_the_multipliers(seed: int) -> None:
    spot = Spot(seed)
    for cell in spot.cells(8):
        bounds = [spot.position.value(cell, spot.multipliers()) for _ in range(6)]
        change2 = spot.largest_change2(cell)
        assert change2 <= min(bounds) * (1 + ACCURACY) or change2 == 0


@pytest.mark.parametrize("seed", range(100, 130))
def test_a_tuned_cell_is_never_beaten(seed: int) -> None:
    """Tuned multipliers leave the least room."""
    spot = Spot(seed)
    start = spot.position.first_leaves[0].multipliers
    for cell in spot.cells(4):
        bound, _ = spot.position.tune(Leaf(cell, start, 0), 40)
        assert spot.largest_change2(cell, steps=5) <= max(bound, 0) * (1 + ACCURACY)


# The steps of the proof, one at a time, each at the Δ' that is worst for it (docs/certificates.md, lemmas 1, 3 and 4).


@pytest.mark.parametrize("seed", range(300, 340))
def test_the_table_of_rows_gives_the_change_of_every_row(seed: int) -> None:
    spot = Spot(seed)
    others = [j for j in range(spot.probe.n) if j != spot.i]
    c, p, inverse, v2, vs, va, ks, ka, _, off = torch.from_numpy(spot.position.rows).T
    assert torch.equal(off >= 0, spot.probe.P[others, spot.i] > 0.5)
    plane = torch.from_numpy(spot.rng.uniform(-0.5, 0.5, (5, 2))) * spot.r
    if not spot.position.v_hat.any():
        plane[:, 0] = 0
    y = spot.words(plane, torch.zeros(5, spot.probe.d, dtype=torch.float64))
    moved = spot.phi(replace_rows(spot.probe.X, y, torch.full((5,), spot.i))) - spot.probe.O
    q = torch.sigmoid(c + plane @ torch.stack([ks, ka]))
    alpha = (q - p) * inverse
    change2 = (
        alpha**2 * v2 + 2 * q * alpha * (plane @ torch.stack([vs, va])) + q**2 * plane.square().sum(1, keepdim=True)
    )
    scale = float(spot.probe.X.norm(dim=1).max()) + spot.r
    torch.testing.assert_close(change2.clamp_min(0).sqrt(), moved[:, others].norm(dim=2), rtol=0, atol=1e-7 * scale)


@pytest.mark.parametrize("seed", range(300, 340))
def test_the_dual_covers_the_scores_off_the_plane(seed: int) -> None:
    spot = Spot(seed)
    keys, n = spot.position.keys, spot.probe.n
    K = spot.probe.K[torch.arange(n) != spot.i]
    K = K - torch.outer(K @ keys.k_hat, keys.k_hat)  # Δ' ⊥ k̂
    for _ in range(5):
        e, m, R = spot.rng.normal(), 10 ** spot.rng.uniform(-2, 1), spot.r * spot.rng.random()
        D = torch.from_numpy(spot.rng.normal(size=(20, spot.probe.d)))
        D[0] = math.copysign(1.0, e) * K.sum(0)
        for _ in range(60):
            D = R * D / D.norm(dim=1, keepdim=True).clamp_min(1e-300)
            t = D @ K.mT
            value = (2 * e * t + m * t.square()).sum(1)
            D = e * K.sum(0) + m * t @ K
        bound = trust_region_dual(e, m, R**2, spot.position.k2, keys.sigma2)
        assert float(value.max()) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(300, 340))
def test_the_residuals_of_the_group_sum_to_zero_and_their_squares_are_covered(seed: int) -> None:
    spot = Spot(seed)
    position, probe, n = spot.position, spot.probe, spot.probe.n
    group = (torch.arange(n) != spot.i) & (probe.P[:, spot.i] <= 0.5)
    if not group.any():
        return
    v = probe.X[spot.i] - probe.O[group]
    off = spot.across(v)
    worst = torch.linalg.svd(off - off.mean(0))[2][0]
    D = torch.cat([spot.across(worst[None]), spot.across(torch.from_numpy(spot.rng.normal(size=(20, probe.d))))])
    z = spot.r * D / D.norm(dim=1, keepdim=True).clamp_min(1.0) @ v.mT  # (21, group)
    rounding = 1e-13 * spot.r * len(v) * float(probe.X.norm(dim=1).max())
    assert float(z.sum(1).abs().max()) <= position.leak / 2 * spot.r + rounding
    squares = float((z - z.mean(1, keepdim=True)).square().sum(1).max())
    assert squares <= spot.r**2 * position.keys.spread2
    for mu in (1e-6, 1e-2):  # rows and dual together are not negative, so this term must show
        multipliers = np.array([0.0, 0.0, math.log(mu), 0.5])
        assert position.value((0.0, 0.0, 0.0, 0.0), multipliers) >= squares / mu


@pytest.mark.parametrize("seed", range(200, 212))
def test_the_leaves_of_a_tree_cover_the_disc_and_hold(seed: int) -> None:
    spot = Spot(seed)
    tree = Tree(spot.position, spot.position.first_leaves, math.inf)
    uppers = [tree.upper]
    for _ in range(60):
        tree.refine()
        uppers.append(tree.upper)
    assert all(after <= before for before, after in pairwise(uppers))
    assert covers(tree.leaves, spot.r, spot.rng)
    assert covers(_rescaled(tree.leaves, 1.7), 1.7 * spot.r, spot.rng)
    for leaf in tree.leaves[:6]:
        assert spot.largest_change2(leaf.cell) <= tree.upper * (1 + ACCURACY)


def covers(leaves: list[Leaf], r: float, rng: np.random.Generator) -> bool:
    cells = np.array([leaf.cell for leaf in leaves])
    angle, radius = rng.uniform(0, 2 * np.pi, 500), r * np.sqrt(rng.random(500))
    radius[:100] = r
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)[:, None]
    return bool((np.abs(points - cells[:, :2]) <= cells[:, 2:] + 1e-12 * r).all(2).any(1).all())


def test_a_cell_outside_the_ball_has_no_bound_and_one_that_touches_it_has() -> None:
    position = Spot(3).position
    r, multipliers = position.r, position.first_leaves[0].multipliers
    assert position.value((0.95 * r, 0.95 * r, 0.05 * r, 0.05 * r), multipliers) < 0
    assert position.value((r, 0.0, 0.0, 0.0), multipliers) > 0


def test_a_bound_that_overflows_is_infinite_not_zero() -> None:
    """Squares of these keys are infinite, so no cell has a bound: that must not look like no cell at all."""
    X = gaussian(4, 3, seed=0).X
    probe = AttentionFeatures(1e155 * AttentionFeatures.draw(3, seed=0).W).at(X)
    position = Position(Keys(probe), 0, math.sqrt(3))
    tree = Tree(position, position.first_leaves, ceiling=123.0)
    tree.refine()
    assert tree.upper == 123.0


def test_branching_never_raises_a_bound_and_serves_the_largest_first() -> None:
    X = gaussian(12, 24, seed=2).X
    probe = AttentionFeatures.draw(24, seed=2).at(X)
    r = np.full(12, math.sqrt(24))
    before = np.linspace(400, 2000, 12)
    after = branch_and_bound(probe, before, np.ones(12), list(range(12)), r, 300.0, 2.0)
    assert (after <= before).all()
    assert after.max() < before.max()
