"""Attention prepared at one text: what changing one word, or a few, does to it.

Changing word i to y changes one score in every row j ≠ i and the whole of row i. With o_j⁻ the output of row j if word
i were not there, p its attention on word i before and q after the change,

    o'_j − o_j = (q − p)(x_i − o_j⁻) + q (y − x_i)

so one candidate costs O(nd + d²) instead of a forward pass's O(nd² + n²d), and all of its rows come from inner
products with three matrices that do not depend on the candidate: keys K, outputs O and queries Q. A score that is not
normalised is the same formula with o_j⁻ = 0 and the bare weights as p and q.
"""

from __future__ import annotations

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.cluster.vq import kmeans2
from torch import Tensor

from oneword.maps import short_texts
from oneword.maps.base import (
    SHORT,
    Probe,
    Slope,
    check_candidates,
    check_matches,
    check_scores,
    feature_norm,
    frobenius,
)
from oneword.maps.leave_one_out import LeaveOneOut
from oneword.maps.scores import GroupedScore
from oneword.maps.scores.normalised import Softmax

if TYPE_CHECKING:
    from oneword.maps.attention import AttentionFeatures


def unit_rows(v: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows d"]:
    """v/‖v‖ along the last axis; 0 stays 0."""
    # Only where they would overflow, since dividing twice rounds twice.
    if v.numel() and float(v.abs().max()) > math.sqrt(torch.finfo(v.dtype).max / v.shape[-1]):
        v = v / v.abs().amax(-1, keepdim=True).clamp_min(1)
    return v / v.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(v.dtype).tiny)


def _at_most_one(K: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Keys of the same directions and proportions, whose squares and sums do not overflow; small ones as they are."""
    largest = K.abs().max()
    return K / largest if float(largest) > math.sqrt(torch.finfo(K.dtype).max / K.numel()) else K


def _centres(U: Float[Tensor, "n d"], k: int) -> Float[Tensor, "k d"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is no harm: equal words make them
        centres, _ = kmeans2(U.double().cpu().numpy(), k, iter=10, minit="++", rng=np.random.default_rng(0))
    return unit_rows(torch.from_numpy(centres).to(U))


class KeyedProbe(Probe, ABC):
    """A Probe of one attention layer. Searches start along its keys: a word that many rows look at moves many of them.

    The score of row j on word i rises along its key K_j, and once the rows attend to the word, it moves them further
    the further it is from what they put out already.
    """

    def __init__(self, phi: AttentionFeatures, X: Float[Tensor, "n d"]) -> None:
        check_matches(X, phi.W, phi.d)
        X, W = X.detach(), phi.W.detach()
        self.X, self.W, self.score = X, W, phi.score
        root = math.sqrt(phi.d)
        self.table = X.new_empty((3 * len(X), phi.d))  # K, O and Q in one: a single GEMM serves all three
        self.K, self.O, self.Q = self.table.split(len(X))
        torch.mm(X / root, W, out=self.K)  # s_ji = K_j · x_i
        torch.mm(X / root, W.mT, out=self.Q)  # s_il = Q_l · x_i
        self.S = self.K @ X.mT
        check_scores(self.S, self.K, self.Q)
        self.P = self.score.attend(self.S)
        torch.mm(self.P, X, out=self.O)
        self.norm = feature_norm(self.O)

    @property
    def words(self) -> Float[Tensor, "n d"]:
        return self.X

    @cached_property
    def steepness(self) -> float:
        """No score of x on y is above this times ‖x‖‖y‖."""
        return frobenius(self.W) / math.sqrt(self.d)

    @abstractmethod
    def attention(self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]) -> Float[Tensor, "b n"]:
        """The attention of every row on the changed word after the change (`P[:, i]` is that before it)."""

    def attention_shares(self, y: Tensor, i: Tensor) -> tuple[Tensor, Tensor] | None:
        return (self.P[:, i], self.attention(y, i)) if self.score.normalised else None  # others are no shares

    @cached_property
    def mean_key(self) -> Float[Tensor, " d"]:
        return unit_rows(_at_most_one(self.K).mean(0))

    @cached_property
    def _key_directions(self) -> Float[Tensor, "s d"]:
        """Where many rows look at once: the mean key, centres of clusters of keys, ± their leading axes, few keys."""
        n, d = self.K.shape
        U = unit_rows(self.K)
        K = _at_most_one(self.K)
        parts = [self.mean_key[None], _centres(U, min(8, n))]
        _, axes = torch.linalg.eigh(K.mT @ K if d <= n else K @ K.mT)
        axes = axes[:, -4:] if d <= n else K.mT @ axes[:, -4:]
        parts += [unit_rows(axes.mT), -unit_rows(axes.mT)]
        if n <= SHORT:  # a short text: each key, and mixtures in which a few of them dominate
            mixture = np.random.default_rng(0).exponential(size=(64, n)) ** 2
            parts += [U, unit_rows(torch.from_numpy(mixture).to(U) @ U)]
        return torch.cat(parts)

    def directions(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"]:
        """All of them, each also with 0.7 of the way from what the rows put out to word i."""
        x = self.X[i]  # (p, m, d)
        away = unit_rows(x - self.O.mean(0))
        toward = self._key_directions[:, None] + 0.7 * away[:, None]  # (p, s, m, d)
        rest = torch.stack([self.mean_key.expand_as(x), away, -away, -x], 1)
        return torch.cat([rest, toward], 1)

    def leading_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"]:
        """The mean key."""
        return self.mean_key.expand(len(i), 1, i.shape[1], len(self.mean_key))


class _Places(NamedTuple):
    """What changing one row i in each of b candidates needs, whatever the new words are."""

    own: Int[Tensor, "b 1"]
    x: Float[Tensor, "b d"]
    o: Float[Tensor, "b d"]
    around: LeaveOneOut
    sharp: tuple[Tensor, Tensor, Tensor] | None  # (candidate, row j), and o_j⁻, where word i has most of the attention


@final
class AttentionProbe(KeyedProbe):
    """φ.at(X) for attention with a grouped score: a candidate costs O(nd + d²)."""

    score: GroupedScore

    def __init__(self, phi: AttentionFeatures, X: Float[Tensor, "n d"]) -> None:
        assert isinstance(phi.score, GroupedScore)  # AttentionFeatures.at has chosen
        super().__init__(phi, X)
        self.kinked, self.W_symmetric = phi.score.kinked, phi.W_symmetric
        self._only: LeaveOneOut | None = None
        self._keys_outputs, self._zero = self.table[: 2 * self.n].mT, X.new_zeros(())

    @cached_property
    def without(self) -> LeaveOneOut:
        """Every row without each word in turn."""
        return self._without(torch.arange(self.n, device=self.X.device))

    def _without(self, words: Int[Tensor, " p"]) -> LeaveOneOut:
        return LeaveOneOut.of(self.score, self.X, self.S, self.P, self.O, words)

    def near(self, rows: tuple[int, ...]) -> AttentionProbe:
        if len(rows) > 1:
            return self
        near = copy.copy(self)
        near._only = self._without(torch.tensor(rows, device=self.X.device))
        return near

    def _around(self, i: Int[Tensor, " b"]) -> LeaveOneOut:
        """One line a candidate; a Probe near one row has a single line, which serves them all."""
        return self.without.at(i) if self._only is None else self._only

    # One changed row ---------------------------------------------------------------------------------------------

    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        check_candidates(self.X, y, i)
        if i.ndim == 2 and i.shape[1] > 1:
            return (self._several(y, i) - self.O).flatten(1).square().sum(1)
        apply: Callable[..., Tensor] = _OneRowChange.apply
        return apply(y.reshape(len(i), -1), i.reshape(-1), self)

    def value_and_gradient(self, y: Tensor, i: Tensor) -> tuple[Float[Tensor, " b"], Tensor]:
        check_candidates(self.X, y, i)  # before anything is made of i
        if i.ndim == 2 and i.shape[1] > 1:
            return super().value_and_gradient(y, i)
        return self.slope_at(i)(y)

    def slope_at(self, i: Tensor) -> Slope:
        if i.ndim == 2 and i.shape[1] > 1:
            return super().slope_at(i)
        if self._short:
            return self._slope_in_loops(i)
        places = self._places(i.reshape(-1))

        def slope(y: Tensor) -> tuple[Float[Tensor, " b"], Tensor]:
            check_candidates(self.X, y, i)
            value, gradient = self._one_row(y.detach().reshape(len(i), -1), places, need_gradient=True)
            assert gradient is not None
            return value, gradient.view(y.shape)

        return slope

    @property
    def _short(self) -> bool:
        """Whether compiled loops are faster than tensors, however many candidates there are."""
        X = self.X
        size = X.numel() <= short_texts.MOST and self.d <= short_texts.WIDEST
        return size and isinstance(self.score, Softmax) and X.dtype == torch.float64 and X.device.type == "cpu"

    def _slope_in_loops(self, i: Tensor) -> Slope:
        own, around = i.reshape(-1), self._around(i.reshape(-1))
        lines = (around.score, around.share, around.rest, around.spare)
        sharp = torch.zeros_like(around.share, dtype=torch.bool) if around.sharp is None else around.sharp
        outputs = around.outputs if len(around.outputs) else self.O
        text = (self.X, self.O, self.K, self.Q, self.W_symmetric)
        arrays = [tensor.detach().contiguous().numpy() for tensor in (own, *text, *lines, sharp, outputs)]

        def slope(y: Tensor) -> tuple[Float[Tensor, " b"], Tensor]:
            check_candidates(self.X, y, i)
            candidates = y.detach().reshape(len(own), -1).contiguous().numpy()
            value, gradient = short_texts.value_and_gradient(candidates, *arrays)
            return torch.from_numpy(value), torch.from_numpy(gradient).view(y.shape)

        return slope

    def _places(self, i: Int[Tensor, " b"]) -> _Places:
        around = self._around(i)
        pairs = around.sharp_pairs(len(i)) if self.score.normalised else None
        sharp = None if pairs is None else (*pairs, around.outputs[pairs[1]])
        return _Places(i[:, None], self.X[i], self.O[i], around, sharp)

    def _one_row(
        self, y: Float[Tensor, "b d"], at: _Places, need_gradient: bool
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b d"] | None]:
        """The squared change, and its gradient by hand: one GEMM in, one GEMM out, nothing kept in between.

        For a short text calling an operation takes longer than doing it, so there are as few as possible.
        """
        n, score, own, x, around, sharp = self.n, self.score, at.own, at.x, at.around, at.sharp
        D = y - x
        DT = torch.mm(D, self._keys_outputs)

        # Rows j ≠ i; row i is void and adds nothing.
        p, rest, spare, beta2 = around.share, around.rest, around.spare, around.beta2
        s, DO = around.score + DT[:, :n], DT[:, n:]
        q = score.share(score.mass(s), rest)
        if not score.normalised:
            DO = torch.zeros_like(DO)
        elif sharp is not None:
            b, j, o = sharp
            DO.index_put_((b, j), (D[b] * o).sum(1))
        Dx, DD = (D * x).sum(1, keepdim=True), D.square().sum(1, keepdim=True)
        u = (Dx - DO) / spare  # β_j · Δ
        rise, qq = q - p, q.square()
        turn = q * rise
        rows = (rise.square() * beta2).add_(turn * u, alpha=2).add_(qq * DD)
        if not score.normalised:
            rows = around.between(rows, q, x, y, DD)

        t, a, yW, moved, a_own = self._changed_row(y, D, own)
        h = moved - at.o
        value = rows.sum(1) + h.square().sum(1)
        if not need_gradient:
            return value, None

        by_q = (rise * beta2).add_((q + rise).mul_(u)).add_(q * DD).mul_(score.slope(s, q, rest))
        by_o = turn.neg_().div_(spare)
        by_a = torch.mm(h, self.X.mT).scatter_add_(1, own, (h * D).sum(1, keepdim=True))
        by_t = score.pull(a, t, by_a)
        half = (qq.sum(1, keepdim=True) * D).add_(a_own * h).add_(by_t.gather(1, own) * yW, alpha=2)
        half -= by_o.sum(1, keepdim=True) * x
        if not score.normalised:
            by_o = torch.zeros_like(by_o)
        elif sharp is not None:
            half.index_add_(0, b, by_o[b, j][:, None] * o)
            by_o.index_put_((b, j), self._zero)
        half += torch.mm(torch.cat([by_q, by_o, by_t.scatter_(1, own, 0)], 1), self.table)
        return value, half.mul_(2)

    def _changed_row(
        self, y: Float[Tensor, "b d"], D: Float[Tensor, "b d"], own: Int[Tensor, "b 1"]
    ) -> tuple[
        Float[Tensor, "b n"], Float[Tensor, "b n"], Float[Tensor, "b d"], Float[Tensor, "b d"], Float[Tensor, "b 1"]
    ]:
        """Row i, all of whose scores are new: scores, weights, yW (symmetrised), output, and weight of the new word.

        The scores come from y itself: near y = 0, S + ΔQ would be mere rounding, which a normalised ReLU blows up.
        """
        yW = y @ self.W_symmetric
        t = (y @ self.Q.mT).scatter_(1, own, (yW * y).sum(1, keepdim=True))
        a = self.score.attend(t)
        a_own = a.gather(1, own)
        return t, a, yW, a @ self.X + a_own * D, a_own

    def inner(self, y: Tensor, i: Tensor, u: Tensor) -> Float[Tensor, " b"]:
        check_candidates(self.X, y, i)
        if i.ndim == 2 and i.shape[1] > 1:
            return super().inner(y, i, u)
        i, y, U = i.reshape(-1), y.reshape(len(i), -1), u.reshape(self.X.shape)
        D = y - self.X[i]
        around = self._around(i)
        q = self._shares(D @ self.K.mT, around)
        before = (self.O * U).sum(1)  # o_j · u_j
        without = before if self.score.normalised else torch.zeros_like(before)
        beta_u = (self.X[i] @ U.mT - without) / around.spare
        pairs = around.sharp_pairs(len(i))
        if pairs is not None:
            b, j = pairs
            beta_u = beta_u.index_put((b, j), ((self.X[i[b]] - around.outputs[j]) * U[j]).sum(1))
        rows = before + (q - around.share) * beta_u + q * (D @ U.mT)
        _, _, _, moved, _ = self._changed_row(y, D, i[:, None])
        return rows.scatter(1, i[:, None], (moved * U[i]).sum(1, keepdim=True)).sum(1)

    def attention(self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]) -> Float[Tensor, "b n"]:
        own, D = i[:, None], y - self.X[i]
        _, _, _, _, a_own = self._changed_row(y, D, own)
        return self._shares(D @ self.K.mT, self._around(i)).scatter(1, own, a_own)

    def _shares(self, DK: Float[Tensor, "b n"], around: LeaveOneOut) -> Float[Tensor, "b n"]:
        """q: the attention of the rows j ≠ i on the changed word."""
        return self.score.share(self.score.mass(around.score + DK), around.rest)

    # Features, and several changed rows ---------------------------------------------------------------------------

    def features(self, y: Tensor, i: Tensor) -> Float[Tensor, "b n d"]:
        check_candidates(self.X, y, i)
        return self._several(y, i) if i.ndim == 2 else self._several(y[:, None], i[:, None])

    def _several(self, y: Float[Tensor, "b m d"], i: Int[Tensor, "b m"]) -> Float[Tensor, "b n d"]:
        """The changed outputs, candidates that change the same rows together."""
        sets, which = torch.unique(i, dim=0, return_inverse=True)
        if len(sets) == 1:
            return self._same_rows(y, sets[0])
        out = y.new_empty((len(i), *self.X.shape))
        for s, rows in enumerate(sets):
            out = out.index_put((which == s,), self._same_rows(y[which == s], rows))
        return out

    def _same_rows(self, y: Float[Tensor, "b m d"], rows: Int[Tensor, " m"]) -> Float[Tensor, "b n d"]:
        X = self.X
        changed = torch.zeros(self.n, dtype=torch.bool, device=X.device)
        changed[rows] = True
        D = y - X[rows]
        # Rows that stay: the unchanged words act together as one, with output o⁻ and mass `rest`.
        others = self.S.masked_fill(changed, -torch.inf)[~changed]
        outside, rest = self.score.attend(others) @ X, self.score.pool(others)  # (n−m, d), (n−m,)
        s = self.S[~changed][:, rows] + (D @ self.K[~changed].mT).mT  # (b, n−m, m)
        if self.score.normalised:
            group = self.score.share(self.score.pool(s), rest)  # attention on all changed words together
            stays = (1 - group)[..., None] * outside + (group[..., None] * self.score.attend(s)) @ y
        else:
            stays = outside + self.score.attend(s) @ y
        # Rows that change: every score is new.
        t = y @ self.Q.mT  # (b, m, n)
        t = t.index_copy(2, rows, y @ self.W @ y.mT / math.sqrt(self.d))
        a = self.score.attend(t)
        moves = a @ X + a[:, :, rows] @ D
        out = y.new_empty((len(y), *X.shape))
        return out.index_copy(1, (~changed).nonzero()[:, 0], stays).index_copy(1, rows, moves)

    def bytes_per_candidate(self, m: int) -> int:
        per = 24 * self.n + 8 * self.d if m == 1 else 6 * self.X.numel() + 8 * m * self.n
        return per * self.X.element_size()


class _OneRowChange(torch.autograd.Function):
    """`change2` for one row, with the gradient that `slope_at` computes. Both have the same bits."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, i: Tensor, probe: AttentionProbe) -> Tensor:
        if not (ctx.needs_input_grad[0] or probe._short):
            return probe._one_row(y, probe._places(i), need_gradient=False)[0]
        value, gradient = probe.slope_at(i)(y)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_value: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return by_value[:, None] * gradient, None, None


@final
class RescoredProbe(KeyedProbe):
    """φ.at(X) for attention with a score that no grouping makes incremental (sparsemax).

    Changing word i to y changes column i and row i of the scores and no other entry, so those cost O(nd + d²):

        s'_ji = s_ji + K_j·(y − x_i)  (j ≠ i),    s'_il = Q_l·y  (l ≠ i),    s'_ii = y W y/√d

    Every weight of a row may depend on every score of it, so weights and outputs are made anew from them: O(n²d) for a
    candidate, where a forward pass would take O(nd² + n²d).
    """

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
