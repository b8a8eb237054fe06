"""Attention prepared at one text, for scores that no grouping makes incremental (sparsemax).

Changing word i to y changes column i and row i of the scores and no other entry, so those cost O(nd + d²):

    s'_ji = s_ji + K_j·(y − x_i)  (j ≠ i),    s'_il = Q_l·y  (l ≠ i),    s'_ii = y W y/√d

Every weight of a row may depend on every score of it, so weights and outputs are made anew from them: O(n²d) for a
candidate, where a forward pass would take O(nd² + n²d).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, final

from jaxtyping import Float, Int
from torch import Tensor

from oneword.maps.base import check_candidates, check_matches, check_scores, feature_norm, frobenius
from oneword.maps.starts import KeyedProbe

if TYPE_CHECKING:
    from oneword.maps.attention import AttentionFeatures


@final
class RescoredProbe(KeyedProbe):
    """φ.at(X) for attention with any score: the scores are incremental, the weights are not."""

    def __init__(self, phi: AttentionFeatures, X: Float[Tensor, "n d"]) -> None:
        check_matches(X, phi.W, phi.d)
        self.X, self.W, self.score = X.detach(), phi.W.detach(), phi.score
        root = math.sqrt(phi.d)
        self.K = self.X / root @ self.W  # s_ji = K_j · x_i
        self.Q = self.X / root @ self.W.mT  # s_il = Q_l · x_i
        self.S = self.K @ self.X.mT
        check_scores(self.S, self.K, self.Q)
        self.P = self.score.attend(self.S)
        self.O = self.P @ self.X
        self.norm = feature_norm(self.O)

    @property
    def words(self) -> Float[Tensor, "n d"]:
        return self.X

    @cached_property
    def steepness(self) -> float:
        """No score of x on y is above this times ‖x‖‖y‖."""
        return frobenius(self.W) / math.sqrt(self.d)

    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        return (self.features(y, i) - self.O).flatten(1).square().sum(1)

    def features(self, y: Tensor, i: Tensor) -> Float[Tensor, "b n d"]:
        check_candidates(self.X, y, i)
        if i.ndim == 1:
            y, i = y[:, None], i[:, None]
        weights = self.score.attend(self.scores(y, i))
        to_changed = weights.gather(2, i[:, None].expand(-1, self.n, -1))  # (b, n, m)
        return weights @ self.X + to_changed @ (y - self.X[i])

    def scores(self, y: Float[Tensor, "b m d"], i: Int[Tensor, "b m"]) -> Float[Tensor, "b n n"]:
        """All scores of the changed texts: the columns i, then the rows i, which have the last word where both meet."""
        S = self.S.expand(len(i), -1, -1)
        columns = self.S.mT[i].mT + ((y - self.X[i]) @ self.K.mT).mT  # (b, n, m)
        rows = y @ self.Q.mT  # (b, m, n)
        rows = rows.scatter(2, i[:, None].expand(-1, i.shape[1], -1), y @ self.W @ y.mT / math.sqrt(self.d))
        S = S.scatter(2, i[:, None].expand(-1, self.n, -1), columns)
        return S.scatter(1, i[..., None].expand(-1, -1, self.n), rows)

    def attention(self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]) -> Float[Tensor, "b n"]:
        weights = self.score.attend(self.scores(y[:, None], i[:, None]))
        return weights.gather(2, i[:, None, None].expand(-1, self.n, 1))[..., 0]

    def bytes_per_candidate(self, m: int) -> int:
        # Scores before and after, sorted, summed up, masked; weights, and the gradients of all of them; outputs.
        per = 16 * self.n**2 + 6 * self.X.numel() + 8 * m * (self.n + self.d)
        return per * self.X.element_size()
