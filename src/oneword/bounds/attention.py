"""Closed-form certificates for attention, before any branching.

Row j ≠ i moves on the segment from o_j⁻ (word i ignored) to y (nothing but word i), so its squared move, convex
along the segment, is at most that of the two ends together: a_j + ‖w_j + q̄_jΔ‖² with w_j = (q̄_j − p_j)(x_i − o_j⁻).
Summed over j, only one inner product with Δ is left. `plain` takes the far end at q̄ = 1, `reachable` as far as the
ball lets the score rise. Row i stays in the hull of the changed words.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.maps.attention_probe import AttentionProbe

# More than the rounding of sums of n·d terms in float64, for every n·d below 10¹⁰.
OUTWARDS = 1 + 1e-9
# More than the rounding of ‖x − o‖² when it is expanded, relative to its terms.
EXPANDED = 1e-12


def segment_bound(probe: AttentionProbe, r: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """An upper bound on the squared change at each position: the smaller of `plain` and `reachable`."""
    # Outwards here too: where nothing else is attended to, the ReLU share jumps from 0 to 1 as a score turns positive.
    rise = r[:, None] * probe.K.norm(dim=1)
    score = probe.S.mT
    reach = score + rise + (OUTWARDS - 1) * (score.abs() + rise)
    reachable = probe.score.share(probe.score.mass(reach), probe.without.rest)
    rows = torch.minimum(
        _other_rows(probe, torch.ones_like(reachable), r),
        _other_rows(probe, (reachable * OUTWARDS).clamp_max(1), r),
    )
    return (rows + _own_row(probe, r)) * OUTWARDS


def _other_rows(probe: AttentionProbe, q: Float[Tensor, "n n"], r: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Σ_{j≠i} of the segment bound, for attention on the changed word of at most q_ij."""
    without = probe.without
    p = without.share
    # beta2 is ‖x‖² − 2x·o + ‖o‖²: where the two nearly agree, it is only as good as ε(‖x‖² + ‖o‖²).
    size = probe.X.square().sum(1)[:, None] + probe.O.square().sum(1)
    beta2 = without.beta2 + EXPANDED * size / without.spare.square()
    rise = (q - p).clamp_min(0)  # q̄ ≥ p but for rounding
    ends = p.square() * beta2 + rise.square() * beta2 + q.square() * r[:, None].square()
    cross = (q * rise / without.spare).fill_diagonal_(0)  # Σ_j q̄_j w_j = Σ_j cross_ij (x_i − o_j)
    total = cross.sum(1, keepdim=True) * probe.X
    if without.sharp is None:
        total = total - cross @ probe.O
    else:
        sharp = cross * without.sharp
        total = total - (cross - sharp) @ probe.O - sharp @ without.outputs
    return ends.fill_diagonal_(0).sum(1) + 2 * r * total.norm(dim=1)


def _own_row(probe: AttentionProbe, r: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    distance = torch.cdist(probe.X, probe.O, compute_mode="donot_use_mm_for_euclid_dist")  # ‖x_l − o_i‖, [l, i]
    moved = distance.diagonal() + r
    others = distance.clone().fill_diagonal_(0).amax(0)
    return torch.maximum(torch.maximum(others, moved), _vanishing(probe)).square()


def hull_bound(probe: AttentionProbe, r: float) -> float:
    """An upper bound on the squared change when any number of words change by at most r each."""
    distance = torch.cdist(probe.X, probe.O, compute_mode="donot_use_mm_for_euclid_dist")
    return float(torch.maximum(distance.amax(0) + r, _vanishing(probe)).square().sum()) * OUTWARDS


def _vanishing(probe: AttentionProbe) -> Float[Tensor, " n"]:
    """How far o_i moves if its row comes to attend to nothing, which only ReLU rows can."""
    can = probe.score.name != "softmax"
    return probe.O.norm(dim=1) if can else probe.O.new_zeros(probe.n)
