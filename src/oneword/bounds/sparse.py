"""A closed-form certificate for sparsemax attention, whose rows leave the segment but not the hull of a few words.

As the score of row j on word i rises, its threshold rises, so every other weight falls, and lies below what it is
without word i. Only words l ∈ L_j with weight there ever count, and o'_j is in the hull of y and of those:

    ‖o'_j − o_j‖ ≤ max( max_{l ∈ L_j} ‖x_l − o_j‖, ‖x_i − o_j‖ + r ).

What the other words lose, word i gains, and no more than its score rose, t ≤ r‖K_j‖ (a projection is 1-Lipschitz):

    ‖o'_j − o_j‖ ≤ min(1, p_j + t) r + min(1, t) max_{l ∈ L_j} ‖x_i − x_l‖.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from oneword.bounds.attention import OUTWARDS, Rows, distances, own_row, own_scores, row_norms


def support_bound(rows: Rows, r: Float[Tensor, " n"], reach: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """An upper bound on the squared change at each position, for words that move by r and values that move by reach."""
    apart = torch.cdist(rows.X, rows.X, compute_mode="donot_use_mm_for_euclid_dist")
    distance = distances(rows)  # [l, j]
    support = rows.P > 0  # [j, l]
    seen = ~rows.S.isneginf()
    others = []
    for i in range(len(rows.X)):
        allowed = _without(rows, support, i)
        far = (distance.mT * allowed).amax(1)
        hull = torch.maximum(far, distance[i] + reach[i])
        t = r[i] * row_norms(rows.K) * OUTWARDS
        little = (rows.P[:, i] + t).clamp_max(1) * reach[i] + t.clamp_max(1) * (apart[i] * allowed).amax(1)
        move = torch.minimum(hull, little) * seen[:, i]
        move[i] = 0
        others.append(move.square().sum())
    # Row i: its weights move by no more than its scores, in the Euclidean norm, and sum to 1 before and after.
    little = own_scores(rows, r).masked_fill(~seen, 0).norm(dim=1) * distance.norm(dim=0) + reach
    own = torch.minimum(own_row(rows, r, reach), little.square())
    return (torch.stack(others) + own) * OUTWARDS


def _without(rows: Rows, support: Bool[Tensor, "n n"], i: int) -> Bool[Tensor, "n n"]:
    """[j, l]: whether row j would attend to word l if word i were not there; row i is left as it is."""
    changed = support[:, i].clone()
    changed[i] = False
    allowed = support.clone()
    scores = rows.S[changed]
    scores[:, i] = -torch.inf
    # A row that sees word i alone, the first of a causal text, is row i itself: here something is always left.
    allowed[changed] = rows.score.attend(scores) > 0
    return allowed
