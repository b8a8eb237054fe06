"""Softmax attention of short texts, one candidate after the other in compiled loops.

For a few words of a few dimensions calling forty tensor operations takes a hundred times as long as doing them. Here a
row that moves is a vector, of which the norm is taken: that is as cheap as the inner products of `AttentionProbe`, and
nothing cancels. No liberties with floating point are taken: whether a kernel was compiled or read from the cache must
not show in the last bits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from oneword.compiled import compiled

MOST = 128  # entries n·d of a text for which loops are faster, however many candidates there are
WIDEST = 16  # and its largest d

Array = NDArray[np.float64]


@compiled()
def value_and_gradient(
    y: Array, own: NDArray[np.int64], X: Array, O: Array, K: Array, Q: Array, W: Array,
    score: Array, share: Array, rest: Array, spare: Array, sharp: NDArray[np.bool_], outputs: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """The squared change of every candidate and its gradient.

    | argument | meaning |
    |---|---|
    | `y`, `own` | the new words (b, d) and their rows (b,) |
    | `X`, `O`, `K`, `Q` | words, outputs, keys and queries of the text (n, d) |
    | `W` | (W + Wᵀ)/2/√d, of which yᵀWy is the score of the new word on itself |
    | `score` … `spare` | as in `LeaveOneOut`, (b, n) or (1, n) |
    | `sharp`, `outputs` | where β is taken from o_j⁻ (b, n) or (1, n), and o_j⁻ (n, d) |
    """
    b, d = y.shape
    n = len(X)
    values, gradients = np.zeros(b), np.zeros((b, d))
    D, moved, h, yW = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    t, by_a = np.empty(n), np.empty(n)
    for c in range(b):
        i, half = own[c], gradients[c]
        r = c if len(score) > 1 else 0
        for k in range(d):
            D[k] = y[c, k] - X[i, k]
        # Rows j ≠ i, which move by (q − p)β + qΔ.
        value = 0.0
        for j in range(n):
            if j == i:
                continue
            out = outputs if sharp[r, j] else O
            DK = 0.0
            for k in range(d):
                DK += D[k] * K[j, k]
            q = 1 / (1 + math.exp(rest[r, j] - (score[r, j] + DK)))
            rise, by_q = q - share[r, j], 0.0
            for k in range(d):
                beta = (X[i, k] - out[j, k]) / spare[r, j]
                moved[k] = rise * beta + q * D[k]
                value += moved[k] * moved[k]
                by_q += moved[k] * (beta + D[k])
            by_q *= q * (1 - q)
            for k in range(d):
                half[k] += by_q * K[j, k] + q * moved[k]
        # Row i, all of whose scores are new.
        largest = -math.inf
        for j in range(n):
            t[j] = 0.0
            for k in range(d):
                t[j] += Q[j, k] * y[c, k]
            if j == i:
                t[j] = 0.0
                for k in range(d):
                    yW[k] = 0.0
                    for l in range(d):
                        yW[k] += y[c, l] * W[l, k]
                    t[j] += yW[k] * y[c, k]
            largest = max(largest, t[j])
        total = 0.0
        for j in range(n):
            t[j] = math.exp(t[j] - largest)  # weights from here on
            total += t[j]
        for k in range(d):
            h[k] = -O[i, k]
        for j in range(n):
            t[j] /= total
            for k in range(d):
                h[k] += t[j] * X[j, k]
        hD = 0.0
        for k in range(d):
            h[k] += t[i] * D[k]
            hD += h[k] * D[k]
            value += h[k] * h[k]
        mean = 0.0
        for j in range(n):
            by_a[j] = hD if j == i else 0.0
            for k in range(d):
                by_a[j] += X[j, k] * h[k]
            mean += t[j] * by_a[j]
        for k in range(d):
            half[k] += t[i] * h[k]
        for j in range(n):
            by_t = t[j] * (by_a[j] - mean)
            for k in range(d):
                half[k] += 2 * by_t * yW[k] if j == i else by_t * Q[j, k]
        values[c] = value
        for k in range(d):
            half[k] *= 2
    return values, gradients
