"""The inner loops of the branch-and-bound certificate (docs/certificates.md has the proof, step by step).

In the notation there: a row j moves by α v_j + qΔ, where its new attention q depends on Δ through t = K_j·δ alone, δ
being Δ less the centre of a cell. With prices on t, a row's contribution is the maximum of a function of t over an
interval, and what the prices add up to is a quadratic in δ, bounded by a trust-region dual. The maximum is bounded on a
grid of ℓ, the logit of q, plus what a function of known curvature can rise between two nodes.

A cell has a price e_j on the score of every row, and m, μ, c₀ for all rows together; any values give a bound. The bound
is convex in (e, m, μ, μc₀) and has kinks wherever a row has two equally good scores. A single derivative says little
there, a running mean of them does: each multiplier follows its own, measured by its own size (Adam; Kingma and Ba,
2015), with steps that shrink along a cosine. The smallest bound met on the way counts.

All compiled functions are in this file: numba's cache notices changes of a function's own file only.
"""

from __future__ import annotations

import math

import numpy as np

from oneword.bounds.layout import CURVATURE, ROUNDING, ROW, SHAPE, SLOPE2, Array, Cell, Nodes, Tables
from oneword.compiled import compiled

# NaN and infinity keep their meaning; only the order of sums may change, and with it their last bits.
_FAST = frozenset({"reassoc", "contract", "nsz"})
_MEAN, _SIZE = 0.7, 0.9  # how slowly the running means of the derivatives and of their squares forget


@compiled(_FAST)
def _largest(
    at: Array,
    q: Array,
    w: Array,
    slope2: Array,
    curvature: Array,
    scale: float,
    score: float,
    poly: tuple[float, float, float, float, float],
    p: float,
    kink: float,
    slope: float,
    bend: float,
    e: float,
    m: float,
    eighth: float,
    stretch: float,
) -> float:
    """φ(q) − 2et − mt² at every node, with what it can rise to on the way to the next; the largest.

    t = scale·w − score. For ReLU (stretch > 1) t bends with ℓ, for softmax it does not.
    """
    count = q.shape[0]
    a0, a1, a2, a3, a4 = poly
    if stretch > 1.0:
        for g in range(count):
            u = scale * w[g]
            t = u - score
            most = u * stretch
            price = 2.0 * most * (abs(e) + m * (abs(t) + most - u)) + 2.0 * m * most * most
            phi = a0 + q[g] * (a1 + q[g] * (a2 + q[g] * (a3 + q[g] * a4))) + kink * abs(q[g] * (q[g] - p))
            at[g] = phi - t * (2.0 * e + m * t) + eighth * (bend * slope2[g] + slope * curvature[g] + price)
    else:
        for g in range(count):
            t = scale * w[g] - score
            phi = a0 + q[g] * (a1 + q[g] * (a2 + q[g] * (a3 + q[g] * a4))) + kink * abs(q[g] * (q[g] - p))
            at[g] = phi - t * (2.0 * e + m * t) + eighth * (bend * slope2[g] + slope * curvature[g] + 2.0 * m)
    # Four running maxima: a single one would wait for itself at every step.
    b0 = b1 = b2 = b3 = at[0]
    fours = count // 4 * 4
    for g in range(0, fours, 4):
        b0, b1, b2, b3 = max(b0, at[g]), max(b1, at[g + 1]), max(b2, at[g + 2]), max(b3, at[g + 3])
    for g in range(fours, count):
        b0 = max(b0, at[g])
    return max(max(b0, b1), max(b2, b3))


@compiled()
def _best_price(e: float, m: float, low: float, high: float) -> float:
    """The t of [low, high] with the largest −2et − mt²."""
    return min(max(-e / m, low), high)


@compiled()
def rows_bound(
    rows: Array,
    cell: Cell,
    R: float,
    r2: float,
    prices: Array,
    m: float,
    mu: float,
    c0: float,
    grid: Nodes,
    best_t: Array,
    slopes: Array,
    want: bool,
) -> float:
    """Σ over rows j ≠ i of the maximum of φ_j(q) − 2e_jt − mt², for Δ in one cell.

    With `want`, also where each maximum is (`best_t`), and the derivatives in m, μ and c₀ (added to `slopes`).
    """
    s0, a0, hs, ha = cell
    logits = grid.logits
    last = logits.shape[0] - 1
    step = logits[1] - logits[0]
    eighth = step * step / 8.0
    stretch = math.exp(step) if rows[0, ROW.rest] >= 0.0 else 1.0
    at = np.empty(last + 1)
    total = 0.0
    for j in range(rows.shape[0]):
        p, inv, v2, v_off, rest = (
            rows[j, ROW.share],
            rows[j, ROW.inverse],
            rows[j, ROW.v2],
            rows[j, ROW.v_off],
            rows[j, ROW.rest],
        )
        if p < 0.0:
            best_t[j] = 0.0
            continue
        vs, va, ks, ka, e = rows[j, ROW.v_s], rows[j, ROW.v_a], rows[j, ROW.k_s], rows[j, ROW.k_a], prices[j]
        score = rows[j, ROW.score] + ks * s0 + ka * a0
        half = abs(ks) * hs + abs(ka) * ha + R * rows[j, ROW.k_off]
        half += rows[j, ROW.doubt] + ROUNDING * (1.0 + abs(rows[j, ROW.score]) + abs(score) + half)
        low, high = score - half, score + half
        if not low <= high:  # NaN, where scores overflow: no bound
            return math.nan

        # φ(q) = α²‖v‖² + 2qα u + q²r² + weight (qα − c₀)² + 2|qα| lost + extra, α = (q − p)·inv: a polynomial and a
        # kink.
        u = vs * s0 + va * a0
        x0, x1, x2 = rows[j, ROW.extra0], rows[j, ROW.extra1], rows[j, ROW.extra2]
        grouped = v_off < 0.0
        weight = mu if grouped else 0.0
        lost = 0.0 if grouped else v_off * R + abs(vs) * hs + abs(va) * ha
        inv2 = inv * inv
        quartic = weight * inv2
        poly = (
            p * p * inv2 * v2 + weight * c0 * c0 + x0,
            -2.0 * p * inv2 * v2 - 2.0 * p * u * inv + 2.0 * p * weight * c0 * inv + x1,
            inv2 * v2 + 2.0 * u * inv + r2 + p * p * quartic - 2.0 * weight * c0 * inv + x2,
            -2.0 * p * quartic,
            quartic,
        )
        kink = 2.0 * lost * inv
        # Bounds on |φ'| and |φ''| for q in [0, 1].
        peak, spread = max(1.0, p * inv), (2.0 - p) * inv
        farthest, off = abs(u) + lost, max(1.0, p * inv) + abs(c0)
        slope = 2.0 * peak * inv * v2 + 2.0 * farthest * spread + 2.0 * r2 + 2.0 * weight * off * spread
        slope += abs(x1) + 2.0 * abs(x2)
        bend = 2.0 * inv2 * v2 + 4.0 * farthest * inv + 2.0 * r2 + 2.0 * weight * (spread * spread + 2.0 * off * inv)
        bend += 2.0 * abs(x2)
        at_one = poly[0] + poly[1] + poly[2] + poly[3] + poly[4] + kink * (1.0 - p)

        best, where, q = -math.inf, 0.0, 0.0
        if rest == 0.0:  # ReLU, nothing else is attended to: q is 0 or 1, whatever the score
            where = _best_price(e, m, -half, half)
            best = max(poly[0], at_one) - where * (2.0 * e + m * where)
            q = 1.0 if at_one > poly[0] else 0.0
        else:
            scale, w = (1.0, logits) if rest < 0.0 else (rest, grid.powers)
            # The ends of the interval as logits; a ReLU score of 0 or less has none.
            first = low if rest < 0.0 else (math.log(low / rest) if low > 0.0 else -math.inf)
            final = high if rest < 0.0 else (math.log(high / rest) if high > 0.0 else -math.inf)
            if final - first <= step:  # shorter than a step: its own two ends are the nodes
                short = (final - first) ** 2 / 8.0
                for end_t, l in ((-half, first), (half, final)):
                    share = 1.0 / (1.0 + math.exp(-l))
                    most = high if rest > 0.0 else 0.0
                    price = 2.0 * m if rest < 0.0 else 2.0 * most * (abs(e) + m * half) + 2.0 * m * most * most
                    here = poly[0] + share * (poly[1] + share * (poly[2] + share * (poly[3] + share * poly[4])))
                    here += kink * abs(share * (share - p)) - end_t * (2.0 * e + m * end_t)
                    here += short * (SLOPE2 * bend + CURVATURE * slope + price)
                    if not here <= best:
                        best, where, q = here, end_t, share
                first, final = 0.0, -1.0  # nothing is left for the grid
            beyond = (last + 1) * step
            # Held to the grid as floats: from 2⁶³ on, a float has no int that floor could return.
            begin = math.floor(min(max(first - logits[0], 0.0), beyond) / step)
            end = min(last, math.ceil(min(max(final - logits[0], -step), beyond) / step))
            if begin <= end and first <= final:
                best = _largest(
                    at,
                    grid.shares[begin : end + 1],
                    w[begin : end + 1],
                    grid.slope2[begin : end + 1],
                    grid.curvature[begin : end + 1],
                    scale,
                    score,
                    poly,
                    p,
                    kink,
                    slope,
                    bend,
                    e,
                    m,
                    eighth,
                    stretch,
                )
                if want:
                    for g in range(end - begin + 1):
                        if at[g] == best:
                            where, q = scale * w[begin + g] - score, grid.shares[begin + g]
                            break
            if first < logits[0] and first <= final:  # q between 0 and shares[0]
                t = _best_price(e, m, -half, min(half, scale * w[0] - score))
                here = poly[0] + slope * grid.shares[0] - t * (2.0 * e + m * t)
                if not here <= best:
                    best, where, q = here, t, 0.0
            if final > logits[last] and first <= final:  # q between shares[last] and 1
                t = _best_price(e, m, max(-half, scale * w[last] - score), half)
                here = at_one + slope * (1.0 - grid.shares[last]) - t * (2.0 * e + m * t)
                if not here <= best:
                    best, where, q = here, t, 1.0
        total += best + ROUNDING * (abs(poly[0]) + slope + bend + 2.0 * abs(e) * half + m * half * half)
        best_t[j] = where
        if want:
            slopes[0] -= where * where
            if grouped:
                away = q * (q - p) * inv - c0
                slopes[1] += away * away
                slopes[2] -= 2.0 * mu * away
    return total


@compiled(_FAST)
def _secular(lam: float, m: float, extra: float, k: Array, v: Array, sigma2: Array, sums: Array) -> None:
    """Σk²/g, Σkv/g, Σv²/g and the same with g², g = λ − mσ² − extra."""
    kk = kv = vv = kk2 = kv2 = vv2 = 0.0
    for l in range(k.shape[0]):
        inverse = 1.0 / (lam - m * sigma2[l] - extra)
        a, b = k[l] * inverse, v[l] * inverse
        kk += k[l] * a
        kv += k[l] * b
        vv += v[l] * b
        kk2 += a * a
        kv2 += a * b
        vv2 += b * b
    sums[0], sums[1], sums[2], sums[3], sums[4], sums[5] = kk, kv, vv, kk2, kv2, vv2


@compiled()
def cell_dual(
    shape: Array,
    cell: Cell,
    k1: float,
    k: Array,
    v: Array,
    sigma2: Array,
    m: float,
    mu: float,
    c0: float,
    step: Array,
    moved: Array,
) -> float:
    """An upper bound of what the prices add up to, for every Δ of the cell: the dual value at a nearly optimal λ.

    The sum is 2k·δ + m‖Kδ‖² + 2c₀Σ_G v_j·δ + Σ_G (v_j·δ)²/μ. k is given along k̂ (k1) and along the other axes of K.
    Every λ above the largest curvature gives a bound, so the bisection need not be exact. The δ where it is attained is
    left in `step` (off k̂, along the axes) and `moved` (along k̂, along v̂, and the square of `step`).
    """
    s0, a0, hs, ha = cell
    r2, spread2 = shape[SHAPE.r2], shape[SHAPE.spread2]
    pull_s, pull_a = (
        c0 * shape[SHAPE.group] * shape[SHAPE.away_s],
        c0 * shape[SHAPE.group] * shape[SHAPE.away_a],
    )
    extra = spread2 / mu
    base = 0.0
    for value in sigma2:
        base = max(base, value)
    base = (m * base + extra) * (1.0 + 1e-9) + ROUNDING * r2
    sums = np.empty(6)
    best, best_lam, best_b = math.inf, base, 0.0
    moved[:] = 0.0
    gap, low, high = 0.3 * base, 0.0, math.inf
    for _ in range(80):
        lam = base + gap
        _secular(lam, m, extra, k, v, sigma2, sums)
        kk, kv, vv = sums[0], sums[1], sums[2]
        # Off k̂: max of 2(k + βv)·x − x·(G + ηvvᵀ)x with the best η for |v·x| ≤ h_s.
        beta = pull_s - lam * s0
        along = kv + beta * vv
        excess = 0.0
        if vv > 0.0 and abs(along) > hs:
            excess = (abs(along) - hs) / vv * (1.0 if along > 0.0 else -1.0)
        b = beta - excess
        # Along k̂: a parabola on |δ_a| ≤ h_a.
        lift, bend = k1 + pull_a - lam * a0, lam - m * shape[SHAPE.top2] - extra
        da = ha if lift > 0.0 else -ha
        if bend > 0.0:
            da = min(max(lift / bend, -ha), ha)
        value = lam * (r2 - a0 * a0 - s0 * s0) + kk + 2.0 * beta * kv + beta * beta * vv - excess * excess * vv
        value += 2.0 * lift * da - bend * da * da
        value += ROUNDING * (lam * r2 + kk + 2.0 * abs(beta * kv) + beta * beta * vv + abs(2.0 * lift * da))
        ds, x2 = along - excess * vv, sums[3] + 2.0 * b * sums[4] + b * b * sums[5]
        if value < best:
            best, best_lam, best_b = value, lam, b
            moved[0], moved[1], moved[2] = da, ds, x2
        # The derivative in λ is how much of the ball is left.
        if r2 - (a0 + da) ** 2 - s0 * s0 - 2.0 * s0 * ds - x2 < 0.0:
            low = gap
        else:
            high = gap
        if high == math.inf:
            gap *= 4.0
        elif low == 0.0:
            gap *= 0.25
            if gap < 1e-6 * base:
                break
        elif high < 1.03 * low:
            break
        else:
            gap = math.sqrt(low * high)
    for l in range(k.shape[0]):
        step[l] = (k[l] + best_b * v[l]) / (best_lam - m * sigma2[l] - extra)
    corner = abs(shape[SHAPE.away_a]) * ha + abs(shape[SHAPE.away_s]) * hs
    return best + shape[SHAPE.group] * corner * corner / mu


@compiled(_FAST)
def weighted_sum(weights: Array, rows: Array, out: Array) -> None:
    """Σ_j weights_j rows_j."""
    out[:] = 0.0
    for j in range(rows.shape[0]):
        for l in range(rows.shape[1]):
            out[l] += weights[j] * rows[j, l]


@compiled(_FAST)
def products(rows: Array, vector: Array, out: Array) -> None:
    """rows_j · vector, for every j."""
    for j in range(rows.shape[0]):
        total = 0.0
        for l in range(rows.shape[1]):
            total += rows[j, l] * vector[l]
        out[j] = total


@compiled()
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


@compiled()
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


@compiled()
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
