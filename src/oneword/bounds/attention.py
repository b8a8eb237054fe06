"""Closed-form certificates for normalised attention, before any branching.

Row j ≠ i moves on the segment from o_j⁻ (word i ignored) to y (nothing but word i), so its squared move, convex
along the segment, is at most that of the two ends together: a_j + ‖w_j + q̄_jΔ‖² with w_j = (q̄_j − p_j)(x_i − o_j⁻).
Summed over j, only one inner product with Δ is left. `plain` takes the far end at q̄ = 1, `reachable` as far as the
ball lets the score rise. Row i stays in the hull of the changed words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.bounds.kernels import ROUNDING
from oneword.maps.leave_one_out import LeaveOneOut
from oneword.maps.scores import GroupedScore, ReLU, Score

# More than the rounding of sums of n·d terms in float64, for every n·d below 10¹⁰.
OUTWARDS = 1 + 1e-9
# More than the rounding of ‖x − o‖² when it is expanded, relative to its terms.
EXPANDED = 1e-12


class Rows(Protocol):
    """Attention at one text, a Probe or a head of one: values X, keys K, Q, scores S (−∞: hidden), weights, outputs.

    `words` are what keys meet (X itself but in a head); no score of x on y is above `steepness`·‖x‖‖y‖.
    """

    @property
    def words(self) -> Float[Tensor, "n d"]: ...
    @property
    def steepness(self) -> float: ...
    @property
    def X(self) -> Float[Tensor, "n v"]: ...
    @property
    def K(self) -> Float[Tensor, "n d"]: ...
    @property
    def Q(self) -> Float[Tensor, "n d"]: ...
    @property
    def S(self) -> Float[Tensor, "n n"]: ...
    @property
    def P(self) -> Float[Tensor, "n n"]: ...
    @property
    def O(self) -> Float[Tensor, "n v"]: ...  # noqa: E743
    @property
    def score(self) -> Score: ...


class GroupedRows(Rows, Protocol):
    """Attention with a grouped score."""

    @property
    def without(self) -> LeaveOneOut: ...


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


def segment_bound(rows: GroupedRows, r: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """An upper bound on the squared change at each position: the smaller of `plain` and `reachable`."""
    others = [ends.fixed + ends.far * r.square() + 2 * r * ends.pull.norm(dim=1) for ends in far_ends(rows, r)]
    return (torch.minimum(*others) + own_row(rows, r)) * OUTWARDS


def far_ends(rows: GroupedRows, r: Float[Tensor, " n"]) -> tuple[FarEnds, FarEnds]:
    """`plain` and `reachable`, for words that move by at most r."""
    assert isinstance(rows.score, GroupedScore)
    reachable = rows.score.share(rows.score.mass(highest(rows, r)), rows.without.rest)
    seen = torch.ones_like(reachable).masked_fill(rows.S.mT.isneginf(), 0)
    return _far_ends(rows, seen), _far_ends(rows, (reachable * OUTWARDS).clamp_max(1))


def highest(rows: Rows, r: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
    """[i, j]: the highest score that row j may come to give word i, rounded outwards.

    Outwards here too: where nothing else is attended to, the ReLU share jumps from 0 to 1 as a score turns positive.
    """
    rise, score, size = r[:, None] * rows.K.norm(dim=1), rows.S.mT, rows.words.norm(dim=1)
    rounded = (OUTWARDS - 1) * (score.masked_fill(score.isneginf(), 0).abs() + rise)
    return score + rise + rounded + score_error(rows, size, (size + r)[:, None])


def score_error(rows: Rows, x: Float[Tensor, "*row"], y: Float[Tensor, "*word"]) -> Float[Tensor, "*both"]:
    """More than the rounding of a score of a word of length x on one of length y: of its terms, not of what is left."""
    return ROUNDING * rows.steepness * x * y


def _far_ends(rows: GroupedRows, q: Float[Tensor, "n n"]) -> FarEnds:
    """For attention on the changed word of at most q_ij."""
    without = rows.without
    p, q = without.share, q.clone().fill_diagonal_(0)
    # beta2 is ‖x‖² − 2x·o + ‖o‖²: where the two nearly agree, it is only as good as ε(‖x‖² + ‖o‖²).
    size = rows.X.square().sum(1)[:, None] + rows.O.square().sum(1)
    beta2 = (without.beta2 + EXPANDED * size / without.spare.square()).fill_diagonal_(0)
    rise = (q - p).clamp_min(0)  # q̄ ≥ p but for rounding
    cross = q * rise / without.spare  # Σ_j q̄_j (q̄_j − p_j) β_j = Σ_j cross_ij (x_i − o_j)
    pull = cross.sum(1, keepdim=True) * rows.X
    if without.sharp is None:
        pull = pull - cross @ rows.O
    else:
        sharp = cross * without.sharp
        pull = pull - (cross - sharp) @ rows.O - sharp @ without.outputs
    return FarEnds(((p.square() + rise.square()) * beta2).sum(1), q.square().sum(1), pull)


def own_row(rows: Rows, r: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """An upper bound on the squared move of row i itself, whose value moves by at most r."""
    distance = distances(rows)
    moved = distance.diagonal() + r
    others = distance.clone().fill_diagonal_(0).amax(0)
    return torch.maximum(torch.maximum(others, moved), _vanishing(rows)).square()


def hull_bound(rows: Rows, r: float) -> float:
    """An upper bound on the squared change when any number of values change by at most r each."""
    return float(torch.maximum(distances(rows).amax(0) + r, _vanishing(rows)).square().sum()) * OUTWARDS


def distances(rows: Rows) -> Float[Tensor, "n n"]:
    """‖x_l − o_i‖, [l, i]; 0 where row i does not see word l."""
    distance = torch.cdist(rows.X, rows.O, compute_mode="donot_use_mm_for_euclid_dist")
    return distance.masked_fill(rows.S.mT.isneginf(), 0)


def _vanishing(rows: Rows) -> Float[Tensor, " n"]:
    """How far o_i moves if its row comes to attend to nothing, which only ReLU rows can."""
    return rows.O.norm(dim=1) if isinstance(rows.score, ReLU) else rows.O.new_zeros(len(rows.O))
