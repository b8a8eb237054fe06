"""The inner loops of the branch-and-bound certificate (docs/certificates.md has the proof, step by step).

In the notation there: a row j moves by α v_j + qΔ, where its new attention q depends on Δ through t = K_j·δ alone, δ
being Δ less the centre of a cell. With prices on t, a row's contribution is the maximum of a function of t over an
interval, and what the prices add up to is a quadratic in δ, bounded by a trust-region dual. The maximum is bounded on a
grid of ℓ, the logit of q, plus what a function of known curvature can rise between two nodes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Cell = tuple[float, float, float, float]  # centre (s, a) and half-widths

LIMIT = 14.0  # beyond ±LIMIT, q differs from 0 or 1 by less than 1e-6: bounded by its slope instead
# Every sum below is inflated by this multiple of the size of its terms; its true rounding error is far smaller.
ROUNDING = 1e-12
# NaN and infinity keep their meaning; only the order of sums may change, and with it their last bits.
_FAST = {"reassoc", "contract", "nsz"}


class Row(NamedTuple):
    """The columns of the table of rows."""

    score: int = 0  # softmax: the logit of p; ReLU: the score
    share: int = 1  # p; −1 for row i itself, which is left out
    inverse: int = 2  # 1/(1 − p), or 1 where v is x_i − o_j⁻
    v2: int = 3  # ‖v‖²
    v_s: int = 4  # v·v̂, v·k̂
    v_a: int = 5
    k_s: int = 6  # K·v̂, K·k̂
    k_a: int = 7
    k_off: int = 8  # what is left of ‖K‖
    v_off: int = 9  # what is left of ‖v‖; −1 for a row of the group
    rest: int = 10  # ReLU: what the other words have; softmax: −1
    doubt: int = 11  # the rounding of a score
    extra0: int = 12  # what a ball that is not centred on x_i adds to φ: a parabola in q
    extra1: int = 13
    extra2: int = 14


class Shape(NamedTuple):
    """The entries of `shape`: what is known of one position besides its rows."""

    r2: int = 0  # r²
    group: int = 1  # rows of the group
    away_s: int = 2  # (x_i − ō)·v̂, (x_i − ō)·k̂
    away_a: int = 3
    top2: int = 4  # σ₁²
    spread2: int = 5  # ‖CO‖²
    leak: int = 6  # 2|G|‖ρ‖
    own2: int = 7  # ‖g‖², g = c − o_i for a ball centred at c; g·v̂, g·k̂, and what is left of ‖g‖
    own_s: int = 8
    own_a: int = 9
    own_off: int = 10
    far2: int = 11  # the farthest that row i can go to without word i, squared
    most2: int = 12  # another bound on the squared move of row i
    keys: int = 13  # max_j ‖K_j‖
    line: int = 14  # 1 if there is no v̂, so that s = 0 alone is meant
    price: int = 15  # the unit of a price


ROW, SHAPE = Row(), Shape()
# sup of (dq/dℓ)² and of |d²q/dℓ²| for the logistic function, rounded up.
SLOPE2, CURVATURE = 0.0625, 0.09623


class Nodes(NamedTuple):
    """A grid of logits ℓ and what is needed there; t = ℓ − score for softmax, t = rest·e^ℓ − score for ReLU.

    `slope2` and `curvature` bound (dq/dℓ)² and |d²q/dℓ²| between a node and its neighbours.
    """

    logits: Array
    shares: Array
    powers: Array  # e^ℓ
    slope2: Array
    curvature: Array


class Tables(NamedTuple):
    """One position, as the kernels read it: rows and shape with the entries of `ROW` and `SHAPE`."""

    rows: Array
    shape: Array
    keys: Array  # K along its axes but the first
    v: Array  # v̂ along the same axes, and what is left of it outside them all
    sigma2: Array  # the squared singular values, 0 for outside
    grid: Nodes


def nodes(per_unit: int) -> Nodes:
    """A grid of so many nodes a unit of ℓ."""
    logits = np.arange(-LIMIT * per_unit, LIMIT * per_unit + 1) / per_unit
    fine = np.linspace(logits[0] - 1 / per_unit, logits[-1] + 1 / per_unit, 32 * (len(logits) + 1) + 1)
    q = 1 / (1 + np.exp(-fine))
    slope, bend = q * (1 - q), np.abs(q * (1 - q) * (1 - 2 * q))

    def around(values: Array) -> Array:
        """The largest of a fine grid from one node before to one node after; 2 % for what lies in between."""
        windows = np.lib.stride_tricks.sliding_window_view(values, 65)[::32]
        return np.asarray(1.02 * windows.max(1))

    return Nodes(logits, 1 / (1 + np.exp(-logits)), np.exp(logits), around(slope**2), around(bend))


SOFTMAX, RELU = nodes(8), nodes(16)


@njit(cache=True, fastmath=_FAST, error_model="numpy", nogil=True)
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


@njit(cache=True, error_model="numpy", nogil=True)
def _best_price(e: float, m: float, low: float, high: float) -> float:
    """The t of [low, high] with the largest −2et − mt²."""
    return min(max(-e / m, low), high)


@njit(cache=True, error_model="numpy", nogil=True)
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


@njit(cache=True, fastmath=_FAST, error_model="numpy", nogil=True)
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


@njit(cache=True, error_model="numpy", nogil=True)
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


@njit(cache=True, fastmath=_FAST, error_model="numpy", nogil=True)
def weighted_sum(weights: Array, rows: Array, out: Array) -> None:
    """Σ_j weights_j rows_j."""
    out[:] = 0.0
    for j in range(rows.shape[0]):
        for l in range(rows.shape[1]):
            out[l] += weights[j] * rows[j, l]


@njit(cache=True, fastmath=_FAST, error_model="numpy", nogil=True)
def products(rows: Array, vector: Array, out: Array) -> None:
    """rows_j · vector, for every j."""
    for j in range(rows.shape[0]):
        total = 0.0
        for l in range(rows.shape[1]):
            total += rows[j, l] * vector[l]
        out[j] = total
