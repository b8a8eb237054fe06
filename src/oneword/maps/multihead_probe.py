"""Multi-head attention prepared at one text: what changing one word does, head by head.

A head is attention whose rows average values v = W_Vᵀx instead of words, so the algebra of `attention_probe` holds
with v_i for x_i and v_y for y,

    o'_j − o_j = (q − p)(v_i − o_j⁻) + q (v_y − v_i)

and a candidate costs O(n d_h + d d_h) a head. Under a causal mask the rows j < i do not see word i: their score on it
is −∞ before and after, and they stay. Several rows at once, and scores without grouping (sparsemax), go through a
full forward pass.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oneword.maps.attention_probe import unit_rows
from oneword.maps.base import (
    Probe,
    check_candidates,
    check_matches,
    check_scores,
    feature_norm,
    frobenius,
    replace_rows,
)
from oneword.maps.leave_one_out import LeaveOneOut
from oneword.maps.scores import GroupedScore, Score

if TYPE_CHECKING:
    from oneword.maps.multihead import MultiHeadAttention


@final
class Head:
    """One head at one text. `X` are its values, which its rows average; `K` and `Q` give scores of whole words.

    | name | meaning |
    |---|---|
    | `X` | XW_V (n × d_v) |
    | `queries`, `keys` | XW_Q/√d_h and XW_K (n × d_h) |
    | `K`, `Q` | s_ji = K_j·x_i and s_il = Q_l·x_i, as in RAF: queries W_Kᵀ, keys W_Qᵀ/√d_h (n × d) |
    | `S`, `P`, `O` | scores (−∞ where hidden), weights, outputs |
    """

    def __init__(
        self,
        words: Float[Tensor, "n d"],
        W_Q: Float[Tensor, "d d_h"],
        W_K: Float[Tensor, "d d_h"],
        W_V: Float[Tensor, "d d_v"],
        score: Score,
        hidden: Bool[Tensor, "n n"],
    ) -> None:
        self.words, self.W_Q, self.W_K, self.W_V, self.score, self.hidden = words, W_Q, W_K, W_V, score, hidden
        self.root = math.sqrt(W_Q.shape[1])
        self.X, self.queries, self.keys = words @ W_V, words @ W_Q / self.root, words @ W_K
        self.S = check_scores(self.queries @ self.keys.mT).masked_fill(hidden, -torch.inf)
        self.P = score.attend(self.S)
        self.O = self.P @ self.X

    @cached_property
    def K(self) -> Float[Tensor, "n d"]:
        return check_scores(self.queries @ self.W_K.mT)

    @cached_property
    def Q(self) -> Float[Tensor, "n d"]:
        return check_scores(self.keys @ self.W_Q.mT / self.root)

    @cached_property
    def steepness(self) -> float:
        """No score of x on y is above this times ‖x‖‖y‖."""
        return frobenius(self.W_Q) * frobenius(self.W_K) / self.root

    @property
    def W_symmetric(self) -> Float[Tensor, "d d"]:
        """The matrix of a word's score with itself."""
        W = self.W_Q @ self.W_K.mT / self.root
        return (W + W.mT) / 2

    @cached_property
    def without(self) -> LeaveOneOut:
        """Every row without each word in turn."""
        assert isinstance(self.score, GroupedScore)
        everyone = torch.arange(len(self.X), device=self.X.device)
        return LeaveOneOut.of(self.score, self.X, self.S, self.P, self.O, everyone)

    def change2(self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
        """‖o' − o‖² of all rows, from inner products alone."""
        around, q = self._shares(y, i)
        D = (y - self.words[i]) @ self.W_V
        DO = D @ self.O.mT if self.score.normalised else torch.zeros_like(q)
        pairs = around.sharp_pairs(len(i))
        if pairs is not None:
            b, j = pairs
            DO = DO.index_put((b, j), (D[b] * around.outputs[j]).sum(1))
        u = ((D * self.X[i]).sum(1, keepdim=True) - DO) / around.spare  # β_j · Δ
        rise = q - around.share
        DD = D.square().sum(1, keepdim=True)
        rows = rise.square() * around.beta2 + 2 * q * rise * u + q.square() * DD
        if not self.score.normalised:
            rows = around.between(rows, q, self.X[i], y @ self.W_V, DD)
        return rows.sum(1) + self._own_row(y, i).square().sum(1)

    def moves(self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]) -> Float[Tensor, "b n d_v"]:
        """o' − o itself."""
        around, q = self._shares(y, i)
        D = (y - self.words[i]) @ self.W_V
        without = self.O if self.score.normalised else torch.zeros_like(self.O)
        rise = q - around.share
        beta = (self.X[i][:, None] - without) / around.spare[..., None]
        pairs = around.sharp_pairs(len(i))
        if pairs is not None:
            b, j = pairs
            beta = beta.index_put((b, j), self.X[i[b]] - around.outputs[j])
        rows = rise[..., None] * beta + q[..., None] * D[:, None]
        own = i[:, None, None].expand(-1, 1, rows.shape[2])
        return rows.scatter(1, own, self._own_row(y, i)[:, None])

    def _shares(self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]) -> tuple[LeaveOneOut, Float[Tensor, "b n"]]:
        """The rows j ≠ i without word i, and q, their attention on the changed word."""
        assert isinstance(self.score, GroupedScore)
        around = self.without.at(i)
        s = around.score + (y - self.words[i]) @ self.W_K @ self.queries.mT
        return around, self.score.share(self.score.mass(s), around.rest)

    def _own_row(self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]) -> Float[Tensor, "b d_v"]:
        """How far row i moves, all of whose scores are new."""
        own, query = i[:, None], y @ self.W_Q / self.root
        t = (query @ self.keys.mT).scatter(1, own, (query * (y @ self.W_K)).sum(1, keepdim=True))
        a = self.score.attend(t.masked_fill(self.hidden[i], -torch.inf))
        return a @ self.X + a.gather(1, own) * ((y - self.words[i]) @ self.W_V) - self.O[i]


@final
class MultiHeadProbe(Probe):
    """φ.at(X) for multi-head attention: one changed row costs O(nd + d²), or O(n p) more a head if there is a W_O."""

    def __init__(self, phi: MultiHeadAttention, X: Float[Tensor, "n d"]) -> None:
        check_matches(X, phi.W_Q, phi.d)
        self.phi, self.X = phi, X.detach()
        self.grouped = isinstance(phi.score, GroupedScore)
        hidden = phi.hidden(len(X))
        self.heads = [
            Head(self.X, W_Q, W_K, W_V, phi.score, hidden)
            for W_Q, W_K, W_V in zip(phi.W_Q, phi.W_K, phi.W_V, strict=True)
        ]
        self.clean = self._joined([head.O for head in self.heads])
        self.norm = feature_norm(self.clean)

    def _joined(self, heads: list[Tensor]) -> Float[Tensor, "*b n p"]:
        together = torch.cat(heads, -1)
        return together if self.phi.W_O is None else together @ self.phi.W_O

    def _incremental(self, i: Tensor) -> bool:
        return self.grouped and (i.ndim == 1 or i.shape[1] == 1)

    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        check_candidates(self.X, y, i)
        if not self._incremental(i) or self.phi.W_O is not None:
            return self._moves(y, i).flatten(1).square().sum(1)
        y, i = y.reshape(len(i), -1), i.reshape(-1)
        return torch.stack([head.change2(y, i) for head in self.heads]).sum(0)

    def features(self, y: Tensor, i: Tensor) -> Float[Tensor, "b n p"]:
        check_candidates(self.X, y, i)
        return self.clean + self._moves(y, i)

    def _moves(self, y: Tensor, i: Tensor) -> Float[Tensor, "b n p"]:
        """φ(X with rows i replaced by y) − φ(X)."""
        if not self._incremental(i):
            return self.phi(replace_rows(self.X, y, i)) - self.clean
        y, i = y.reshape(len(i), -1), i.reshape(-1)
        return self._joined([head.moves(y, i) for head in self.heads])

    def bytes_per_candidate(self, m: int) -> int:
        n, d, heads, values = self.n, self.d, self.phi.heads, self.phi.W_V.shape[2]
        if not self.grouped or m > 1:
            per = heads * (16 * n**2 + 8 * n * (self.phi.head_width + values)) + 4 * (self.clean.numel() + n * d)
        elif self.phi.W_O is not None:
            per = heads * n * (24 + 6 * values) + 4 * self.clean.numel() + 8 * d
        else:
            per = heads * (32 * n + 8 * (self.phi.head_width + values)) + 8 * d
        return per * self.X.element_size()

    # Where to start a search ---------------------------------------------------------------------------------------

    @cached_property
    def _mean_keys(self) -> Float[Tensor, "heads d"]:
        return unit_rows(torch.stack([head.K.mean(0) for head in self.heads]))

    def _away(self, x: Float[Tensor, "p m d"]) -> Float[Tensor, "heads p m d"]:
        """Where the values of x move away from what a head puts out."""
        return torch.stack([unit_rows((x @ head.W_V - head.O.mean(0)) @ head.W_V.mT) for head in self.heads])

    def directions(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"]:
        """For each head where its rows look, bare and with what moves them far; the same for all heads together."""
        x = self.X[i]
        keys = self._mean_keys[:, None, None].expand(-1, *x.shape)
        away = self._away(x)
        all_keys, all_away = unit_rows(keys.sum(0)), unit_rows(away.sum(0))
        toward = torch.cat([keys, -keys, keys + 0.7 * away, all_keys + 0.7 * away])
        rest = torch.stack([all_keys, all_keys + 0.7 * all_away, all_away, -all_away, -x])
        return torch.cat([rest, toward]).transpose(0, 1)

    def leading_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"]:
        """The mean over heads of their mean keys."""
        return unit_rows(self._mean_keys.sum(0)).expand(len(i), 1, i.shape[1], self.d)
