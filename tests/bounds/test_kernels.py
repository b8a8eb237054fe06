"""The kernels of the branch and bound against plain numpy: never below the truth, and not far above it."""

import math

import numpy as np
import pytest

from oneword.bounds.kernels import cell_dual, products, rows_bound, weighted_sum
from oneword.bounds.layout import CURVATURE, LIMIT, RELU, ROW, SHAPE, SLOPE2, SOFTMAX, Nodes

SEEDS = range(80)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)))


class Row:
    """One row of the kernel's table, with a cell, a radius and multipliers, all drawn from a seed."""

    def __init__(self, seed: int, *, relu: bool, widths: float, far: float = 0.0) -> None:
        rng = np.random.default_rng([seed, relu])
        self.relu = relu
        sharp = rng.random() < 0.3
        self.p = rng.uniform(0.5, 1) if sharp else rng.uniform(0, 0.5) ** rng.integers(1, 8)
        self.inv = 1.0 if sharp else 1 / (1 - self.p)
        self.score = rng.normal() * 4 + far
        self.rest = 10 ** rng.uniform(-3, 2) * (rng.random() < 0.9) if relu else -1.0
        v = rng.normal(size=3) * 10 ** rng.uniform(-2, 0.5)
        self.vs, self.va, self.v2 = v[0], v[1], float(v @ v)
        self.ks, self.ka, self.k_off = rng.normal(size=3) * 10 ** rng.uniform(-4, 1)
        self.k_off = abs(self.k_off)
        self.v_off = abs(v[2]) if sharp else -1.0
        self.extra = rng.normal(size=3) * (rng.random() < 0.5)
        self.r = 10 ** rng.uniform(-0.5, 0.5)
        self.hs, self.ha = widths * self.r * rng.random(2)
        self.s0, self.a0 = rng.uniform(-0.6, 0.6, 2) * self.r
        self.R = self.r * rng.random()
        self.e = rng.normal() * self.r**2 * 10 ** rng.uniform(-2, 0.5)
        self.m, self.mu = self.r**2 * 10 ** rng.uniform(-3, 0.5, 2)
        self.c0 = rng.normal()

    @property
    def grid(self) -> Nodes:
        return RELU if self.relu else SOFTMAX

    @property
    def line(self) -> np.ndarray:
        line = np.zeros(len(ROW))
        line[ROW.score], line[ROW.share], line[ROW.inverse], line[ROW.v2] = self.score, self.p, self.inv, self.v2
        line[ROW.v_s], line[ROW.v_a], line[ROW.k_s], line[ROW.k_a] = self.vs, self.va, self.ks, self.ka
        line[ROW.k_off], line[ROW.v_off], line[ROW.rest] = self.k_off, self.v_off, self.rest
        line[ROW.extra0], line[ROW.extra1], line[ROW.extra2] = self.extra
        return line

    def bound(self, copies: int = 1, want: bool = False) -> float:
        rows, best_t, slopes = np.array([self.line] * copies), np.empty(copies), np.zeros(3)
        cell, prices = (self.s0, self.a0, self.hs, self.ha), np.full(copies, self.e)
        common = (self.m, self.mu, self.c0)
        return float(rows_bound(rows, cell, self.R, self.r**2, prices, *common, self.grid, best_t, slopes, want))

    @property
    def half(self) -> float:
        return abs(self.ks) * self.hs + abs(self.ka) * self.ha + self.R * self.k_off

    def at(self, t: np.ndarray) -> np.ndarray:
        """φ(q) − 2et − mt², where the score moves by t."""
        score = self.score + self.ks * self.s0 + self.ka * self.a0 + t
        if self.relu:
            mass = np.maximum(score, 0)
            q = np.where(mass > 0, mass / np.where(mass > 0, self.rest + mass, 1), 0)
        else:
            q = sigmoid(score)
        alpha = (q - self.p) * self.inv
        value = alpha**2 * self.v2 + 2 * q * alpha * (self.vs * self.s0 + self.va * self.a0) + q**2 * self.r**2
        if self.v_off < 0:
            value += self.mu * (q * alpha - self.c0) ** 2
        else:
            lost = self.v_off * self.R + abs(self.vs) * self.hs + abs(self.va) * self.ha
            value += 2 * np.abs(q * alpha) * lost
        value += self.extra[0] + q * (self.extra[1] + q * self.extra[2])
        return np.asarray(value - 2 * self.e * t - self.m * t**2)

    def truth(self, count: int = 20001) -> float:
        """The same maximum over a fine grid of t."""
        t = np.linspace(-1, 1, count)
        t = np.concatenate([t, np.sign(t) * np.abs(t) ** 8])  # finer where the score hardly moves
        return float(np.max(self.at(t * self.half)))

    @property
    def size(self) -> float:
        """What the terms of the bound are made of."""
        u = abs(self.vs * self.s0) + abs(self.va * self.a0) + max(self.v_off, 0) * self.R
        weight = self.mu * (2 + abs(self.c0)) ** 2 if self.v_off < 0 else 0.0
        extra = float(np.abs(self.extra).sum())
        return self.inv**2 * self.v2 + 4 * self.inv * u + self.r**2 + self.inv**2 * weight + self.m + extra


@pytest.mark.parametrize("size", [1e12, 1e19, 1e30, 1e100])
def test_scores_beyond_every_int_are_bounded_as_well(size: float) -> None:
    """Keys so long that every cell reaches from share 0 to share 1, past what an index could count."""
    for seed in SEEDS:
        row = Row(seed, relu=seed % 2 == 0, widths=0.3)
        row.ks, row.ka, row.k_off = size * row.ks, size * row.ka, 0.0
        row.e = row.m = 1e-3 / size**2  # or the penalty of such t drowns all else
        assert row.bound() >= row.truth() - 1e-9 * row.size
        row.score = math.inf
        assert not row.bound() < math.inf


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("widths", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("far", [0.0, -LIMIT, LIMIT, -40.0, 40.0, 2000.0])
def test_the_bound_of_a_row_is_above_a_dense_maximum(relu: bool, widths: float, far: float) -> None:
    for seed in SEEDS:
        row = Row(seed, relu=relu, widths=widths, far=far)
        assert row.bound() >= row.truth(2001), seed


@pytest.mark.parametrize("widths", [0.0, 0.3])
def test_little_is_lost_by_the_grid(widths: float) -> None:
    """Softmax: between nodes a function of second derivative M rises by M·step²/8, and outer nodes lie one step off."""
    step = SOFTMAX.logits[1] - SOFTMAX.logits[0]
    for seed in SEEDS:
        row = Row(seed, relu=False, widths=widths)
        curve = 8 * row.size * (1 + SLOPE2 + CURVATURE) + 2 * row.m
        slope = 2 * row.size + 2 * abs(row.e) + 2 * row.m * row.half
        assert row.bound() - row.truth() <= 1.05 * curve * step**2 / 8 + slope * step, seed


def test_a_relu_row_is_bounded_within_a_percent_of_what_it_is_made_of() -> None:
    """Where something else is attended to; in a few rows the first node beyond the interval costs more."""
    rows = [row for row in (Row(seed, relu=True, widths=0.1) for seed in SEEDS) if row.rest > 0]
    size = [row.size + abs(row.e) * row.half + row.m * row.half**2 for row in rows]
    excess = [(row.bound() - row.truth()) / scale for row, scale in zip(rows, size, strict=True)]
    assert np.quantile(excess, 0.9) <= 0.01


def test_rows_add_up_and_row_i_is_left_out() -> None:
    for seed in SEEDS:
        row = Row(seed, relu=bool(seed % 2), widths=0.1)
        assert row.bound(7) == pytest.approx(7 * row.bound(), rel=1e-12)
        assert row.bound(want=True) == row.bound()
        row.p = -1.0
        assert row.bound() == 0


@pytest.mark.parametrize("grid", [SOFTMAX, RELU])
def test_the_tables_bound_the_derivatives_between_a_node_and_its_neighbours(grid: Nodes) -> None:
    step = grid.logits[1] - grid.logits[0]
    assert np.allclose(np.diff(grid.logits), step, rtol=0, atol=1e-12)
    for g, l in enumerate(grid.logits):
        q = sigmoid(np.linspace(l - step, l + step, 501))
        assert np.max((q * (1 - q)) ** 2) <= grid.slope2[g]
        assert np.max(np.abs(q * (1 - q) * (1 - 2 * q))) <= grid.curvature[g]
    q = sigmoid(np.linspace(-8, 8, 400_001))
    assert np.max((q * (1 - q)) ** 2) <= SLOPE2
    assert np.max(np.abs(q * (1 - q) * (1 - 2 * q))) <= CURVATURE


class Dual:
    """What the prices add up to, as a function of δ, and the cell it ranges over, along k̂ and the axes."""

    def __init__(self, seed: int, dim: int) -> None:
        rng = self.rng = np.random.default_rng([seed, dim])
        self.k1, self.k = rng.normal(), rng.normal(size=dim)
        self.k[rng.random(dim) < 0.3] = 0  # the hard case: nothing along the largest axis
        self.sigma2 = rng.exponential(size=dim) * 10 ** rng.uniform(-2, 2)
        v = rng.normal(size=dim)
        self.v = v / np.linalg.norm(v)
        self.m, self.mu = 10 ** rng.uniform(-2, 1, 2)
        self.c0, self.r = rng.normal(), 10 ** rng.uniform(-1, 1)
        self.shape = np.zeros(len(SHAPE))
        self.shape[SHAPE.r2], self.shape[SHAPE.group] = self.r**2, rng.integers(0, 4)
        self.shape[SHAPE.away_s], self.shape[SHAPE.away_a] = rng.normal(size=2)
        self.shape[SHAPE.top2] = self.sigma2.max() * rng.uniform(1, 3)
        self.shape[SHAPE.spread2] = rng.exponential() * (rng.random() < 0.7)
        radius, angle = self.r * rng.random() ** 0.5, rng.uniform(0, 2 * np.pi)
        hs, ha = self.r * 10 ** rng.uniform(-3, 0.3, 2) * (rng.random(2) < 0.8)
        self.cell = (radius * math.cos(angle), radius * math.sin(angle), float(hs), float(ha))

    def bound(self) -> float:
        none = np.empty(len(self.k))
        common = (self.m, self.mu, self.c0)
        return float(cell_dual(self.shape, self.cell, self.k1, self.k, self.v, self.sigma2, *common, none, np.empty(3)))

    def largest(self, count: int = 300, steps: int = 60) -> float:
        """The largest sum met inside: random δ of the cell and the ball, and δ' that climbs."""
        s0, a0, hs, ha = self.cell
        plane = self.rng.uniform(-1, 1, (count, 2)) * [hs, ha]
        plane[0] = 0
        left = self.r**2 - ((plane + np.array([s0, a0])) ** 2).sum(1)
        plane, room = plane[left >= 0], np.sqrt(left[left >= 0])[:, None]
        group, away = self.shape[SHAPE.group], self.shape[[SHAPE.away_s, SHAPE.away_a]]
        along = plane @ away
        fixed = 2 * self.k1 * plane[:, 1] + self.shape[SHAPE.top2] * self.m * plane[:, 1] ** 2
        fixed += 2 * self.c0 * group * along + group * along**2 / self.mu
        fixed += self.shape[SHAPE.spread2] / self.mu * plane[:, 1] ** 2
        curve = self.m * self.sigma2 + self.shape[SHAPE.spread2] / self.mu
        off = self.rng.normal(size=(len(plane), len(self.k)))
        best = -math.inf
        for _ in range(steps):
            off -= np.outer(off @ self.v, self.v)
            length = np.linalg.norm(off, axis=1, keepdims=True)
            off = np.where(length > 1e-9, off / np.maximum(length, 1e-9), 0) * room
            x = off + np.outer(plane[:, 0], self.v)
            best = max(best, float(np.max(fixed + 2 * x @ self.k + x**2 @ curve)))
            off = self.k + curve * x
        return best


@pytest.mark.parametrize("dim", [1, 2, 3, 6])
def test_the_dual_of_a_cell_is_above_every_sum_in_it(dim: int) -> None:
    for seed in range(60):
        dual = Dual(seed, dim)
        assert dual.bound() >= dual.largest() * (1 - 1e-12) - 1e-12, seed


@pytest.mark.parametrize("dim", [3, 6])
def test_the_dual_of_a_point_is_the_largest_sum(dim: int) -> None:
    """Without widths it is a trust-region problem off the plane, which has no gap if v̂ is not in the way."""
    for seed in range(40):
        dual = Dual(seed, dim)
        dual.v = np.eye(dim)[dual.sigma2.argmin()]
        dual.cell = (*dual.cell[:2], 0.0, 0.0)
        dual.shape[SHAPE.spread2] = 0.0
        largest = dual.largest(steps=400)
        assert largest - 1e-9 * abs(largest) <= dual.bound()
        assert dual.bound() <= largest + 0.01 * (abs(largest) + dual.r**2 * dual.m * dual.sigma2.max())


def test_the_dual_survives_what_has_no_direction() -> None:
    shape, one = np.zeros(len(SHAPE)), np.ones(1)
    shape[SHAPE.r2] = 4.0
    for cell in ((0.0, 0.0, 0.0, 0.0), (0.0, 2.0, 0.0, 0.0), (0.0, 0.0, 2.0, 2.0)):
        bound = cell_dual(shape, cell, 0.0, 0 * one, 0 * one, 0 * one, 1.0, 1.0, 0.0, one.copy(), np.empty(3))
        assert 0 <= bound <= 1e-8


def test_sums_over_rows_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    rows, weights, vector = rng.normal(size=(7, 5)), rng.normal(size=7), rng.normal(size=5)
    along, total = np.empty(7), np.empty(5)
    products(rows, vector, along)
    weighted_sum(weights, rows, total)
    np.testing.assert_allclose(along, rows @ vector, rtol=1e-13)
    np.testing.assert_allclose(total, weights @ rows, rtol=1e-13)
