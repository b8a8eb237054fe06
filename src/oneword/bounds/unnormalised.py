"""A closed-form certificate for weights g(s) that are not normalised: sigmoid, ReLU and linear attention.

g never falls, so a score that moves by at most t leaves the weight between g(s − t) and g(s + t). Row j ≠ i moves by
(q − p)x_i + qΔ, a norm that is convex in q and so largest at an end:

    ‖o'_j − o_j‖ ≤ max over q = g(s_ji ± r‖K_j‖) of |q − p|‖x_i‖ + |q| r.

Row i: its weights on the other words change by c with |c_l| ≤ max|g(s_il ± r‖Q_l‖) − p_l|, and as g is 1-Lipschitz,
‖c‖ ≤ r‖Q‖; its output by Σ c_l x_l, of norm at most ‖X‖‖c‖ and Σ|c_l|‖x_l‖; and by what its own word does.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.bounds.attention import OUTWARDS, GroupedRows
from oneword.bounds.layers import layer_norm


def interval_bound(rows: GroupedRows, r: Float[Tensor, " n"], reach: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """An upper bound on the squared change at each position, for words that move by r and values that move by reach."""
    score, size = rows.score, rows.X.norm(dim=1)

    def ends(s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Both ends of the interval of weights."""
        t = t + (OUTWARDS - 1) * (s.masked_fill(s.isneginf(), 0).abs() + t)
        return score.attend(s - t), score.attend(s + t)

    def follows(s: Tensor, t: Tensor, p: Tensor, length: Tensor, reach: Tensor) -> Tensor:
        """How far a row moves by the changed word alone."""
        return torch.stack([(q - p).abs() * length + q.abs() * reach for q in ends(s, t)]).amax(0)

    others = follows(rows.S.mT, r[:, None] * rows.K.norm(dim=1), rows.P.mT, size[:, None], reach[:, None])
    others = others.fill_diagonal_(0).square().sum(1)

    new = ends(rows.S, r[:, None] * rows.Q.norm(dim=1))
    change = torch.stack([(q - rows.P).abs() for q in new]).amax(0).fill_diagonal_(0)
    length = torch.minimum(change.norm(dim=1), r * layer_norm(rows.Q))
    by_others = torch.minimum(length * layer_norm(rows.X), change @ size)
    t = r * (rows.K + rows.Q).norm(dim=1) + r.square() * layer_norm(rows.W_symmetric)
    own = by_others + follows(rows.S.diagonal(), t, rows.P.diagonal(), size, reach)
    return (others + own.square()) * OUTWARDS
