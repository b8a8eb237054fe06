"""The two kernels of the branch and bound against plain numpy: never below the truth, and not far above it."""

import math

import numpy as np
import pytest

from oneword.bounds.kernels import CURVATURE, LIMIT, LOGITS, SHARES, SLOPE2, STEP, rows_bound, trust_region_dual

SEEDS = range(80)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)))


class Row:
    """One row of the kernel's table, with a cell, a radius and multipliers, all drawn from a seed."""

    def __init__(self, seed: int, *, widths: float, far: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        sharp = rng.random() < 0.3
        self.p = rng.uniform(0.5, 1) if sharp else rng.uniform(0, 0.5) ** rng.integers(1, 8)
        self.inv = 1.0 if sharp else 1 / (1 - self.p)
        self.c = rng.normal() * 4 + far
        v = rng.normal(size=3) * 10 ** rng.uniform(-2, 0.5)
        self.vs, self.va, self.v2 = v[0], v[1], float(v @ v)
        self.ks, self.ka, self.K_off = rng.normal(size=3) * 10 ** rng.uniform(-2, 1)
        self.K_off = abs(self.K_off)
        self.v_off = abs(v[2]) if sharp else -1.0
        self.r = 10 ** rng.uniform(-0.5, 0.5)
        self.hs, self.ha = widths * self.r * rng.random(2)
        self.s0, self.a0 = rng.uniform(-0.6, 0.6, 2) * self.r
        self.R = self.r * rng.random()
        self.e = rng.normal() * self.r**2 * 10 ** rng.uniform(-2, 0.5)
        self.m, self.mu = self.r**2 * 10 ** rng.uniform(-3, 0.5, 2)
        self.c0 = rng.normal()

    @property
    def line(self) -> list[float]:
        return [self.c, self.p, self.inv, self.v2, self.vs, self.va, self.ks, self.ka, self.K_off, self.v_off]

    def bound(self, copies: int = 1) -> float:
        cell = (self.s0, self.a0, self.hs, self.ha)
        rows = np.array([self.line] * copies)
        r2 = self.r**2
        return float(rows_bound(rows, cell, self.R, r2, self.e, self.m, self.mu, self.c0, LOGITS, SHARES))

    def truth(self, nodes: int = 4001) -> float:
        """The same maximum over a fine grid of t, at the corners and the middle of the cell."""
        t = np.linspace(-1, 1, nodes) * self.R * self.K_off
        best = -math.inf
        for s in self.s0 + self.hs * np.array([-1, -0.5, 0, 0.5, 1]):
            for a in self.a0 + self.ha * np.array([-1, -0.5, 0, 0.5, 1]):
                q = sigmoid(self.c + self.ks * s + self.ka * a + t)
                alpha = (q - self.p) * self.inv
                value = alpha**2 * self.v2 + 2 * q * alpha * (self.vs * s + self.va * a) + q**2 * self.r**2
                if self.v_off < 0:
                    value += self.mu * (q * alpha - self.c0) ** 2
                else:
                    value += 2 * abs(q * alpha) * self.v_off * self.R
                best = max(best, float(np.max(value - 2 * self.e * t - self.m * t**2)))
        return best

    @property
    def size(self) -> float:
        """What the terms of the bound are made of."""
        u = abs(self.vs * self.s0) + abs(self.va * self.a0) + max(self.v_off, 0) * self.R
        weight = self.mu * (2 + abs(self.c0)) ** 2 if self.v_off < 0 else 0.0
        return self.inv**2 * self.v2 + 4 * self.inv * u + self.r**2 + self.inv**2 * weight + self.m


@pytest.mark.parametrize("size", [1e12, 1e19, 1e30, 1e100])
def test_logits_beyond_every_int_are_bounded_as_well(size: float) -> None:
    """Keys so long that every cell reaches from share 0 to share 1, past what an index could count."""
    for seed in SEEDS:
        row = Row(seed, widths=0.3)
        row.ks, row.ka, row.K_off = size * row.ks, size * row.ka, 0.0
        row.e = row.m = 1e-3 / size**2  # or the penalty of such t drowns all else
        assert row.bound() >= row.truth() - 1e-9 * row.size
        row.c = math.inf
        assert not row.bound() < math.inf


@pytest.mark.parametrize("widths", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("far", [0.0, -LIMIT, LIMIT, -40.0, 40.0, 2000.0])
def test_the_bound_of_a_row_is_above_a_dense_maximum(widths: float, far: float) -> None:
    for seed in SEEDS:
        row = Row(seed, widths=widths, far=far)
        assert row.bound() >= row.truth(401), seed


@pytest.mark.parametrize("far", [0.0, -40.0, 40.0])
def test_without_a_cell_only_the_step_of_the_grid_is_lost(far: float) -> None:
    for seed in SEEDS:
        row = Row(seed, widths=0.0, far=far)
        # Between nodes a function of second derivative M rises by M·STEP²/8, and the outer nodes lie up to one STEP
        # outside the interval. 8·size is above |φ'|, |φ''| and 2m.
        curve, slope = (
            8 * row.size * (1 + SLOPE2 + CURVATURE),
            2 * row.size + 2 * abs(row.e) + 2 * row.m * row.R * row.K_off,
        )
        assert row.bound() - row.truth() <= curve * STEP**2 / 8 + slope * STEP, seed


def test_rows_add_up() -> None:
    for seed in SEEDS:
        row = Row(seed, widths=0.1)
        assert row.bound(7) == pytest.approx(7 * row.bound(), rel=1e-12)


def test_the_constants_of_the_logistic_function_are_rounded_up() -> None:
    x = np.linspace(-8, 8, 400_001)
    q = sigmoid(x)
    assert np.max((q * (1 - q)) ** 2) <= SLOPE2
    assert np.max(np.abs(q * (1 - q) * (1 - 2 * q))) <= CURVATURE
    assert np.array_equal(np.diff(LOGITS), np.full(len(LOGITS) - 1, STEP))


def largest_quadratic(
    e: float, m: float, R: float, k: np.ndarray, sigma2: np.ndarray, rng: np.random.Generator
) -> float:
    """max 2e k·δ + m Σσ²δ² over the ball by conditional gradient from many starts: convex, so it climbs to a vertex."""
    delta = rng.normal(size=(60, len(k)))
    delta[0] = np.sign(e) * k
    delta[1 : 1 + len(k)] = np.eye(len(k)) * np.where(e * k < 0, -1, 1)
    for _ in range(250):
        delta *= R / np.maximum(np.linalg.norm(delta, axis=1, keepdims=True), 1e-300)
        value = 2 * e * delta @ k + m * delta**2 @ sigma2
        delta = e * k + m * sigma2 * delta
    return float(value.max())


@pytest.mark.parametrize("dim", [1, 2, 3, 6])
def test_the_dual_is_the_maximum_of_the_quadratic(dim: int) -> None:
    for seed in range(40):
        rng = np.random.default_rng([seed, dim])
        k, sigma2 = rng.normal(size=dim), rng.exponential(size=dim) * 10 ** rng.uniform(-2, 2)
        k[rng.random(dim) < 0.3] = 0  # the hard case: nothing along the largest axis
        e, m, R = rng.normal(), 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-1, 1)
        dual = trust_region_dual(e, m, R**2, k**2, sigma2)
        largest = largest_quadratic(e, m, R, k, sigma2, rng)
        assert dual >= largest * (1 - 1e-13)
        assert dual <= largest * 1.001 + 1e-8 * R**2


def test_the_dual_survives_what_has_no_direction() -> None:
    none = np.zeros(0)
    assert 0 <= trust_region_dual(1.0, 1.0, 4.0, none, none) <= 1e-8
    assert trust_region_dual(1.0, 1.0, 0.0, np.ones(3), np.ones(3)) >= 0
    assert 0 <= trust_region_dual(0.0, 1.0, 0.0, np.ones(3), np.ones(3)) < math.inf
    assert 0 <= trust_region_dual(0.0, 1.0, 4.0, np.zeros(2), np.zeros(2)) <= 1e-8
