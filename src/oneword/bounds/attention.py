"""Closed-form certificates for normalised attention, before any branching.

Row j ≠ i moves on the segment from o_j⁻ (word i ignored) to y (nothing but word i), so its squared move, convex
along the segment, is at most that of the two ends together: a_j + ‖w_j + q̄_jΔ‖² with w_j = (q̄_j − p_j)(x_i − o_j⁻).
Summed over j, only one inner product with Δ is left. `plain` takes the far end at q̄ = 1, `reachable` as far as the
ball lets the score rise. Two more bounds are each for a case of their own: `from_origin` where words have a norm, so
that y is nearer to 0 than to x_i, and `narrow`, which vanishes with the radius. Row i stays in the hull of the changed
words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.bounds.layout import ROUNDING
from oneword.maps.attention_probe import AttentionProbe, KeyedProbe
from oneword.maps.multihead_probe import Head
from oneword.maps.scores import GroupedScore

# More than the rounding of sums of n·d terms in float64, for every n·d below 10¹⁰.
OUTWARDS = 1 + 1e-9
SHORTEST = 1e-140  # the squares of shorter vectors underflow
# More than the rounding of one score, relative to its size. Small, or it would drown the smallest balls.
ROUNDED = 1e-12
# More than the rounding of ‖x − o‖² when it is expanded, relative to its terms.
EXPANDED = 1e-12


# Attention at one text, a Probe or a head of one: values X, keys K, Q, scores S (−∞: hidden), weights P, outputs O.
# `words` are what keys meet (X itself but in a head); no score of x on y is above `steepness`·‖x‖‖y‖.
Rows = KeyedProbe | Head
GroupedRows = AttentionProbe | Head  # with a grouped score


@dataclass(frozen=True, eq=False)
class FarEnds:
    """The squared moves of the rows j ≠ i together are at most fixed + far·‖Δ‖² + 2 pull·Δ, at each position i.

    | field | meaning |
    |---|---|
    | `fixed` | Σ_j p_j²‖β_j‖² + (q̄_j − p_j)²‖β_j‖² |
    | `far` | Σ_j q̄_j² |
    | `pull` | Σ_j q̄_j (q̄_j − p_j) β_j |
    """

    fixed: Float[Tensor, " n"]
    far: Float[Tensor, " n"]
    pull: Float[Tensor, "n v"]


def segment_bound(rows: GroupedRows, r: Float[Tensor, " n"], longest: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """An upper bound on the squared change at each position; words move by r and are no longer than `longest`."""
    ends = [end.fixed + end.far * r.square() + 2 * r * end.pull.norm(dim=1) for end in far_ends(rows, r)]
    others = torch.stack([*ends, narrow(rows, r, r), from_origin(rows, longest)]).amin(0)
    return (others + own_row(rows, r, r, longest)) * OUTWARDS


def far_ends(rows: GroupedRows, r: Float[Tensor, " n"]) -> tuple[FarEnds, FarEnds]:
    """`plain` and `reachable`, for words that move by at most r."""
    assert isinstance(rows.score, GroupedScore)
    reachable = rows.score.share(rows.score.mass(highest(rows, r)), rows.without.rest)
    seen = torch.ones_like(reachable).masked_fill(rows.S.mT.isneginf(), 0)
    return _far_ends(rows, seen), _far_ends(rows, (reachable * OUTWARDS).clamp_max(1))


def highest(rows: Rows, r: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
    """[i, j]: the highest score that row j may come to give word i, rounded outwards."""
    return rows.S.mT + _rise(rows, r)


def _rise(rows: Rows, r: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
    """[i, j]: how far the score of row j on word i may rise or fall, rounded outwards.

    Outwards here too: where nothing else is attended to, the ReLU share jumps from 0 to 1 as a score turns positive.
    """
    rise, size = r[:, None] * row_norms(rows.K), rows.words.norm(dim=1)
    return rise + _rounded(rows.S.mT, rise) + score_error(rows, size, (size + r)[:, None])


def _rounded(score: Tensor, rise: Tensor) -> Tensor:
    return ROUNDED * (score.masked_fill(score.isneginf(), 0).abs() + rise)


def row_norms(vectors: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Their lengths, also where squares would underflow: shares of ReLU do not feel how small all keys are."""
    largest = vectors.abs().amax(1)
    return largest * (vectors / largest.clamp_min(torch.finfo(vectors.dtype).tiny)[:, None]).norm(dim=1)


def score_error(rows: Rows, x: Float[Tensor, "*row"], y: Float[Tensor, "*word"]) -> Float[Tensor, "*both"]:
    """More than the rounding of a score of a word of length x on one of length y: of its terms, not of what is left."""
    return ROUNDING * rows.steepness * x * y


def _far_ends(rows: GroupedRows, q: Float[Tensor, "n n"]) -> FarEnds:
    """For attention on the changed word of at most q_ij."""
    without = rows.without
    p, q = without.share, q.clone().fill_diagonal_(0)
    beta2 = _beta2(rows)
    rise = (q - p).clamp_min(0)  # q̄ ≥ p but for rounding
    cross = q * rise / without.spare  # Σ_j q̄_j (q̄_j − p_j) β_j = Σ_j cross_ij (x_i − o_j)
    pull = cross.sum(1, keepdim=True) * rows.X
    if without.sharp is None:
        pull = pull - cross @ rows.O
    else:
        sharp = cross * without.sharp
        pull = pull - (cross - sharp) @ rows.O - sharp @ without.outputs
    return FarEnds(((p.square() + rise.square()) * beta2).sum(1), q.square().sum(1), pull)


def narrow(rows: GroupedRows, r: Float[Tensor, " n"], reach: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The rows j ≠ i, each by itself: q lies between the shares of the lowest and of the highest reachable score.

    A row moves by at most |q − p|‖β‖ + q·reach, convex in q and so largest at an end. It vanishes with the radius.
    """
    assert isinstance(rows.score, GroupedScore)
    without, score, rise = rows.without, rows.S.mT, _rise(rows, r)
    beta = _beta2(rows).sqrt()
    moves = []
    for s in (score - rise, score + rise):
        q = rows.score.share(rows.score.mass(s), without.rest)
        moves.append(((q - without.share).abs() + ROUNDING * q) * beta + q * reach[:, None])
    return torch.maximum(*moves).fill_diagonal_(0).square().sum(1)


def from_origin(rows: GroupedRows, longest: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The rows j ≠ i with y in a ball around 0: Σ a_j + ‖y − o_j‖², the inner products with y taken together."""
    seen = (~rows.S.mT.isneginf()).to(rows.X.dtype).fill_diagonal_(0)  # [i, j]
    near = (rows.without.share.square() * _beta2(rows)).sum(1)
    far = seen.sum(1) * longest.square() + 2 * longest * (seen @ rows.O).norm(dim=1) + seen @ rows.O.square().sum(1)
    return near + far


def _beta2(rows: GroupedRows) -> Float[Tensor, "n n"]:
    """‖β‖², rounded outwards: expanded as ‖x‖² − 2x·o + ‖o‖², it is only as good as ε(‖x‖² + ‖o‖²)."""
    size = rows.X.square().sum(1)[:, None] + rows.O.square().sum(1)
    without = rows.without
    return (without.beta2 + EXPANDED * size / without.spare.square()).fill_diagonal_(0)


def own_row(
    rows: Rows, r: Float[Tensor, " n"], reach: Float[Tensor, " n"], longest: Float[Tensor, " n"] | None = None
) -> Float[Tensor, " n"]:
    """An upper bound on the squared move of row i; its value moves by `reach` and is no longer than `longest`."""
    hull = _hull_of_row(rows, reach, longest)
    return (torch.minimum(hull, _little(rows, r, reach)) if isinstance(rows.score, GroupedScore) else hull).square()


def _hull_of_row(rows: Rows, reach: Float[Tensor, " n"], longest: Float[Tensor, " n"] | None) -> Float[Tensor, " n"]:
    distance = distances(rows)
    moved = distance.diagonal() + reach
    if longest is not None:
        moved = torch.minimum(moved, longest + rows.O.norm(dim=1))
    others = distance.clone().fill_diagonal_(0).amax(0)
    return torch.maximum(torch.maximum(others, moved), _vanishing(rows))


def _little(rows: Rows, r: Float[Tensor, " n"], reach: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """How far row i moves if its scores move by no more than they can.

    Each weight lies between its share of the lowest score beside the others' highest, and the other way round; as
    weights sum to 1, the output moves by Σ_l (a'_l − a_l)(x_l − o_i) + a'_i Δ.
    """
    score, t = rows.score, own_scores(rows, r)
    assert isinstance(score, GroupedScore)
    low, high = rows.S - t, rows.S + t
    most = torch.nan_to_num(score.share(score.mass(high), score.rest(low)))
    least = torch.nan_to_num(score.share(score.mass(low), score.rest(high)))
    turned = torch.maximum(most - rows.P, rows.P - least).clamp_min(0) + ROUNDING * most
    moved = (turned * distances(rows).mT).sum(1) + most.diagonal() * reach
    # Only weights that sum to 1 before and after may be taken from o_i.
    certain = score.pool(low) > (0 if score.can_vanish else -torch.inf)
    return torch.where(certain, moved, torch.maximum(moved, _vanishing(rows)))


def own_scores(rows: Rows, r: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
    """[i, l]: how far the score of row i on word l may move, rounded outwards, when word i moves by at most r."""
    size = rows.words.norm(dim=1)
    t = r[:, None] * row_norms(rows.Q)
    t = torch.diagonal_scatter(t, r * row_norms(rows.K + rows.Q) + r.square() * rows.steepness)
    return t + _rounded(rows.S, t) + score_error(rows, size + r, size.max() + r)[:, None]


def hull_bound(rows: Rows, r: float) -> float:
    """An upper bound on the squared change when any number of values change by at most r each."""
    return float(torch.maximum(distances(rows).amax(0) + r, _vanishing(rows)).square().sum()) * OUTWARDS


def distances(rows: Rows) -> Float[Tensor, "n n"]:
    """‖x_l − o_i‖, [l, i]; 0 where row i does not see word l."""
    distance = torch.cdist(rows.X, rows.O, compute_mode="donot_use_mm_for_euclid_dist")
    return distance.masked_fill(rows.S.mT.isneginf(), 0)


def _vanishing(rows: Rows) -> Float[Tensor, " n"]:
    """How far o_i moves if its row comes to attend to nothing, where that can happen."""
    return rows.O.norm(dim=1) if rows.score.can_vanish else rows.O.new_zeros(len(rows.O))
