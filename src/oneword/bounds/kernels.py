"""The inner loops of the branch-and-bound certificate (docs/certificates.md has the proof, step by step).

In the notation there: a row j moves by α v_j + qΔ, where its new attention q = σ(ℓ) and ℓ = c_j + K_j·Δ. Over a cell of
directions, K_j·Δ = κ_j + t with |t| ≤ R‖K'_j‖, so a row's contribution is the maximum of a function of ℓ alone over an
interval. It is bounded on a grid of ℓ, plus what a function of bounded curvature can rise between two nodes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEP = 0.125
STRIDE = 4  # nodes of the coarse pass
LIMIT = 14.0  # beyond ±LIMIT, q differs from 0 or 1 by less than 1e-6: bounded by its slope instead
LOGITS: Array = np.arange(-LIMIT, LIMIT + STEP / 2, STEP)
SHARES: Array = 1 / (1 + np.exp(-LOGITS))

# sup of (dq/dℓ)² and of |d²q/dℓ²| for the logistic function, rounded up.
SLOPE2, CURVATURE = 0.0625, 0.09623
# Every sum below is inflated by this multiple of the size of its terms; its true rounding error is far smaller.
ROUNDING = 1e-12


@njit(cache=True)
def _quadratic(t: float, w: float, e: float, m: float) -> float:
    """max of −2eτ − mτ² over |τ − t| ≤ w."""
    tau = -e / m
    if t - w > tau:
        tau = t - w
    elif t + w < tau:
        tau = t + w
    return -2.0 * e * tau - m * tau * tau


@njit(cache=True)
def _quadratic_between(first: float, last: float, w: float, e: float, m: float) -> float:
    """max of the same over all t of [first, last]."""
    return _quadratic(0.5 * (first + last), 0.5 * (last - first) + w, e, m)


@njit(cache=True)
def _at_node(
    q: float,
    t: float,
    p: float,
    inv: float,
    v2: float,
    u0: float,
    wu: float,
    r2: float,
    weight: float,
    c0: float,
    w: float,
    e: float,
    m: float,
) -> float:
    """φ(q) − 2et − mt² at one node, the largest that the cell allows."""  # fmt: skip
    alpha = (q - p) * inv
    qa = q * alpha
    off = qa - c0
    phi = alpha * alpha * v2 + 2.0 * (qa * u0 + abs(qa) * wu) + q * q * r2 + weight * off * off
    return phi + _quadratic(t, w, e, m)


@njit(cache=True)
def rows_bound(
    rows: Array,
    cell: tuple[float, float, float, float],
    R: float,
    r2: float,
    e: float,
    m: float,
    mu: float,
    c0: float,
    logits: Array,
    shares: Array,
) -> float:
    """Σ over rows j ≠ i of the maximum of φ_j(q) − 2et − mt², for Δ in one cell.

    `rows` has one line a row: c, p, 1/(1−p), ‖v‖², v·v̂, v·k̂, K·v̂, K·k̂, ‖K'‖, ‖v'‖ (−1 for a row of the group, whose
    parts off v̂ and k̂ sum to zero; other rows use their own length by Cauchy–Schwarz).
    """  # fmt: skip
    s0, a0, hs, ha = cell
    total = 0.0
    last = logits.shape[0] - 1
    at = np.empty(last + 1)
    for j in range(rows.shape[0]):
        c, p, inv, v2 = rows[j, 0], rows[j, 1], rows[j, 2], rows[j, 3]
        vs, va, ks, ka, K_off, v_off = rows[j, 4], rows[j, 5], rows[j, 6], rows[j, 7], rows[j, 8], rows[j, 9]
        center = c + ks * s0 + ka * a0
        # The logits carry rounding of their own: let them shift by a little more than the cell makes them.
        w = abs(ks) * hs + abs(ka) * ha + ROUNDING * (1.0 + abs(c) + abs(center) + R * K_off)
        u0 = vs * s0 + va * a0
        wu = abs(vs) * hs + abs(va) * ha
        grouped = v_off < 0.0
        if grouped:
            weight = mu
        else:
            weight = 0.0
            wu += v_off * R
        half = R * K_off + w
        lo, hi = center - half, center + half
        if not lo <= hi:  # NaN, where scores overflow: no bound
            return math.nan

        # φ(q) = α²‖v‖² + 2qα u + q²r² + μ(qα − c0)², α = (q − p)·inv: bounds on |φ'| and |φ''| for q in [0, 1].
        peak = max(1.0, p * inv)
        u_max = abs(u0) + wu
        spread = (2.0 - p) * inv
        off = peak + abs(c0)
        slope = 2.0 * peak * inv * v2 + 2.0 * u_max * spread + 2.0 * r2 + 2.0 * weight * off * spread
        bend = 2.0 * inv * inv * v2 + 4.0 * u_max * inv + 2.0 * r2 + 2.0 * weight * (spread * spread + 2.0 * off * inv)
        rise = (2.0 * m + SLOPE2 * bend + CURVATURE * slope) * STEP * STEP / 8.0

        best = -1e300
        # Held to the grid as floats: from 2⁶³ on, a float has no int that floor could return.
        beyond = (last + 1) * STEP
        first_node = math.floor(min(max(lo - logits[0], 0.0), beyond) / STEP)
        last_node = min(last, math.ceil(min(max(hi - logits[0], -STEP), beyond) / STEP))
        # Every STRIDE-th node first: between two of them the function rises by at most STRIDE²·rise, and where even
        # that stays below the largest value so far (plus rise, which is added in the end), the rest can be left out.
        for g in range(first_node, last_node + 1, STRIDE):
            at[g] = _at_node(shares[g], logits[g] - center, p, inv, v2, u0, wu, r2, weight, c0, w, e, m)
            best = max(best, at[g])
        for left in range(first_node, last_node + 1, STRIDE):
            right = left + STRIDE
            reach = at[left] if right > last_node else max(at[left], at[right])
            if right <= last_node and reach + (STRIDE * STRIDE - 1) * rise <= best:
                continue
            for g in range(left + 1, min(right, last_node + 1)):
                best = max(best, _at_node(shares[g], logits[g] - center, p, inv, v2, u0, wu, r2, weight, c0, w, e, m))
        best += rise
        if lo < logits[0]:  # q between 0 and shares[0]
            alpha = -p * inv
            end = alpha * alpha * v2 + weight * c0 * c0 + slope * shares[0]
            best = max(best, end + _quadratic_between(lo - center, min(hi, logits[0]) - center, w, e, m))
        if hi > logits[last]:  # q between shares[last] and 1
            alpha = (1.0 - p) * inv
            end = (
                alpha * alpha * v2
                + 2.0 * alpha * u0
                + 2.0 * alpha * wu
                + r2
                + weight * (alpha - c0) * (alpha - c0)
                + slope * (1.0 - shares[last])
            )
            best = max(best, end + _quadratic_between(max(lo, logits[last]) - center, hi - center, w, e, m))
        total += best + ROUNDING * (slope + bend + 2.0 * abs(e) * half + m * half * half)
    return total


@njit(cache=True)
def trust_region_dual(e: float, m: float, R2: float, k2: Array, sigma2: Array) -> float:
    """An upper bound of max 2e k·δ + m Σ σ_l²δ_l² over ‖δ‖² ≤ R²: the dual value at a nearly optimal λ > mσ²_max.

    Every λ above mσ²_max gives a valid bound, so the bisection need not be exact.
    """
    top = 0.0
    for value in sigma2:
        top = max(top, value)
    base = m * top * (1.0 + 1e-9) + 1e-9

    gap = 1.0  # λ = base + gap; first find where the derivative R² − e²Σk²/(λ−mσ²)² is positive
    for _ in range(200):
        if e * e * _secular(base + gap, m, k2, sigma2, 2) < R2:
            break
        gap *= 2.0
    low, high = 1e-12, gap
    for _ in range(60):
        middle = math.sqrt(low * high)
        if e * e * _secular(base + middle, m, k2, sigma2, 2) < R2:
            high = middle
        else:
            low = middle
        if high < 1.001 * low:
            break
    lam = base + high
    return (lam * R2 + e * e * _secular(lam, m, k2, sigma2, 1)) * (1.0 + ROUNDING)


@njit(cache=True)
def _secular(lam: float, m: float, k2: Array, sigma2: Array, power: int) -> float:
    total = 0.0
    for l in range(k2.shape[0]):
        gap = lam - m * sigma2[l]
        total += k2[l] / (gap if power == 1 else gap * gap)
    return total
