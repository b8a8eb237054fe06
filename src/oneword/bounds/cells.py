"""The bound of one cell as a function of its multipliers, and the multipliers that make it small.

A cell has a price e_j on the score of every row, and m, μ, c₀ for all rows together; any values give a bound. The bound
is convex in (e, m, μ, μc₀) and has kinks wherever a row has two equally good scores. A single derivative says little
there, a running mean of them does: each multiplier follows its own, measured by its own size (Adam; Kingma and Ba,
2015), with steps that shrink along a cosine. The smallest bound met on the way counts.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from oneword.bounds.kernels import (
    ROUNDING,
    ROW,
    SHAPE,
    Array,
    Cell,
    Tables,
    cell_dual,
    products,
    rows_bound,
    weighted_sum,
)

_MEAN, _SIZE = 0.7, 0.9  # how slowly the running means of the derivatives and of their squares forget


@njit(cache=True, error_model="numpy", nogil=True)
def cell_bound(
    tables: Tables,
    cell: Cell,
    prices: Array,
    common: Array,
    by_price: Array,
    by_common: Array,
    want: bool,
) -> float:
    """An upper bound on the squared change for every Δ of the cell; −1 if the cell misses the ball.

    `prices` are the e_j, `common` log m, log μ and c₀. With `want`, also the derivatives.
    """
    rows, shape, keys, sigma2 = tables.rows, tables.shape, tables.keys, tables.sigma2
    r2 = shape[SHAPE.r2]
    # Neighbouring cells overlap by a hair, so that rounding leaves no gap between them.
    hair = ROUNDING * math.sqrt(r2)
    s0, a0, hs, ha = cell[0], cell[1], cell[2] + hair, cell[3] + hair
    if shape[SHAPE.line] > 0.0:
        if abs(s0) > hs:
            return -1.0
        s0 = hs = 0.0
    R2 = r2 - max(0.0, abs(s0) - hs) ** 2 - max(0.0, abs(a0) - ha) ** 2
    if R2 < 0.0:
        return -1.0
    R, wide = math.sqrt(R2), (s0, a0, hs, ha)
    m, mu, c0 = math.exp(common[0]), math.exp(common[1]), common[2]
    n, axes = keys.shape
    best_t, k, step, moved = np.empty(n), np.empty(axes), np.empty(axes), np.empty(3)
    by_common[:] = 0.0
    total = rows_bound(rows, wide, R, r2, prices, m, mu, c0, tables.grid, best_t, by_common, want)
    weighted_sum(prices, keys, k)
    k1 = priced = 0.0
    for j in range(n):
        k1 += prices[j] * rows[j, ROW.k_a]
        priced += abs(prices[j])
    total += cell_dual(shape, wide, k1, k, tables.v, sigma2, m, mu, c0, step, moved)
    # k carries the rounding of its sum, and δ is no longer than 2r.
    total += 4.0 * math.sqrt(r2) * ROUNDING * priced * shape[SHAPE.keys]
    along = shape[SHAPE.own_s] * s0 + abs(shape[SHAPE.own_s]) * hs
    along += shape[SHAPE.own_a] * a0 + abs(shape[SHAPE.own_a]) * ha
    own = max(shape[SHAPE.far2], shape[SHAPE.own2] + 2.0 * (along + shape[SHAPE.own_off] * R) + r2)
    total += shape[SHAPE.leak] * R + min(own, shape[SHAPE.most2]) * (1.0 + ROUNDING)
    if want:
        products(keys, step, by_price)
        for j in range(n):
            taken = by_price[j] + rows[j, ROW.k_a] * moved[0] - best_t[j]
            by_price[j] = 2.0 * taken if rows[j, ROW.share] >= 0.0 else 0.0
        scores2 = shape[SHAPE.top2] * moved[0] * moved[0]
        for l in range(axes):
            scores2 += sigma2[l] * step[l] * step[l]
        corner = abs(shape[SHAPE.away_a]) * ha + abs(shape[SHAPE.away_s]) * hs
        spread = shape[SHAPE.spread2] * (moved[0] * moved[0] + moved[2]) + shape[SHAPE.group] * corner * corner
        by_common[0] = (by_common[0] + scores2) * m
        by_common[1] = by_common[1] * mu - spread / mu
        by_common[2] += 2.0 * shape[SHAPE.group] * (shape[SHAPE.away_a] * moved[0] + shape[SHAPE.away_s] * moved[1])
    return total


@njit(cache=True, error_model="numpy", nogil=True)
def _follow(
    values: Array, slopes: Array, means: Array, squares: Array, steps: Array, length: float, count: int
) -> None:
    """One step of every multiplier; `steps` are their units, `count` the evaluations so far."""
    faded, faded2 = 1.0 - _MEAN**count, 1.0 - _SIZE**count
    for j in range(values.shape[0]):
        means[j] = _MEAN * means[j] + (1.0 - _MEAN) * slopes[j]
        squares[j] = _SIZE * squares[j] + (1.0 - _SIZE) * slopes[j] * slopes[j]
        if squares[j] > 0.0:
            values[j] -= length * steps[j] * (means[j] / faded) / math.sqrt(squares[j] / faded2)


@njit(cache=True, error_model="numpy", nogil=True)
def tune(
    tables: Tables,
    cell: Cell,
    prices: Array,
    common: Array,
    evaluations: int,
    first_step: float,
) -> float:
    """The smallest bound met in so many evaluations; its multipliers are left in `prices` and `common`."""
    n = tables.rows.shape[0]
    units, common_units = np.full(n, tables.shape[SHAPE.price]), np.array([1.0, 1.0, 0.2])
    trial, common_trial = prices.copy(), common.copy()
    by_price, by_common = np.empty(n), np.empty(3)
    means, squares = np.zeros(n), np.zeros(n)
    common_means, common_squares = np.zeros(3), np.zeros(3)
    best = math.inf
    for done in range(evaluations):
        bound = cell_bound(tables, cell, trial, common_trial, by_price, by_common, True)
        if not bound >= 0.0:  # outside the ball, or no bound
            return bound if done == 0 else best
        if bound < best:
            best = bound
            prices[:] = trial
            common[:] = common_trial
        length = first_step * (0.02 + 0.5 * (1.0 + math.cos(math.pi * done / evaluations)))
        _follow(trial, by_price, means, squares, units, length, done + 1)
        _follow(common_trial, by_common, common_means, common_squares, common_units, length, done + 1)
    return best
