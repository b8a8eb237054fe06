"""The inner loop of the vocabulary search: what one new word does to the rows that attend to it.

For row j, E is the mass of the new word relative to all of the row's mass before the change, p that of the old word,
`spare` = 1 − p. Its attention becomes q = E/(E + spare), and with c = (E − p)/(E + spare) its output moves by
c(x_i − o_j) + q(y − x_i); xo is x_i·o_j, v2 is ‖x_i − o_j‖². A row that does not count has `spare` = VOID: q and c
vanish. A score that is not normalised (`pooled` = 0) has q = E, c = E − p and o_j = 0.

`one` is a 1 of the arrays' own type: beside a float64, float32 would become float64.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from oneword.compiled import compiled

VOID = 1e30
TOGETHER = 8  # words: with the rows of one position they stay in the first-level cache

Array = NDArray[Any]  # all of float32, or all of float64

# Sums may be reordered and divisions shared, which makes them vector instructions; NaN and ∞ keep their meaning.
FAST = frozenset({"reassoc", "contract", "arcp", "nsz"})


@compiled(FAST)
def add_rows(
    E: Array, yo: Array, yx: Array, dd: Array, out: Array,
    p: Array, spare: Array, xo: Array, v2: Array, xx: Array, pooled: Any, one: Any,
) -> None:  # fmt: skip
    """out[v, i] += Σ_{j ≠ i} ‖o'_j − o_j‖²; yo and yx are y·o_j and y·x_i, dd is ‖y − x_i‖²."""
    for first in range(0, E.shape[0], TOGETHER):
        for i in range(p.shape[0]):
            for v in range(first, min(first + TOGETHER, E.shape[0])):
                base, total = yx[v, i] - xx[i], one - one
                for j in range(E.shape[1]):
                    inverse = one / (pooled * E[v, j] + spare[i, j])
                    q, c = E[v, j] * inverse, (E[v, j] - p[i, j]) * inverse
                    turn = q * (base + xo[i, j] - pooled * yo[v, j])
                    total += q * q * dd[v, i] + c * (turn + turn + c * v2[i, j])
                out[v, i] += total


@compiled(FAST)
def compose(a: Array, scale: Array, shift: Array, out: Array, c: Array, b: Array) -> None:
    """Inner products of y = α(a + c) + ρb with a table, from those of a, b and c."""
    for v in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[v, j] = scale[v] * (a[v, j] + c[j]) + shift[v] * b[j]


@compiled(FAST)
def replace_one(
    E: Array, m: Array, mG: Array, s: Array, ao: Array, ax: Array, scale: Array, shift: Array, out: Array, dd: Array,
    co: Array, bo: Array, cx: Array, bx: Array,
    p: Array, spare: Array, xo: Array, v2: Array, xx: Any,
    across: Array, oo: Any, yy: Any, i: int, pooled: Any, one: Any,
) -> None:  # fmt: skip
    """The whole change when word i becomes y = α(a + c) + ρb: the rows j ≠ i as above, and row i from its masses.

    m are the masses that row i gives the other words (0 for word i), s that of the new one, mG = m X Xᵀ.
    """
    zero = one - one
    for v in range(E.shape[0]):
        yx_i = scale[v] * (ax[v, i] + cx[i]) + shift[v] * bx[i]
        yo_i = scale[v] * (ao[v, i] + co[i]) + shift[v] * bo[i]
        base, total = yx_i - xx, zero
        dd[v] = yy - yx_i - yx_i + xx
        uu, uy, mixed, mass = zero, zero, zero, s[v]
        for j in range(E.shape[1]):
            yo = scale[v] * (ao[v, j] + co[j]) + shift[v] * bo[j]
            yx = scale[v] * (ax[v, j] + cx[j]) + shift[v] * bx[j]
            inverse = one / (pooled * E[v, j] + spare[j])
            q, c = E[v, j] * inverse, (E[v, j] - p[j]) * inverse
            turn = q * (base + xo[j] - pooled * yo)
            total += q * q * dd[v] + c * (turn + turn + c * v2[j])
            uu += m[v, j] * mG[v, j]
            uy += m[v, j] * yx
            mixed += m[v, j] * across[j]
            mass += m[v, j]
        square = uu + s[v] * (s[v] * yy + uy + uy)
        mixed += s[v] * yo_i
        share = one
        if pooled == one:
            share = one / mass if mass > zero else zero
        out[v] = total + share * (share * square - mixed - mixed) + oo
